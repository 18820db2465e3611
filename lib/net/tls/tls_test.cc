#include <signal.h>
#include <sys/socket.h>

#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/base/text.h"
#include "lib/net/tls/openssl.h"
#include "lib/net/tls/session.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::tls {
namespace {

using async::Loop;
using async::Stream;
using async::Task;
using async::testing::run;
using async::testing::store_result;
using pen::testing::ManualClock;
using pen::testing::ScratchDir;
using testing::Authority;
using testing::Issued;
using Info = Result<SessionInfo>;
using Ask = ContextOptions::ClientCertificate;

Authority& authority() {
  static Authority ca("Test CA");
  return ca;
}
const Issued& mx() {
  static const Issued made = authority().issue({.common_name = "mx.example", .names = {"mx.example"}});
  return made;
}

struct Fixture {
  Fixture() { ::signal(SIGPIPE, SIG_IGN); }
  ScratchDir dir;
  Loop loop;
  std::string ca = dir.write("ca.pem", authority().certificate());
  int count = 0;

  CertificateFiles files(const Issued& issued) {
    const std::string n = std::to_string(++count);
    return {dir.write("cert" + n, issued.certificate + authority().certificate()), dir.write("key" + n, issued.key)};
  }
  ContextOptions server_options() {
    ContextOptions o;
    o.pairs = {files(mx())};
    o.tickets = std::make_shared<TicketKeys>("", seconds(3600), system_clock());
    return o;
  }
  ContextOptions client_options() {
    ContextOptions o;
    o.role = Role::client;
    o.ca_file = ca;
    return o;
  }
  static std::shared_ptr<const Context> open(ContextOptions o) {
    auto context = Context::open(std::move(o));
    BOOST_REQUIRE_MESSAGE(context.has_value(), (context ? "" : context.error().message()));
    return *context;
  }
};

/// One connection with the handshakes of both sides.
struct Session {
  Session(Loop& loop_in, std::shared_ptr<const Context> server_context, std::shared_ptr<const Context> client_context,
          ConnectOptions options = {})
      : loop(loop_in), pair(async::testing::stream_pair(loop)) {
    std::optional<Info> accepted;
    loop.spawn("server", store_result(accept(pair.a, std::move(server_context), {}), &accepted));
    client = run(loop, connect(pair.b, std::move(client_context), std::move(options), {}));
    if (!client) pair.b.close();
    for (int i = 0; !accepted && i < 1000; ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(accepted.has_value());
    server = *accepted;
  }
  void fine() const {
    BOOST_REQUIRE_MESSAGE(client.has_value(), (client ? "" : client.error().message()));
    BOOST_REQUIRE_MESSAGE(server.has_value(), (server ? "" : server.error().message()));
  }
  /// Sends a line from one stream to the other.
  static Task<std::string> tell(Stream* from, Stream* to, std::string line) {
    from->write(line + "\r\n");
    auto got = co_await to->read_line(4096);
    co_return got ? std::string(*got) : "error: " + got.error().message();
  }
  /// Sends a line each way: afterwards the client has read its session ticket.
  void talk() {
    fine();
    BOOST_TEST(run(loop, tell(&pair.b, &pair.a, "EHLO a")) == "EHLO a");
    BOOST_TEST(run(loop, tell(&pair.a, &pair.b, "250 ok")) == "250 ok");
  }
  Loop& loop;
  async::testing::Pair pair;
  Info client, server = fail(TlsError::handshake);
};

Task<bool> ends(Stream* s) {
  auto line = co_await s->read_line(100);
  co_return !line && line.error().is(async::WaitError::closed);
}
Task<std::string> failure(Stream* s, std::shared_ptr<const Context> context, async::Until until) {
  auto done = co_await accept(*s, std::move(context), until);
  co_return done ? "it worked" : done.error().message();
}

BOOST_FIXTURE_TEST_SUITE(tls, Fixture)

BOOST_AUTO_TEST_CASE(lines_and_large_data_cross_both_ways) {
  Session s(loop, open(server_options()), open(client_options()), {.names = {"mx.example"}});
  s.talk();
  BOOST_TEST(s.client->protocol == "TLSv1.3");
  BOOST_TEST(s.client->cipher == s.server->cipher);
  BOOST_TEST(s.client->matched);
  BOOST_TEST(s.server->key_exchange == "X25519");
  BOOST_TEST(s.server->server_signature == "ECDSA (prime256v1)");
  BOOST_TEST(s.server->server_digest == "SHA256");
  BOOST_TEST(log_line(*s.server, "from", "a[192.0.2.1]") ==
             "Anonymous TLS connection established from a[192.0.2.1]: TLSv1.3 with cipher "
             "TLS_AES_256_GCM_SHA384 (256/256 bits) key-exchange X25519 server-signature ECDSA "
             "(prime256v1) server-digest SHA256");

  // Pieces of all sizes, far more than the socket takes at once.
  std::string text;
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; text.size() < 3'000'000; ++i) {
    const std::size_t size = i % 7 == 0 ? 70'000 : (i * 37) % 900;
    text.append(size, static_cast<char>('a' + i % 26));
    cuts.push_back(size);
  }
  std::vector<Bytes> pieces;
  std::size_t at = 0;
  for (const std::size_t size : cuts) {
    pieces.push_back(as_bytes(std::string_view(text).substr(at, size)));
    at += size;
  }
  const auto send = [](Stream* to, std::vector<Bytes> data) -> Task<Result<void>> {
    co_return co_await to->write_all(data);
  };
  std::optional<Result<void>> sent;
  loop.spawn("sender", store_result(send(&s.pair.b, pieces), &sent));
  const auto receive = [](Stream* from, std::size_t size) -> Task<std::string> {
    auto got = co_await from->read_exact(size);
    co_return got ? std::string(*got) : "error: " + got.error().message();
  };
  BOOST_TEST((run(loop, receive(&s.pair.a, text.size())) == text));
  BOOST_TEST((sent.has_value() && sent->has_value()));
}

BOOST_AUTO_TEST_CASE(a_write_given_up_while_its_record_may_be_on_the_way_breaks_the_stream) {
  Session s(loop, open(server_options()), open(client_options()));
  s.talk();
  const std::string text(4 << 20, 'x');
  const auto send = [](Stream* to, Bytes data, async::Until until) -> Task<bool> {
    const Bytes pieces[] = {data};
    auto sent = co_await to->write_all(pieces, until);
    co_return sent.has_value();
  };
  const auto put = [&](std::string_view data) {
    return run(loop, send(&s.pair.b, as_bytes(data), {.deadline = loop.now() + milliseconds(20)}));
  };
  // Nobody reads: the kernel's buffer fills up at the end of a record, and OpenSSL then holds bytes of the last
  // record.
  BOOST_TEST(!put(text));
  BOOST_TEST(s.pair.b.broken());
}

BOOST_AUTO_TEST_CASE(what_came_before_a_write_failed_is_still_given_and_no_more) {
  Session s(loop, open(server_options()), open(client_options()));
  s.talk();
  s.pair.a.write("421 going away\r\n");
  for (int i = 0; i < 100 && !s.pair.b.poll_input(); ++i) loop.run_once(milliseconds(10));
  s.pair.a.close();
  for (int i = 0; i < 100 && !s.pair.b.broken(); ++i) {
    s.pair.b.write("NOOP\r\n");
    loop.run_once(milliseconds(10));
  }
  BOOST_TEST(s.pair.b.broken());
  const auto read = [](Stream* from) -> Task<std::string> {
    auto line = co_await from->read_line(100);
    co_return line ? std::string(*line) : "error";
  };
  BOOST_TEST(run(loop, read(&s.pair.b)) == "421 going away");
  BOOST_TEST(run(loop, read(&s.pair.b)) == "error");
}

BOOST_AUTO_TEST_CASE(the_end_is_told_and_its_absence_is_noticed) {
  {
    Session s(loop, open(server_options()), open(client_options()));
    s.talk();
    BOOST_TEST(run(loop, s.pair.b.shutdown({})).has_value());
    BOOST_TEST(run(loop, ends(&s.pair.a)));
    BOOST_TEST(!s.pair.a.cut_short());
  }
  Session s(loop, open(server_options()), open(client_options()));
  s.talk();
  ::shutdown(s.pair.b.fd(), SHUT_WR);
  BOOST_TEST(run(loop, ends(&s.pair.a)));
  BOOST_TEST(s.pair.a.cut_short());
  // The other direction still works: a client that ends its output still gets replies.
  BOOST_TEST(run(loop, Session::tell(&s.pair.a, &s.pair.b, "250 ok")) == "250 ok");
}

BOOST_AUTO_TEST_CASE(who_does_not_speak_tls_is_told_apart_from_who_leaves_and_who_is_silent) {
  const auto context = open(server_options());
  {
    auto [a, b] = async::testing::stream_pair(loop);
    b.write("EHLO injected\r\nMAIL FROM:<>\r\n");
    const std::string why = run(loop, failure(&a, context, {}));
    BOOST_TEST(why.find("TLS handshake failed") != std::string::npos);
    BOOST_TEST(why.find("wrong version number") != std::string::npos);
  }
  {
    auto [a, b] = async::testing::stream_pair(loop);
    b.close();
    BOOST_TEST(run(loop, failure(&a, context, {})) == "connection lost in the TLS handshake");
  }
  auto [a, b] = async::testing::stream_pair(loop);
  b.write(std::string("\x16\x03\x01\x00", 4));  // the beginning of a record
  BOOST_TEST(run(loop, failure(&a, context, {.deadline = loop.now() + milliseconds(50)})) == "timed out");
}

BOOST_AUTO_TEST_CASE(protocols_are_bounded_by_the_context_and_by_the_connection) {
  auto options = server_options();
  options.protocols = *Protocols::parse("!SSLv2, !SSLv3, !TLSv1, !TLSv1.1, !TLSv1.3");
  const auto server = open(options);
  Session old(loop, server, open(client_options()));
  old.talk();
  BOOST_TEST(old.server->protocol == "TLSv1.2");
  BOOST_TEST(old.server->key_exchange == "");
  Session none(loop, server, open(client_options()), {.protocols = *Protocols::parse(">=TLSv1.3")});
  BOOST_TEST(!none.client);
  BOOST_TEST(none.client.error().message().find("protocol version") != std::string::npos);
  BOOST_TEST(none.server.error().message().find("unsupported protocol") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ciphers_are_bounded_by_the_context_and_by_the_connection) {
  auto options = server_options();
  options.protocols = *Protocols::parse("<=TLSv1.2");
  options.ciphers = cipher_list("HIGH", {"AES128, SHA1:SHA256"});
  const auto server = open(options);
  Session s(loop, server, open(client_options()),
            {.ciphers = "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256"});
  s.fine();
  BOOST_TEST(s.client->cipher == "ECDHE-ECDSA-CHACHA20-POLY1305");
  Session none(loop, server, open(client_options()), {.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256"});
  BOOST_TEST(none.server.error().message().find("no shared cipher") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(tickets_resume_sessions_and_carry_what_was_verified) {
  for (const char* protocols : {"<=TLSv1.2", ">=TLSv1.3"}) {
    BOOST_TEST_CONTEXT(protocols) {
      ManualClock clock;
      const auto keys = std::make_shared<TicketKeys>("", seconds(3600), clock);
      auto options = server_options();
      options.protocols = *Protocols::parse(protocols);
      options.tickets = keys;
      auto asking = client_options();
      asking.sessions = memory_session_cache(10, seconds(3600), clock);
      const auto client = open(asking);
      const ConnectOptions to{.names = {"mx.example"}, .session_key = "mx.example:25"};
      Session first(loop, open(options), client, to);
      first.talk();
      BOOST_TEST(!first.server->resumed);
      Session second(loop, open(options), client, to);  // another process with the same keys
      second.talk();
      BOOST_TEST(second.server->resumed);
      BOOST_TEST(second.client->resumed);
      BOOST_TEST(second.client->matched);
      BOOST_TEST(second.client->fingerprint == first.client->fingerprint);
      Session other(loop, open(options), client, {.session_key = "other:25"});
      other.talk();
      BOOST_TEST(!other.server->resumed);
      auto stranger = options;
      stranger.tickets = std::make_shared<TicketKeys>("", seconds(3600), clock);
      Session unknown(loop, open(stranger), client, to);
      unknown.talk();
      BOOST_TEST(!unknown.server->resumed);
      BOOST_TEST(!unknown.client->resumed);
      // The key has aged: it still opens tickets, and the client gets a ticket made with the new key.
      Session again(loop, open(options), client, to);
      again.talk();
      clock.advance(seconds(3500));
      Session late(loop, open(options), client, to);
      late.talk();
      clock.advance(seconds(3500));
      Session later(loop, open(options), client, to);
      later.talk();
      BOOST_TEST(!later.server->resumed);  // the cache's lifetime is over
    }
  }
}

BOOST_AUTO_TEST_CASE(the_session_cache_is_bounded_and_forgets) {
  ManualClock clock;
  const auto cache = memory_session_cache(2, seconds(10), clock);
  cache->put("a", "1");
  cache->put("b", "2");
  BOOST_TEST((cache->find("a") == "1"));
  cache->put("c", "3");  // b was used longest ago
  BOOST_TEST(!cache->find("b"));
  BOOST_TEST((cache->find("a") == "1"));
  cache->put("a", "4");
  BOOST_TEST((cache->find("a") == "4"));
  cache->forget("a");
  BOOST_TEST(!cache->find("a"));
  clock.advance(seconds(10));
  BOOST_TEST(!cache->find("c"));
}

BOOST_AUTO_TEST_CASE(a_certificate_is_trusted_and_matched_apart) {
  const auto server = open(server_options());
  struct Row {
    std::vector<std::string> names;
    bool with_ca, trusted, matched;
  };
  const Row rows[] = {{{"mx.example"}, true, true, true},    {{"other.example", "MX.example"}, true, true, true},
                      {{".example"}, true, true, true},      {{"other.example"}, true, true, false},
                      {{"mx.example"}, false, false, false}, {{}, true, true, false}};
  for (const auto& row : rows) {
    auto options = client_options();
    if (!row.with_ca) options.ca_file.clear();
    Session s(loop, server, open(options), {.names = row.names});
    s.fine();
    BOOST_TEST(s.client->trusted == row.trusted);
    BOOST_TEST(s.client->matched == row.matched);
    BOOST_TEST(s.client->subject == "mx.example");
    BOOST_TEST(s.client->issuer == "Test CA");
    BOOST_TEST((s.client->names == std::vector<std::string>{"mx.example"}));
    BOOST_TEST(s.client->fingerprint.size() == 95U);
    options.legacy_key_digest = true;  // tls_legacy_public_key_fingerprints
    Session legacy(loop, server, open(options), {.names = row.names});
    legacy.fine();
    BOOST_TEST(legacy.client->fingerprint == s.client->fingerprint);
    BOOST_TEST(legacy.client->key_fingerprint.size() == 95U);
    BOOST_TEST(legacy.client->key_fingerprint != s.client->key_fingerprint);
    BOOST_TEST(s.client->why_not.empty() == (row.matched || row.names.empty()));
  }
  auto expired = server_options();
  expired.pairs = {files(authority().issue({.common_name = "mx.example", .days_left = -1}))};
  Session s(loop, open(expired), open(client_options()), {.names = {"mx.example"}});
  s.fine();
  BOOST_TEST(!s.client->trusted);
  BOOST_TEST(s.client->why_not == "certificate has expired");
}

BOOST_AUTO_TEST_CASE(strict_names_are_dns_names_and_a_wildcard_is_one_label) {
  struct Row {
    std::vector<std::string> names;  // of the certificate; its common name is mx.in.d.example
    std::string asked;
    bool matched, strictly;
  };
  const Row rows[] = {
      {{"mx.in.d.example"}, "mx.in.d.example", true, true},   {{}, "mx.in.d.example", true, false},
      {{"*.in.d.example"}, "mx.in.d.example", true, true},    {{"*.d.example"}, "mx.in.d.example", true, false},
      {{"m*.in.d.example"}, "mx.in.d.example", false, false}, {{"mx.*.d.example"}, "mx.in.d.example", false, false},
      {{"other.example"}, "mx.in.d.example", false, false},   {{"*.in.d.example"}, "in.d.example", false, false}};
  for (const auto& row : rows) {
    auto served = server_options();
    served.pairs = {files(authority().issue({.common_name = "mx.in.d.example", .names = row.names}))};
    const auto server = open(served);
    auto options = client_options();
    options.wildcard_matches_several_labels = true;
    for (const bool strict : {false, true}) {
      Session s(loop, server, open(options), {.names = {row.asked}, .strict_names = strict});
      s.fine();
      BOOST_TEST(s.client->trusted);
      BOOST_TEST(s.client->matched == (strict ? row.strictly : row.matched), join(row.names)
                                                                                 << " " << row.asked << " " << strict);
    }
  }
}

BOOST_AUTO_TEST_CASE(dane_counts_its_records_and_nothing_else) {
  Authority own("nobody knows it");
  const Issued issued = own.issue({.common_name = "elsewhere.example", .days_left = -1});
  auto options = server_options();
  options.pairs = {{dir.write("own", issued.certificate + own.certificate()), dir.write("k", issued.key)}};
  const auto server = open(options);
  const auto client = open(client_options());
  const std::string leaf = Authority::key_hash(issued.certificate);
  Session by_key(loop, server, client, {.names = {"mx.example"}, .tlsa = {{3, 1, 1, leaf}}, .tlsa_base = "mx.example"});
  by_key.fine();
  BOOST_TEST(by_key.client->matched);  // neither name nor date counts (RFC 7672 section 3.1.1)
  Session wrong(loop, server, client, {.tlsa = {{3, 1, 1, std::string(32, 'x')}}, .tlsa_base = "mx.example"});
  wrong.fine();
  BOOST_TEST(!wrong.client->trusted);
  // DANE-TA: name and date count.
  const Issued good = own.issue({.common_name = "mx.example", .names = {"mx.example"}});
  options.pairs = {{dir.write("own2", good.certificate + own.certificate()), dir.write("k2", good.key)}};
  const auto second = open(options);
  const std::string anchor = Authority::key_hash(own.certificate());
  Session by_anchor(loop, second, client, {.tlsa = {{2, 1, 1, anchor}}, .tlsa_base = "mx.example"});
  by_anchor.fine();
  BOOST_TEST(by_anchor.client->matched);
  Session other_name(loop, second, client, {.tlsa = {{2, 1, 1, anchor}}, .tlsa_base = "other.example"});
  other_name.fine();
  BOOST_TEST(!other_name.client->trusted);
  Session unusable(loop, second, client, {.tlsa = {{3, 1, 9, "?"}}, .tlsa_base = "mx.example"});
  BOOST_TEST(unusable.client.error().message().find("TLSA") != std::string::npos);
}

/// A server with a certificate, and a client's verdict on it by TLSA records.
struct Anchored : Fixture {
  Authority own{"its own"};
  std::shared_ptr<const Context> client = open(client_options());
  std::shared_ptr<const Context> serves(const std::string& chain, const std::string& key) {
    auto options = server_options();
    options.pairs = {{dir.write("own", chain), dir.write("own.key", key)}};
    return open(options);
  }
  std::string found(const std::shared_ptr<const Context>& server, std::vector<Tlsa> records,
                    std::vector<std::string> names = {}) {
    Session s(loop, server, client, {.names = std::move(names), .tlsa = std::move(records), .tlsa_base = "mx.example"});
    if (!s.client) return s.client.error().message();
    return s.client->matched ? "verified" : s.client->why_not;
  }
};

BOOST_FIXTURE_TEST_CASE(dane_of_several_digests_takes_the_strongest, Anchored) {
  const Issued mx = own.issue({.common_name = "mx.example", .names = {"mx.example"}});
  const auto server = serves(mx.certificate + own.certificate(), mx.key);
  const Tlsa weak{3, 1, 1, Authority::key_hash(mx.certificate)};
  const Tlsa strong{3, 1, 2, Authority::key_hash(mx.certificate, "SHA512")};
  const Tlsa whole{3, 1, 0, Authority::key_der(mx.certificate)};
  const Tlsa wrong_weak{3, 1, 1, std::string(32, 'x')}, wrong_strong{3, 1, 2, std::string(64, 'x')};
  BOOST_TEST(found(server, {weak}) == "verified");
  BOOST_TEST(found(server, {strong, wrong_weak}) == "verified");
  // RFC 7671 section 9: a weaker digest does not count beside a stronger one of the same usage and selector.
  BOOST_TEST(found(server, {weak, wrong_strong}) != "verified");
  BOOST_TEST(found(server, {wrong_strong, weak}) != "verified");
  // A record with the whole data always counts, and so does one with another selector.
  BOOST_TEST(found(server, {whole, wrong_strong}) == "verified");
  BOOST_TEST(found(server, {{3, 0, 2, std::string(64, 'x')}, weak}) == "verified");
}

BOOST_FIXTURE_TEST_CASE(dane_of_several_records_needs_one_that_matches, Anchored) {
  const Issued mx = own.issue({.common_name = "mx.example", .names = {"mx.example"}});
  const auto server = serves(mx.certificate + own.certificate(), mx.key);
  const Tlsa right{3, 1, 1, Authority::key_hash(mx.certificate)};
  const Tlsa next{3, 1, 1, std::string(32, 'n')};  // of the next key
  BOOST_TEST(found(server, {next, right}) == "verified");
  BOOST_TEST(found(server, {{2, 1, 1, std::string(32, 'n')}, right}) == "verified");
  BOOST_TEST(found(server, {next}) != "verified");
}

BOOST_FIXTURE_TEST_CASE(dane_ta_needs_the_anchor_in_the_chain_or_in_the_record, Anchored) {
  const Issued mx = own.issue({.common_name = "mx.example", .names = {"mx.example"}});
  const Tlsa by_digest{2, 1, 1, Authority::key_hash(own.certificate())};
  const Tlsa by_key{2, 1, 0, Authority::key_der(own.certificate())};
  const auto without = serves(mx.certificate, mx.key);
  BOOST_TEST(found(without, {by_digest}) != "verified");
  BOOST_TEST(found(without, {by_key}) == "verified");
  const auto with = serves(mx.certificate + own.certificate(), mx.key);
  BOOST_TEST(found(with, {by_digest}) == "verified");
}

BOOST_FIXTURE_TEST_CASE(dane_ta_needs_a_certificate_that_the_anchor_signed, Anchored) {
  Authority other("somebody else");
  const Issued forged = other.issue({.common_name = "mx.example", .names = {"mx.example"}});
  const auto server = serves(forged.certificate + own.certificate(), forged.key);
  BOOST_TEST(found(server, {{2, 1, 1, Authority::key_hash(own.certificate())}}) != "verified");
}

BOOST_FIXTURE_TEST_CASE(dane_ta_needs_a_certificate_that_is_valid_today, Anchored) {
  const Issued old = own.issue({.common_name = "mx.example", .names = {"mx.example"}, .days_left = -1});
  const auto server = serves(old.certificate + own.certificate(), old.key);
  const Tlsa anchor{2, 1, 1, Authority::key_hash(own.certificate())};
  BOOST_TEST(found(server, {anchor}) == "certificate has expired");
}

BOOST_FIXTURE_TEST_CASE(dane_ta_takes_any_of_the_names_and_wildcards_of_a_whole_label, Anchored) {
  const Tlsa anchor{2, 1, 1, Authority::key_hash(own.certificate())};
  const struct {
    std::string in_certificate;
    bool matches;
  } rows[] = {{"mx.example", true},    {"d.example", true},       {"other.example", false}, {"*.d.example", true},
              {"m*.d.example", false}, {"*.mx.d.example", false}, {"*.example", false},     {"*", false}};
  for (const auto& row : rows) {
    const Issued mx = own.issue({.common_name = "x", .names = {row.in_certificate}});
    const auto server = serves(mx.certificate + own.certificate(), mx.key);
    BOOST_TEST((found(server, {anchor}, {"mx.example", "d.example", "mx.d.example"}) == "verified") == row.matches,
               row.in_certificate);
  }
}

// tls_trust_server_ccerts
BOOST_AUTO_TEST_CASE(client_certificates_for_servers_are_trusted_only_if_asked) {
  struct Row {
    const char* use;
    bool usual, relaxed;
  };
  for (const Row& row : {Row{"", true, true},
                         {"clientAuth", true, true},
                         {"serverAuth", false, true},
                         {"serverAuth,clientAuth", true, true},
                         {"codeSigning", false, false}}) {
    ContextOptions with = client_options();
    with.pairs = {files(authority().issue({.common_name = "client.example", .use = row.use}))};
    const auto client = open(with);
    for (const bool relaxed : {false, true}) {
      ContextOptions options = server_options();
      options.ca_file = ca;
      options.client_certificate = Ask::asked;
      options.trust_server_certificates = relaxed;
      Session s(loop, open(options), client);
      s.fine();
      BOOST_TEST(s.server->trusted == (relaxed ? row.relaxed : row.usual), row.use << " " << relaxed);
    }
  }
}

// tls_disable_workarounds
BOOST_AUTO_TEST_CASE(work_arounds_are_switched_off_by_name_or_number) {
  const auto bits = [&](std::vector<std::string> disabled) {
    ContextOptions options = server_options();
    options.disabled_workarounds = std::move(disabled);
    return SSL_CTX_get_options(open(options)->impl().ctx.get());
  };
  const std::uint64_t all = bits({});
  BOOST_TEST((all & SSL_OP_ALL) == SSL_OP_ALL);
  BOOST_TEST(bits({"TLSEXT_PADDING", "dont_insert_empty_fragments"}) ==
             (all & ~(SSL_OP_TLSEXT_PADDING | SSL_OP_DONT_INSERT_EMPTY_FRAGMENTS)));
  BOOST_TEST(bits({"0xFFFFFFFF"}) == (all & ~SSL_OP_ALL));
  BOOST_TEST(bits({"CVE-2010-4180"}) == all);  // without effect for long
  ContextOptions options = server_options();
  options.disabled_workarounds = {"NO_SUCH"};
  BOOST_TEST_REQUIRE(open(options)->warnings().size() == 1u);
  BOOST_TEST(open(options)->warnings()[0] == "tls_disable_workarounds: unknown name NO_SUCH");
}

BOOST_AUTO_TEST_CASE(client_certificates_are_asked_for_and_required) {
  const Issued own = authority().issue({.common_name = "client.example"});
  auto with = client_options();
  with.pairs = {files(own)};
  auto options = server_options();
  options.ca_file = ca;
  Session unasked(loop, open(options), open(with));
  unasked.fine();
  BOOST_TEST(!unasked.server->peer_certificate);
  options.client_certificate = Ask::asked;
  Session asked(loop, open(options), open(with));
  asked.fine();
  BOOST_TEST(asked.server->trusted);
  BOOST_TEST(asked.server->subject == "client.example");
  BOOST_TEST(trust_word(*asked.server) == "Trusted");
  BOOST_TEST(asked.server->client_signature == "ECDSA (prime256v1)");
  Session none(loop, open(options), open(client_options()));
  none.fine();
  BOOST_TEST(!none.server->peer_certificate);
  options.ca_file.clear();
  Session untrusted(loop, open(options), open(with));
  untrusted.fine();
  BOOST_TEST(untrusted.server->peer_certificate);
  BOOST_TEST(!untrusted.server->trusted);
  options.client_certificate = Ask::required;
  Session refused(loop, open(options), open(client_options()));
  BOOST_TEST(!refused.server);
  BOOST_TEST(refused.server.error().message().find("did not return a certificate") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(server_names_choose_certificates) {
  const Issued other = authority().issue({.common_name = "other.example"});
  auto options = server_options();
  options.find_chain = [&](std::string_view name) -> Result<std::optional<std::string>> {
    if (name == "other.example") return other.key + other.certificate + authority().certificate();
    if (name == "broken.example") return "no PEM at all";
    if (name == "failing.example") return fail(TlsError::setup, "table");
    return std::nullopt;
  };
  const auto server = open(options);
  const auto client = open(client_options());
  const auto subject = [&](const std::string& name) {
    Session s(loop, server, client, {.server_name = name});
    return s.client ? s.client->subject : s.client.error().message();
  };
  BOOST_TEST(subject("other.example") == "other.example");
  BOOST_TEST(subject("unknown.example") == "mx.example");
  BOOST_TEST(subject("") == "mx.example");
  BOOST_TEST(subject("broken.example").find("internal error") != std::string::npos);
  BOOST_TEST(subject("failing.example").find("internal error") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(several_kinds_of_certificates_and_chain_files_work_together) {
  const Issued rsa = authority().issue({.common_name = "rsa.example", .rsa = 2048});
  ContextOptions options = server_options();
  options.pairs.clear();
  options.chain_files = {dir.write("chain", mx().key + mx().certificate + authority().certificate() + rsa.key +
                                                rsa.certificate + authority().certificate())};
  options.protocols = *Protocols::parse("<=TLSv1.2");
  const auto server = open(options);
  Session a(loop, server, open(client_options()), {.ciphers = "aRSA"});
  a.fine();
  BOOST_TEST(a.client->subject == "rsa.example");
  BOOST_TEST(a.client->trusted);
  Session b(loop, server, open(client_options()), {.ciphers = "aECDSA"});
  b.fine();
  BOOST_TEST(b.client->subject == "mx.example");
}

BOOST_AUTO_TEST_CASE(of_certificates_with_keys_of_one_kind_the_last_one_is_used_with_a_warning) {
  const Issued second = authority().issue({.common_name = "second.example"});
  ContextOptions options = server_options();
  options.pairs.clear();
  options.chain_files = {dir.write("chain", mx().key + mx().certificate + second.key + second.certificate)};
  const auto server = open(options);
  BOOST_TEST_REQUIRE(server->warnings().size() == 1u);
  BOOST_TEST(server->warnings()[0].contains("of one kind (EC)"));
  Session session(loop, server, open(client_options()));
  session.fine();
  BOOST_TEST(session.client->subject == "second.example");
}

BOOST_AUTO_TEST_CASE(keys_and_certificates_of_neighbouring_chain_files_belong_together) {
  const Issued rsa = authority().issue({.common_name = "rsa.example", .rsa = 2048});
  const std::string params = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
  const std::map<std::string_view, std::string> blocks = {
      {"key", mx().key},
      {"cert", mx().certificate},
      {"rsa-key", rsa.key},
      {"rsa-cert", rsa.certificate},
      {"issuer", authority().certificate()},
      {"params", params},
      {"text", "Bag Attributes\n    friendlyName: mx\n"},
      {"pkcs1", Authority::traditional_key(rsa.key)},
      {"sec1", Authority::traditional_key(mx().key)},
      {"empty", ""},
  };
  const struct {
    std::string_view files, result;  // files of blocks with + between; the certificates that are used, or the error
  } rows[] = {
      {"key cert", "ECDSA"},
      {"key cert+issuer", "ECDSA"},
      {"key cert issuer", "ECDSA"},
      {"key+cert", "ECDSA"},
      {"key+cert issuer", "ECDSA"},
      {"key cert rsa-key rsa-cert", "ECDSA RSA"},
      {"rsa-key rsa-cert+issuer key cert+issuer", "ECDSA RSA"},
      {"key+cert rsa-key rsa-cert", "ECDSA RSA"},
      {"key cert+rsa-key rsa-cert", "ECDSA RSA"},
      {"key cert+rsa-key+rsa-cert", "ECDSA RSA"},
      {"key+cert rsa-key+rsa-cert", "ECDSA RSA"},
      {"params+key cert", "ECDSA"},
      {"params key cert", "ECDSA"},
      {"key params+cert", "ECDSA"},
      {"text+key text+cert text", "ECDSA"},
      {"key empty cert", "ECDSA"},
      {"sec1 cert pkcs1 rsa-cert", "ECDSA RSA"},
      {"params+sec1+cert", "ECDSA"},
      {"cert key", "f0: a certificate comes first; the key goes before its certificate"},
      {"cert+key", "f0: a certificate comes first; the key goes before its certificate"},
      {"key", "f0: no certificate behind the key"},
      {"key cert rsa-key", "f2: no certificate behind the key"},
      {"key rsa-key cert rsa-cert", "f1: a key follows a key; each goes before its certificate"},
      {"key+rsa-key", "f0: a key follows a key; each goes before its certificate"},
      {"key rsa-cert", "f0 is not the key of the certificate behind it, in f1"},
      {"key+rsa-cert", "f0: the key is not that of the certificate behind it"},
      {"key issuer cert", "f0 is not the key of the certificate behind it, in f1"},
      {"params empty", "f0 f1: contains no key and certificate"},
  };
  for (const auto& row : rows) {
    ContextOptions options = server_options();
    options.pairs.clear();
    for (const auto file : split(row.files, " ")) {
      std::string text;
      for (const auto block : split(file, "+")) text += blocks.at(block);
      options.chain_files.push_back(dir.write("f" + std::to_string(options.chain_files.size()), text));
    }
    options.protocols = *Protocols::parse("<=TLSv1.2");
    std::string got;
    const auto server = Context::open(options);
    if (!server) {
      got = server.error().context();
      const std::string folder = dir.path().string() + "/";
      for (auto at = got.find(folder); at != std::string::npos; at = got.find(folder)) got.erase(at, folder.size());
    }
    for (const char* kind : {"ECDSA", "RSA"}) {
      if (!server) break;
      Session s(loop, *server, open(client_options()), {.ciphers = std::string("a") + kind});
      if (s.client && s.client->trusted) got += (got.empty() ? "" : " ") + std::string(kind);
    }
    BOOST_TEST(got == row.result, row.files << ": " << got << ", not " << row.result);
  }
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_the_files_is_said) {
  const auto problem = [](ContextOptions options) {
    auto context = Context::open(std::move(options));
    return context ? std::string("fine") : context.error().message();
  };
  const auto has = [&](const ContextOptions& options, std::string_view text) {
    const std::string said = problem(options);
    BOOST_TEST(said.find(text) != std::string::npos, said);
  };
  ContextOptions o = server_options();
  const auto good = o.pairs[0];
  o.pairs = {{dir.file("absent"), good.key_file}};
  has(o, "absent: cannot be read: No such file");
  o.pairs = {{good.cert_file, files(authority().issue({.common_name = "x"})).key_file}};
  has(o, "is not the key of the certificate in");
  o.pairs = {{dir.write("text", "hello"), good.key_file}};
  has(o, "text: no certificate in it");
  o.pairs = {{good.cert_file, ""}};
  has(o, "no usable private key");
  o.pairs = {{good.cert_file, dir.write("locked",
                                        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n"
                                        "-----END ENCRYPTED PRIVATE KEY-----\n")}};
  has(o, "no usable private key");
  o.pairs.clear();
  has(o, "needs a certificate");
  o.chain_files = {dir.write("wrong_order", mx().certificate + mx().key)};
  has(o, "the key goes before its certificate");
  o.chain_files = {dir.write("key_alone", mx().key)};
  has(o, "no certificate behind the key");
  o.chain_files.clear();
  o.pairs = {good};
  o.ca_file = dir.file("no_ca");
  has(o, "no_ca: cannot be read");
  o.ca_file.clear();
  o.ciphers = "NONSENSE";
  has(o, "cipher list \"NONSENSE\"");
  o = server_options();
  o.digest = "sha1234";
  has(o, "digest \"sha1234\"");
}

BOOST_AUTO_TEST_CASE(protocols_are_read_in_both_syntaxes) {
  const auto shown = [](std::string_view text) {
    const auto p = Protocols::parse(text);
    std::string out;
    for (const auto v : std::initializer_list<std::uint16_t>{0x0301, 0x0302, 0x0303, 0x0304})
      if (p && p->permits(v)) out += std::string(protocol_name(v)) + " ";
    return p ? out : "error: " + p.error().message();
  };
  BOOST_TEST(shown("") == "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown(">=TLSv1") == "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown(">=TLSv1.2") == "TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown(">=TLSv1.1, <=tlsv1.2") == "TLSv1.1 TLSv1.2 ");
  BOOST_TEST(shown(">=0303") == "TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown("!SSLv2, !SSLv3") == "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown("!SSLv2:!SSLv3 !TLSv1,!TLSv1.1") == "TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown("TLSv1.2, TLSv1.3") == "TLSv1.2 TLSv1.3 ");
  BOOST_TEST(shown("TLSv1.2") == "TLSv1.2 ");
  BOOST_TEST(shown("SSLv3, TLSv1.2, !TLSv1.3") == "TLSv1.2 ");
  BOOST_TEST(shown("!TLSv1.2, >=TLSv1.2") == "TLSv1.3 ");
  for (const char* bad : {"TLSv9", ">=", ">=99", "!", "<=SSLv3", ">=TLSv1.3, !TLSv1.3", "SSLv2"})
    BOOST_TEST(shown(bad).starts_with("error: "), bad);
  BOOST_TEST(cipher_list("HIGH", {"RC4:aNULL", "3DES, !MD5"}) == "HIGH:!RC4:!aNULL:!3DES:!MD5");
}

BOOST_AUTO_TEST_CASE(the_share_that_a_client_sends_at_once_fits_a_packet) {
  const std::vector<std::string> hybrid = {"X25519MLKEM768", "SecP256r1MLKEM768", "X25519", "prime256v1"};
  BOOST_TEST(groups_list(hybrid, true) == "X25519MLKEM768:SecP256r1MLKEM768:*X25519:prime256v1");
  BOOST_TEST(groups_list(hybrid, false) == "X25519MLKEM768:SecP256r1MLKEM768:X25519:prime256v1");
  BOOST_TEST(groups_list({"X25519", "X25519MLKEM768"}, true) == "X25519:X25519MLKEM768");
  BOOST_TEST(groups_list({"X25519MLKEM768"}, true) == "X25519MLKEM768");
  BOOST_TEST(groups_list({}, true) == "");
}

BOOST_AUTO_TEST_CASE(many_handshakes_that_stop_half_way_are_given_back) {
  const auto context = open(server_options());
  const std::size_t frames = async::live_frames();
  {
    std::vector<async::testing::Pair> pairs;
    async::Gate gate(loop);
    const auto wait = [](Stream* s, std::shared_ptr<const Context> c, async::Until until) -> Task<void> {
      auto done = co_await accept(*s, std::move(c), until);
      BOOST_TEST(!done);
      s->close();
    };
    pairs.reserve(100);
    for (int i = 0; i < 100; ++i) {
      pairs.push_back(async::testing::stream_pair(loop));
      pairs.back().b.write(std::string("\x16\x03\x01\x02", 4));
      gate.spawn("s", wait(&pairs.back().a, context, {.deadline = loop.now() + milliseconds(30)}));
    }
    for (int i = 0; gate.size() != 0 && i < 1000; ++i) loop.run_once(milliseconds(10));
    BOOST_TEST(gate.size() == 0U);
  }
  BOOST_TEST(async::live_frames() == frames);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tls
