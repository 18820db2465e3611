#include "cyrus/server.h"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "cyrus/sasl_fixture.h"
#include "lib/base/async/listener.h"
#include "lib/base/base64.h"
#include "lib/trust/sasl/dovecot_service.h"

namespace pen::cyrus {
BOOST_AUTO_TEST_SUITE(cyrus_server)

namespace {

using sasl::Answer;
using sasl::Authenticator;
using sasl::DovecotService;

/// The server, and smtpd's side of the conversation with it.
struct Rig {
  pen::testing::ScratchDir scratch;
  async::Loop loop;
  async::SocketAddress address = async::SocketAddress::unix(scratch.file("cyrus"));
  std::optional<async::Listener> listener;
  async::Gate gate{loop};
  std::shared_ptr<Server> server;
  std::shared_ptr<DovecotService> service;

  explicit Rig(Server::Options options = {.threads = 2, .step_timeout = milliseconds(300)},
               const std::string& application = "hangs") {
    server = std::make_shared<Server>(loop, testing::Accounts::library(), options);
    listener.emplace(loop, async::listen_on(address).value(), 10);
    gate.spawn("accept", accept(this));
    service = std::make_shared<DovecotService>(
        loop,
        DovecotService::Peer{.address = {.path = address.path, .host = {}, .port = 0},
                             .max_line = 100'000,
                             .application = sasl::dovecot::Application{application, "", "mx.example"}},
        DovecotService::Options{});
    service->start();
  }
  static async::Task<void> accept(Rig* rig) {
    for (;;) {
      auto accepted = co_await rig->listener->accept();
      if (!accepted) co_return;
      rig->gate.spawn("serve", Server::serve(rig->server, std::move(accepted->stream)));
    }
  }
  template <class Until>
  bool wait(Until until, milliseconds most = seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + most;
    while (!until()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop.run_once(milliseconds(10));
    }
    return true;
  }
};

struct Attempt {
  std::unique_ptr<Authenticator::Exchange> exchange;
  std::vector<Answer> answers = {};
  static async::Task<void> start(Attempt* self, std::string mechanism, std::optional<std::string> initial) {
    Authenticator::Request request;
    request.mechanism = std::move(mechanism);
    request.service = "smtp";
    request.initial = std::move(initial);
    self->answers.push_back(co_await self->exchange->start(request, {}));
  }
  static async::Task<void> respond(Attempt* self, std::string text) {
    self->answers.push_back(co_await self->exchange->respond(std::move(text), {}));
  }
  bool ended(Answer::Kind kind) const { return !answers.empty() && answers.back().kind == kind; }
};
std::string plain(const std::string& user, const std::string& password) {
  return base64_encode(std::string("\0", 1) + user + std::string("\0", 1) + password);
}

BOOST_AUTO_TEST_CASE(smtpd_learns_what_its_application_offers_and_clients_log_in) {
  Rig rig({.threads = 2, .step_timeout = seconds(20)}, "smtpd");
  BOOST_TEST(rig.wait([&] { return rig.service->connected(); }));
  BOOST_TEST((rig.service->mechanisms() == testing::Accounts::library().find("smtpd")->mechanisms));
  std::vector<Attempt> many(20);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i].exchange = rig.service->begin();
    rig.gate.spawn("one", Attempt::start(&many[i], "PLAIN", plain("anna", i % 2 == 0 ? "secret one" : "guess")));
  }
  BOOST_TEST(rig.wait([&] { return std::ranges::all_of(many, [](const Attempt& a) { return !a.answers.empty(); }); }));
  for (std::size_t i = 0; i < many.size(); ++i)
    BOOST_TEST(many[i].ended(i % 2 == 0 ? Answer::Kind::ok : Answer::Kind::failed));
  BOOST_TEST(rig.wait([&] { return rig.server->exchanges() == 0; }));
}

BOOST_AUTO_TEST_CASE(an_exchange_takes_several_steps) {
  Rig rig({.threads = 1, .step_timeout = seconds(20)}, "smtpd");
  BOOST_TEST(rig.wait([&] { return rig.service->connected(); }));
  Attempt login{rig.service->begin()};
  rig.gate.spawn("start", Attempt::start(&login, "LOGIN", std::nullopt));
  for (const char* response : {"anna", "secret one"}) {
    BOOST_TEST(rig.wait([&] { return login.ended(Answer::Kind::challenge); }));
    login.answers.clear();
    rig.gate.spawn("respond", Attempt::respond(&login, base64_encode(response)));
  }
  BOOST_TEST(rig.wait([&] { return login.ended(Answer::Kind::ok); }));
  BOOST_TEST(login.answers.back().user == "anna");
}

BOOST_AUTO_TEST_CASE(a_check_that_hangs_is_a_temporary_failure_and_holds_up_no_challenges) {
  Rig rig;
  BOOST_TEST(rig.wait([&] { return rig.service->connected(); }));
  std::vector<Attempt> hung(6);  // more than there are threads
  for (Attempt& one : hung) {
    one.exchange = rig.service->begin();
    rig.gate.spawn("hangs", Attempt::start(&one, "PLAIN", plain("anna", "secret one")));
  }
  rig.wait([] { return false; }, milliseconds(100));
  Attempt cram{rig.service->begin()};
  rig.gate.spawn("cram", Attempt::start(&cram, "CRAM-MD5", std::nullopt));
  BOOST_TEST(rig.wait([&] { return !cram.answers.empty(); }, milliseconds(150)));
  BOOST_TEST(cram.ended(Answer::Kind::challenge));
  BOOST_TEST(hung.front().answers.empty());
  BOOST_TEST(rig.wait([&] { return std::ranges::all_of(hung, [](const Attempt& a) { return !a.answers.empty(); }); }));
  for (const Attempt& one : hung) BOOST_TEST(one.ended(Answer::Kind::temporary));
  BOOST_TEST(rig.server->status().at(0).contains("6 too late"));
  cram.exchange.reset();
  testing::Accounts::end_hanging();
  BOOST_TEST(rig.wait([&] { return rig.server->exchanges() == 0; }));
}

BOOST_AUTO_TEST_CASE(what_smtpd_gives_up_is_forgotten) {
  Rig rig({.threads = 2, .step_timeout = seconds(20)}, "smtpd");
  BOOST_TEST(rig.wait([&] { return rig.service->connected(); }));
  {
    Attempt given_up{rig.service->begin()};
    rig.gate.spawn("one", Attempt::start(&given_up, "CRAM-MD5", std::nullopt));
    BOOST_TEST(rig.wait([&] { return given_up.ended(Answer::Kind::challenge); }));
    BOOST_TEST(rig.server->exchanges() == 1U);
  }
  BOOST_TEST(rig.wait([&] { return rig.server->exchanges() == 0; }));
  Attempt left{rig.service->begin()};
  rig.gate.spawn("left", Attempt::start(&left, "CRAM-MD5", std::nullopt));
  BOOST_TEST(rig.wait([&] { return left.ended(Answer::Kind::challenge); }));
  left.exchange.reset();
  rig.service.reset();  // with the connection
  BOOST_TEST(rig.wait([&] { return rig.server->exchanges() == 0; }));
}

constexpr std::string_view kLast = "AUTH\t77\tLOGIN\n";

/// What a taken-over smtpd may send, and behind the first challenge; and whether it is hung up on. A log-in that comes
/// behind all of it is answered if it is not.
bool hung_up_on(Rig& rig, const std::string& bytes, const std::string& then = {}) {
  struct Client {
    std::optional<async::Stream> stream;
    bool closed = false, served = false;
    static async::Task<void> run(Client* self, Rig* rig, std::string text, std::string second) {
      auto connected = co_await async::connect(rig->loop, rig->address);
      self->stream.emplace(std::move(*connected));
      self->stream->write(text);
      if (second.empty()) self->stream->write(kLast);
      for (;;) {
        auto line = co_await self->stream->read_line(100'000);
        if (!line) break;
        if (line->starts_with("CONT\t77\t")) {
          self->served = true;
        } else if (line->starts_with("CONT\t") && !second.empty()) {
          self->stream->write(std::exchange(second, {}));
          self->stream->write(kLast);
        }
      }
      self->closed = true;
    }
  };
  Client client;
  async::Gate gate(rig.loop);
  gate.spawn("client", Client::run(&client, &rig, bytes, then));
  BOOST_TEST(rig.wait([&] { return client.closed || client.served; }));
  return client.closed;
}

BOOST_AUTO_TEST_CASE(who_does_what_smtpd_never_does_is_hung_up_on) {
  Rig rig({.threads = 2, .step_timeout = seconds(20)}, "smtpd");
  const std::string hello = "VERSION\t1\t1\nAPPLICATION\tsmtpd\trealm=\thost=mx.example\n";
  BOOST_TEST(!hung_up_on(rig, hello + "FUTURE\t1\nCANCEL\t1\nCONT\t1\t\nAUTH\t2\tCRAM-MD5\n"));
  BOOST_TEST(hung_up_on(rig, "VERSION\t2\t0\n"));
  BOOST_TEST(hung_up_on(rig, "VERSION\t1\t1\nAPPLICATION\t/etc/shadow\n"));
  BOOST_TEST(hung_up_on(rig, hello + "AUTH\t1\tCRAM-MD5\nAUTH\t1\tCRAM-MD5\n"));
  BOOST_TEST(hung_up_on(rig, hello + "AUTH\t1\tCRAM-MD5\nCONT\t1\t\n"));  // before the challenge
  BOOST_TEST(hung_up_on(rig, hello + "AUTH\t1\tLOGIN\n", "CONT\t1\tYW5uYQ==\nCONT\t1\tYW5uYQ==\n"));  // two at once
  BOOST_TEST(!hung_up_on(rig, hello + "AUTH\t1\tLOGIN\n", "CONT\t1\tYW5uYQ==\n"));
  BOOST_TEST(hung_up_on(rig, hello + "AUTH\t0\tPLAIN\n"));
  BOOST_TEST(hung_up_on(rig, hello + std::string(Server::kMaxLine + 10, 'x')));
  BOOST_TEST(rig.wait([&] { return rig.server->exchanges() == 0; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::cyrus
