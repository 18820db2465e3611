#include "lib/trust/key_client/client.h"

#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/base/async/testing/run.h"
#include "lib/net/tls/session.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/trust/key_client/tls.h"
#include "lib/trust/keys/vault.h"

namespace pen::keys {
namespace {

using async::testing::run;
using async::testing::store_result;
using tls::testing::Authority;
using tls::testing::Issued;
using Served = ipc::Channel<ipc::keys::ToKeys, ipc::keys::FromKeys>;
using Info = Result<tls::SessionInfo>;

Authority& authority() {
  static Authority ca("Test CA");
  return ca;
}

struct Fixture {
  Fixture() {
    ::signal(SIGPIPE, SIG_IGN);
    ecdsa = authority().issue({.common_name = "mx.example", .names = {"mx.example"}});
    rsa = authority().issue({.common_name = "mx.example", .names = {"mx.example"}, .rsa = 2048});
    listen();
  }
  void listen() {
    listener = std::make_unique<async::Listener>(loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10);
    serving.emplace(loop);
    serving->spawn("keys", serve(this));
  }
  static async::Task<void> serve(Fixture* f) {
    for (;;) {
      auto accepted = co_await f->listener->accept();
      if (!accepted) co_return;
      auto opening = co_await ipc::greet(std::move(accepted->stream), {});
      if (!opening) continue;
      const Use use = opening->conversation == ipc::keys::kServerName ? Use::server : Use::client;
      f->channel = std::make_unique<Served>(*std::move(opening));
      ++f->connections;
      for (;;) {
        auto received = co_await f->channel->receive();
        if (!received) break;
        if (const auto* find = std::get_if<ipc::keys::Find>(&received->message)) {
          ipc::keys::Listed found{.request = find->request, .keys = {}, .more = false};
          if (find->name == "other.example") found.keys.push_back(*f->vault.look_up(use, "other"));
          if (find->name == "bad.example")
            found.keys.push_back({.name = "", .id = "", .public_key = "", .certificates = "", .error = "is bad"});
          (void)f->channel->send(found);
          continue;
        }
        if (std::holds_alternative<ipc::keys::Sign>(received->message)) {
          ++f->asked;
          if (f->dies) {
            f->dies = false;
            break;
          }
          if (f->silent) continue;
        }
        const auto answer = f->vault.answer(use, received->message);
        std::visit([&](const auto& m) { (void)f->channel->send(m); }, answer);
      }
      f->channel.reset();
    }
  }
  std::shared_ptr<Client> client(std::string_view conversation = ipc::keys::kServerName) {
    auto made = std::make_shared<Client>(
        loop, Client::Options{.path = path, .conversation = conversation, .report = [](const std::string&) {}});
    made->start();
    BOOST_REQUIRE(run(loop, made->listed({.deadline = loop.now() + seconds(60)})));
    return made;
  }
  void put(const std::string& name, Use use, const Issued& issued) {
    BOOST_REQUIRE(vault.put(name, use, {.key = issued.key, .certificates = issued.certificate}).has_value());
  }
  std::shared_ptr<const tls::Context> server(const std::shared_ptr<Client>& keys, const std::string& name) {
    tls::ContextOptions o;
    o.keys_elsewhere = true;
    o.remote = {certificate(keys, keys->held().at(name))};
    o.ask_chain = [this, keys](std::string_view wanted) {
      return chain_for(keys, "maps", wanted, [this](const std::string& why) { reported = why; });
    };
    return tls::Context::open(std::move(o)).value();
  }
  std::shared_ptr<const tls::Context> plain_client(const char* protocols = "") {
    tls::ContextOptions o;
    o.role = tls::Role::client;
    o.ca_file = dir.write("ca.pem", authority().certificate());
    if (*protocols != '\0') o.protocols = tls::Protocols::parse(protocols).value();
    return tls::Context::open(std::move(o)).value();
  }
  /// What the client says, and what the server says, of one handshake.
  std::pair<Info, Info> handshake(std::shared_ptr<const tls::Context> with, std::shared_ptr<const tls::Context> by,
                                  tls::ConnectOptions options = {.names = {"mx.example"}}) {
    auto pair = async::testing::stream_pair(loop);
    std::optional<Info> accepted, connected;
    loop.spawn("server", store_result(tls::accept(pair.a, std::move(with), {}), &accepted));
    loop.spawn("client", store_result(tls::connect(pair.b, std::move(by), std::move(options), {}), &connected));
    for (int i = 0; !(accepted && connected) && i < 10000; ++i) {
      loop.run_once(milliseconds(10));
      if (accepted && !*accepted) pair.a.close();
      if (connected && !*connected) pair.b.close();
    }
    BOOST_REQUIRE((accepted && connected));
    return {*connected, *accepted};
  }

  async::Loop loop;
  testing::ScratchDir dir;
  std::string path = dir.file("keys");
  Issued ecdsa, rsa;
  Vault vault;
  std::unique_ptr<async::Listener> listener;
  std::optional<async::Gate> serving;
  std::unique_ptr<Served> channel;
  int connections = 0, asked = 0;
  bool dies = false, silent = false;
  std::string reported;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(key_client, Fixture)

BOOST_AUTO_TEST_CASE(a_handshake_is_signed_elsewhere) {
  put("ecdsa", Use::server, ecdsa);
  put("rsa", Use::server, rsa);
  const auto keys = client();
  for (const char* name : {"ecdsa", "rsa"}) {
    for (const char* protocols : {"=TLSv1.2", "=TLSv1.3"}) {
      BOOST_TEST_CONTEXT(name << " " << protocols) {
        const int before = asked;
        const std::string versions = std::string(">") + protocols + ", <" + protocols;
        const auto [connected, accepted] = handshake(server(keys, name), plain_client(versions.c_str()));
        BOOST_REQUIRE_MESSAGE(connected.has_value(), (connected ? "" : connected.error().message()));
        BOOST_TEST(connected->matched);
        BOOST_TEST(asked == before + 1);
      }
    }
  }
  BOOST_TEST(keys->under_way() == 0U);
}

BOOST_AUTO_TEST_CASE(no_suite_decrypts_with_the_key) {
  put("rsa", Use::server, rsa);
  const auto keys = client();
  const auto [connected, accepted] =
      handshake(server(keys, "rsa"), plain_client(">=TLSv1.2, <=TLSv1.2"), {.ciphers = "kRSA"});
  BOOST_TEST(!connected.has_value());
  BOOST_REQUIRE(!accepted.has_value());
  BOOST_TEST(accepted.error().message().contains("no shared cipher"));
  BOOST_TEST(asked == 0);
}

BOOST_AUTO_TEST_CASE(a_process_that_dies_in_a_handshake_is_asked_again) {
  put("ecdsa", Use::server, ecdsa);
  const auto keys = client();
  dies = true;
  const auto [connected, accepted] = handshake(server(keys, "ecdsa"), plain_client());
  BOOST_REQUIRE_MESSAGE(connected.has_value(), (connected ? "" : connected.error().message()));
  BOOST_TEST(connected->matched);
  BOOST_TEST(asked == 2);
  BOOST_TEST(connections == 2);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_longer_there_ends_the_handshake_alone) {
  put("ecdsa", Use::server, ecdsa);
  const auto keys = client();
  const auto context = server(keys, "ecdsa");
  vault = Vault();
  const auto [connected, accepted] = handshake(context, plain_client());
  BOOST_TEST(!connected.has_value());
  BOOST_REQUIRE(!accepted.has_value());
  BOOST_TEST(accepted.error().is(tls::TlsError::handshake));
}

BOOST_AUTO_TEST_CASE(a_handshake_that_ends_while_it_rests_leaves_nothing_behind) {
  put("ecdsa", Use::server, ecdsa);
  const auto keys = client();
  const auto context = server(keys, "ecdsa");
  silent = true;
  {
    auto pair = async::testing::stream_pair(loop);
    std::optional<Info> accepted, connected;
    loop.spawn("client", store_result(tls::connect(pair.b, plain_client(), {}, {}), &connected));
    loop.spawn("server", store_result(tls::accept(pair.a, context, {.deadline = loop.now() + seconds(1)}), &accepted));
    for (int i = 0; asked == 0 && i < 10000; ++i) loop.run_once(milliseconds(10));
    for (int i = 0; !accepted && i < 10000; ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(accepted.has_value());
    BOOST_TEST(accepted->error().is(async::WaitError::timed_out));
    pair.a.close();
    for (int i = 0; !connected && i < 10000; ++i) loop.run_once(milliseconds(10));
  }
  // The next process is not asked for it.
  silent = false;
  const int before = asked;
  channel->close();
  for (int i = 0; connections < 2 && i < 10000; ++i) loop.run_once(milliseconds(10));
  BOOST_REQUIRE(run(loop, keys->renew({.deadline = loop.now() + seconds(60)})));
  BOOST_TEST(asked == before);
  BOOST_TEST(keys->under_way() == 0U);
}

BOOST_AUTO_TEST_CASE(certificates_by_name_are_asked_for) {
  const Issued other = authority().issue({.common_name = "other.example", .names = {"other.example"}});
  put("ecdsa", Use::server, ecdsa);
  put("other", Use::server, other);
  const auto keys = client();
  const auto context = server(keys, "ecdsa");
  for (const auto& [name, shown] : {std::pair("other.example", "other.example"), {"else.example", "mx.example"}}) {
    const auto [connected, accepted] =
        handshake(context, plain_client(), {.server_name = name, .names = {std::string(shown)}});
    BOOST_REQUIRE_MESSAGE(connected.has_value(), (connected ? "" : connected.error().message()));
    BOOST_TEST(connected->subject == shown);
    BOOST_TEST(connected->matched);
  }
  const auto [connected, accepted] = handshake(context, plain_client(), {.server_name = "bad.example"});
  BOOST_TEST(!connected.has_value());
  BOOST_TEST(reported == "is bad");
}

BOOST_AUTO_TEST_CASE(a_clients_certificate_is_signed_for_as_well) {
  put("client", Use::client, rsa);
  const auto keys = client(ipc::keys::kClientName);
  tls::ContextOptions o;
  o.role = tls::Role::client;
  o.keys_elsewhere = true;
  o.remote = {certificate(keys, keys->held().at("client"))};
  tls::ContextOptions with;
  with.pairs = {{dir.write("cert", ecdsa.certificate), dir.write("key", ecdsa.key)}};
  with.client_certificate = tls::ContextOptions::ClientCertificate::asked;
  with.ca_file = dir.write("ca.pem", authority().certificate());
  const auto [connected, accepted] =
      handshake(tls::Context::open(std::move(with)).value(), tls::Context::open(std::move(o)).value(), {});
  BOOST_REQUIRE_MESSAGE(accepted.has_value(), (accepted ? "" : accepted.error().message()));
  BOOST_TEST(accepted->trusted);
  BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(key_client_alone)

BOOST_AUTO_TEST_CASE(without_a_process_the_answer_is_none_after_a_while) {
  testing::ManualClock clock;
  async::Loop loop{clock};
  const testing::ScratchDir dir;
  std::vector<std::string> said;
  Client keys(loop, {.path = dir.file("nobody"),
                     .conversation = ipc::keys::kServerName,
                     .meanwhile = "handshakes wait",
                     .report = [&](const std::string& line) { said.push_back(line); }});
  keys.start();
  BOOST_TEST(keys.available());
  bool answered = false, unwanted = false;
  keys.sign(
      "id", ipc::keys::Scheme::ecdsa_sha256, std::string(32, 'x'), [] { return true; },
      [&](const ipc::keys::Done* done) { answered = done == nullptr; });
  keys.sign(
      "id", ipc::keys::Scheme::ecdsa_sha256, std::string(32, 'x'), [] { return false; },
      [&](const ipc::keys::Done*) { unwanted = true; });
  milliseconds passed{0};
  for (; !answered && passed < minutes(1); passed += milliseconds(100)) {
    clock.advance(milliseconds(100));
    for (int i = 0; i < 10; ++i) loop.run_once();
  }
  BOOST_TEST(answered);
  BOOST_TEST(!unwanted);
  BOOST_TEST((passed >= Client::kPatience && passed < Client::kPatience + seconds(3)));
  BOOST_TEST(!keys.available());
  BOOST_TEST(keys.under_way() == 0U);
  BOOST_REQUIRE(said.size() == 1U);
  BOOST_TEST(said.front().contains("handshakes wait"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::keys
