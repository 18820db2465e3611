#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/base/async/testing/run.h"
#include "lib/base/log.h"
#include "lib/net/tls/session.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/scratch.h"
#include "smtpd/limits_fixture.h"
#include "smtpd/session_fixture.h"

namespace pen::smtpd {
namespace {

using pen::testing::ScratchDir;
using tls::testing::Authority;

/// A server with a certificate, and a client that can speak TLS.
struct TlsRig {
  explicit TlsRig(const std::string& settings = "smtpd_tls_security_level = may\n")
      : ca("Test CA"), rig(files(settings)) {
    ::signal(SIGPIPE, SIG_IGN);  // as in every program of the suite
    // The rig's own configuration has no directory for tickets and no table: read it as smtpd does.
    config::Surroundings surroundings;
    surroundings.hostname = "mx.example.org";
    const auto config = config::Config::parse(
        {.directory = "/", .main_cf = files(settings), .master_cf = {}, .overrides = {}}, surroundings);
    rig.server.tls = ServerTls::open(config, rig.clock);
    if (rig.server.tls) problems = rig.server.tls->take_warnings();
    tls::ContextOptions options;
    options.role = tls::Role::client;
    client_context = *tls::Context::open(std::move(options));
  }

  std::string files(const std::string& settings) {
    if (cert.empty()) put("mx.example.org");
    return settings + "smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + key +
           "\ndata_directory = " + dir.path().string() + "\n";
  }
  void put(const std::string& name) {
    const auto made = ca.issue({.common_name = name});
    cert = dir.write("cert", made.certificate);
    key = dir.write("key", made.key);
  }
  /// STARTTLS and the handshake; returns the server's name. After it the client sends with tell().
  std::string starttls() {
    rig.connect();
    if (const auto said = rig.say("STARTTLS\r\n"); !said.starts_with("220 2.0.0")) return said;
    stream = std::make_unique<async::Stream>(rig.loop, Fd(std::exchange(rig.client, -1)));
    auto done = async::testing::run(
        rig.loop, tls::connect(*stream, client_context, {}, {.deadline = rig.loop.now() + seconds(9)}));
    return done ? done->subject : done.error().message();
  }
  static async::Task<std::string> line(async::Stream* s, std::string text) {
    s->write(text + "\r\n");
    for (;;) {
      auto got = co_await s->read_line(1000);
      if (!got) co_return got.error().message();
      if (got->size() > 3 && (*got)[3] == ' ') co_return std::string(*got);
    }
  }
  std::string tell(const std::string& text) { return async::testing::run(rig.loop, line(stream.get(), text)); }

  ScratchDir dir;
  Authority ca;
  std::string cert, key;
  std::vector<std::string> problems;
  testing::Rig rig;
  std::shared_ptr<const tls::Context> client_context;
  std::unique_ptr<async::Stream> stream;
};

BOOST_AUTO_TEST_SUITE(session_tls)

BOOST_AUTO_TEST_CASE(what_was_said_in_clear_text_is_forgotten) {
  TlsRig r("smtpd_tls_security_level = may\nsmtpd_helo_required = yes\n");
  r.rig.connect();
  BOOST_TEST(r.rig.say("EHLO a\r\n").find("250-STARTTLS\r\n") != std::string::npos);
  BOOST_TEST(r.starttls() == "mx.example.org");
  BOOST_TEST(r.tell("MAIL FROM:<a@b.example>") == "503 5.5.1 Error: send HELO/EHLO first");
  BOOST_TEST(r.tell("STARTTLS") == "503 5.5.1 Error: TLS already active");
  BOOST_TEST(r.tell("EHLO a").starts_with("250 "));
  BOOST_TEST(r.tell("MAIL FROM:<a@b.example>") == "250 2.1.0 Ok");
  BOOST_TEST(r.tell("QUIT") == "221 2.0.0 Bye");
}

BOOST_AUTO_TEST_CASE(smtpd_tls_loglevel_maps_decide_by_the_client) {
  const std::string usual = "smtpd_tls_security_level = may\nsmtpd_tls_loglevel = 1\nsmtpd_tls_loglevel_maps = ";
  for (const auto& [tables, logged] : {std::pair("", true),
                                       {"inline:{ client.example = 0 }", false},
                                       {"inline:{ 192.0.2 = 0 }", false},
                                       {"inline:{ .example = dunno, 192.0.2.7 = 0 }", true}}) {
    TlsRig r(usual + tables + "\n");
    const std::string path = r.dir.file("log");
    BOOST_REQUIRE(log::open({.program = "smtpd", .hostname = {}, .target = log::Target::file, .path = path}));
    BOOST_TEST(r.starttls() == "mx.example.org");
    BOOST_TEST(r.tell("EHLO a").starts_with("250 "));
    std::ifstream log(path);
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    BOOST_TEST(text.contains("TLS connection established from client.example[192.0.2.7]") == logged, tables);
    BOOST_REQUIRE(log::open({.program = "smtpd", .hostname = {}, .target = log::Target::file, .path = "/dev/null"}));
  }
}

BOOST_AUTO_TEST_CASE(requiretls_is_offered_and_taken_in_tls_only) {
  TlsRig r;
  r.rig.connect();
  BOOST_TEST(r.rig.say("EHLO a\r\n").find("REQUIRETLS") == std::string::npos);
  BOOST_TEST(r.rig.say("MAIL FROM:<a@b.example> REQUIRETLS\r\n") ==
             "530 5.7.10 REQUIRETLS needs TLS: issue a STARTTLS command first\r\n");
  BOOST_TEST(r.starttls() == "mx.example.org");
  BOOST_TEST(r.tell("EHLO a").starts_with("250 "));
  BOOST_TEST(r.tell("MAIL FROM:<a@b.example> REQUIRETLS=1") == "501 5.5.4 Bad REQUIRETLS parameter syntax");
  BOOST_TEST(r.tell("MAIL FROM:<a@b.example> RequireTLS") == "250 2.1.0 Ok");
  TlsRig off("smtpd_tls_security_level = may\nrequiretls_enable = no\n");
  BOOST_TEST(off.starttls() == "mx.example.org");
  BOOST_TEST(off.tell("EHLO a").starts_with("250 "));
  BOOST_TEST(off.tell("MAIL FROM:<a@b.example> REQUIRETLS") == "555 5.5.4 Unsupported option: REQUIRETLS");
}

BOOST_AUTO_TEST_CASE(commands_behind_starttls_are_refused) {
  TlsRig r;
  r.rig.connect();
  BOOST_TEST(r.rig.say("STARTTLS\r\nRSET\r\n") == "554 5.5.0 Error: SMTP protocol synchronization\r\n");
  BOOST_TEST(r.rig.closed());
}

BOOST_AUTO_TEST_CASE(a_handshake_has_a_bound_and_ends_without_a_word) {
  TlsRig r("smtpd_tls_security_level = may\nsmtpd_starttls_timeout = 10\n");
  r.rig.connect();
  BOOST_TEST(r.rig.say("STARTTLS\r\n") == "220 2.0.0 Ready to start TLS\r\n");
  BOOST_TEST(r.rig.say("\x16\x03") == "");
  r.rig.clock.advance(seconds(11));
  BOOST_TEST(r.rig.settle() == "");
  BOOST_TEST(r.rig.closed());
  BOOST_TEST(r.rig.server.counts.failed_handshakes == 1U);
}

BOOST_AUTO_TEST_CASE(full_handshakes_of_a_client_are_limited) {
  TlsRig r("smtpd_tls_security_level = may\nsmtpd_client_new_tls_session_rate_limit = 2\n");
  const auto counts = std::make_shared<testing::CountsHere>(r.rig.loop);
  r.rig.server.clients = counts;
  BOOST_TEST(r.starttls() == "mx.example.org");
  BOOST_TEST(r.starttls() == "mx.example.org");
  BOOST_TEST(r.starttls() == "454 4.7.0 Error: too many new TLS sessions from 192.0.2.7\r\n");
  r.rig.clock.advance(seconds(61));
  BOOST_TEST(r.starttls() == "mx.example.org");
  BOOST_TEST(r.tell("NOOP") == "250 2.0.0 Ok");  // the server has finished the handshake, too
  using Event = sessions::ClientCounts::Event;
  BOOST_TEST(counts->clients.count(Event::tls, "smtp:192.0.2.7", true, r.rig.loop.now(), {}).rate == 1U);
}

BOOST_AUTO_TEST_CASE(without_a_usable_certificate_starttls_gets_454_and_is_not_offered) {
  TlsRig r;
  std::filesystem::remove(r.cert);
  r.rig.server.tls = nullptr;
  r.rig.connect();
  BOOST_TEST(r.rig.say("EHLO a\r\n").find("STARTTLS") == std::string::npos);
  BOOST_TEST(r.rig.say("STARTTLS\r\n") == "454 4.7.0 TLS not available due to local problem\r\n");
}

BOOST_AUTO_TEST_CASE(new_files_serve_new_sessions_and_broken_ones_do_not) {
  TlsRig r;
  BOOST_TEST(r.problems.empty());
  BOOST_TEST(r.starttls() == "mx.example.org");
  r.put("second.example.org");
  BOOST_TEST(r.starttls() == "second.example.org");
  r.dir.write("key", "broken");
  BOOST_TEST(r.starttls() == "second.example.org");
  r.put("third.example.org");
  BOOST_TEST(r.starttls() == "third.example.org");
}

BOOST_AUTO_TEST_CASE(levels_come_from_the_new_name_and_from_the_old_ones) {
  struct Row {
    const char* settings;
    TlsLevel level;
    bool wrapper, warns;
  };
  const Row rows[] = {
      {"", TlsLevel::none, false, false},
      {"smtpd_use_tls = yes\n", TlsLevel::may, false, false},
      {"smtpd_use_tls = yes\nsmtpd_enforce_tls = yes\n", TlsLevel::encrypt, false, false},
      {"smtpd_tls_security_level = none\nsmtpd_enforce_tls = yes\n", TlsLevel::none, false, false},
      {"smtpd_tls_security_level = Encrypt\n", TlsLevel::encrypt, false, false},
      {"smtpd_tls_security_level = dane\n", TlsLevel::encrypt, false, true},
      {"smtpd_tls_security_level = may\nsmtpd_tls_wrappermode = yes\n", TlsLevel::encrypt, true, false}};
  for (const Row& row : rows) {
    testing::Rig rig(row.settings);
    BOOST_TEST_CONTEXT(row.settings) {
      BOOST_TEST((rig.policy->tls.level == row.level));
      BOOST_TEST(rig.policy->tls.wrapper == row.wrapper);
      BOOST_TEST(rig.policy->tls.warning.empty() != row.warns);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::smtpd
