#include "lib/trust/sasl/dovecot_service.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::sasl {
namespace {

/// A service and a server for it that says what the test wants, line by line.
struct Rig {
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  pen::testing::ScratchDir scratch;
  async::SocketAddress address = async::SocketAddress::unix(scratch.file("auth"));
  std::optional<async::Listener> listener;
  std::optional<async::Stream> peer;  // the server's end
  std::vector<std::string> heard;
  std::vector<std::string> downs;
  std::shared_ptr<DovecotService> service = std::make_shared<DovecotService>(
      loop, DovecotService::Peer{{.path = address.path, .host = {}, .port = 0}}, DovecotService::Options{});
  async::Gate gate{loop};

  Rig() {
    service->on_down = [this](const std::string& why) { downs.push_back(why); };
  }
  void start() { service->start(); }
  void listen() {
    listener.emplace(loop, async::listen_on(address).value(), 10);
    gate.spawn("accept", accept(this));
  }
  static async::Task<void> accept(Rig* rig) {
    for (;;) {
      auto accepted = co_await rig->listener->accept();
      if (!accepted) co_return;
      rig->peer.emplace(std::move(accepted->stream));
      rig->peer->write("VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nMECH\tLOGIN\tplaintext\nDONE\n");
      for (;;) {
        auto line = co_await rig->peer->read_line(20000);
        if (!line) break;
        rig->heard.emplace_back(*line);
      }
    }
  }
  /// Until nothing happens any more but for the passing of time.
  void settle() {
    for (int i = 0; i < 100; ++i) loop.run_once();
  }
  void pass(milliseconds time) {
    clock.advance(time);
    settle();
  }
  bool said(const std::string& line) {
    settle();
    return std::ranges::find(heard, line) != heard.end();
  }
};

/// One log-in under way.
struct Attempt {
  std::unique_ptr<Authenticator::Exchange> exchange;
  std::vector<Answer> answers;
  static async::Task<void> start(Attempt* self, std::string initial) {
    Authenticator::Request request;
    request.mechanism = "PLAIN";
    request.service = "smtp";
    request.initial = initial;
    self->answers.push_back(co_await self->exchange->start(request, {}));
  }
  static async::Task<void> respond(Attempt* self, std::string text) {
    self->answers.push_back(co_await self->exchange->respond(std::move(text), {}));
  }
};

BOOST_AUTO_TEST_SUITE(sasl_service)

BOOST_AUTO_TEST_CASE(a_setting_names_a_socket_or_a_port) {
  BOOST_TEST(parse_service("private/auth", "/queue").value().path == "/queue/private/auth");
  BOOST_TEST(parse_service("unix:private/auth", "/queue").value().path == "/queue/private/auth");
  BOOST_TEST(parse_service("/run/auth", "/queue").value().path == "/run/auth");
  BOOST_TEST(parse_service("inet:localhost:12345", "/q").value().text() == "inet:localhost:12345");
  BOOST_TEST(parse_service("inet:[::1]:12345", "/q").value().host == "::1");
  BOOST_TEST(parse_service("inet:dovecot:10001", "/q").value().host == "dovecot");
  for (const char* wrong : {"", "unix:", "inet:", "inet:127.0.0.1", "inet:127.0.0.1:0", "inet:127.0.0.1:70000",
                            "inet:auth.example", "inet:auth example:1"})
    BOOST_TEST(parse_service(wrong, "/q").error().is(SaslError::bad_setting), wrong);
}

BOOST_AUTO_TEST_CASE(log_ins_share_a_connection_and_are_told_apart) {
  Rig rig;
  rig.listen();
  rig.start();
  rig.settle();
  BOOST_TEST(rig.service->connected());
  BOOST_TEST(rig.service->mechanisms().size() == 2u);
  Attempt a{rig.service->begin(), {}}, b{rig.service->begin(), {}};
  rig.gate.spawn("a", Attempt::start(&a, "QQ=="));
  rig.gate.spawn("b", Attempt::start(&b, "Qg=="));
  BOOST_TEST(rig.said("AUTH\t1\tPLAIN\tservice=smtp\tnologin\tresp=QQ=="));
  BOOST_TEST(rig.said("AUTH\t2\tPLAIN\tservice=smtp\tnologin\tresp=Qg=="));
  rig.peer->write("OK\t2\tuser=berta\nCONT\t1\tQUJD\nOK\t77\tuser=nobody\n");
  rig.settle();
  BOOST_TEST((b.answers.at(0).kind == Answer::Kind::ok && b.answers.at(0).user == "berta"));
  BOOST_TEST((a.answers.at(0).kind == Answer::Kind::challenge && a.answers.at(0).text == "QUJD"));
  rig.gate.spawn("a", Attempt::respond(&a, "WFla"));
  BOOST_TEST(rig.said("CONT\t1\tWFla"));
  rig.peer->write("FAIL\t1\treason=no\n");
  rig.settle();
  BOOST_TEST((a.answers.at(1).kind == Answer::Kind::failed && a.answers.at(1).text == "no"));
  BOOST_TEST(rig.service->under_way() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_given_up_is_cancelled_and_nothing_else) {
  Rig rig;
  rig.listen();
  rig.start();
  rig.settle();
  {
    Attempt a{rig.service->begin(), {}};
    rig.gate.spawn("a", Attempt::start(&a, ""));
    rig.settle();
    rig.peer->write("CONT\t1\t\n");
    rig.settle();
    BOOST_TEST(a.answers.size() == 1u);
  }
  BOOST_TEST(rig.said("CANCEL\t1"));
  BOOST_TEST(rig.service->under_way() == 0u);
  Attempt late{rig.service->begin(), {}};
  rig.gate.spawn("late", Attempt::start(&late, ""));
  rig.settle();
  rig.pass(seconds(29));
  BOOST_TEST(late.answers.empty());
  rig.pass(seconds(2));
  BOOST_TEST((late.answers.at(0).kind == Answer::Kind::temporary));
  BOOST_TEST(rig.said("CANCEL\t2"));
  rig.peer->write("OK\t2\tuser=too late\n");  // hits nobody
  Attempt large{rig.service->begin(), {}};
  rig.gate.spawn("large", Attempt::start(&large, std::string(9000, 'A')));
  rig.settle();
  BOOST_TEST((large.answers.at(0).kind == Answer::Kind::failed));
  BOOST_TEST(rig.service->connected());
}

BOOST_AUTO_TEST_CASE(cyrus_is_told_the_application_and_gets_longer_lines) {
  Rig rig;
  rig.service = std::make_shared<DovecotService>(
      rig.loop,
      DovecotService::Peer{.address = {.path = rig.address.path, .host = {}, .port = 0},
                           .max_line = 15000,
                           .application = dovecot::Application{"smtpd", "example.org", "mx.example"}},
      DovecotService::Options{});
  rig.listen();
  rig.start();
  BOOST_TEST(rig.said("APPLICATION\tsmtpd\trealm=example.org\thost=mx.example"));
  Attempt ticket{rig.service->begin(), {}}, longer{rig.service->begin(), {}};
  rig.gate.spawn("ticket", Attempt::start(&ticket, std::string(12000, 'A')));
  rig.gate.spawn("longer", Attempt::start(&longer, std::string(16000, 'A')));
  rig.settle();
  BOOST_TEST(ticket.answers.empty());
  BOOST_TEST((longer.answers.at(0).kind == Answer::Kind::failed));
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_a_temporary_failure_and_is_made_again) {
  Rig rig;
  rig.listen();
  rig.start();
  rig.settle();
  Attempt a{rig.service->begin(), {}}, between{rig.service->begin(), {}};
  rig.gate.spawn("a", Attempt::start(&a, ""));
  rig.gate.spawn("between", Attempt::start(&between, ""));
  rig.settle();
  rig.peer->write("CONT\t2\t\n");
  rig.settle();
  BOOST_TEST(between.answers.size() == 1u);
  rig.peer->close();
  rig.settle();
  BOOST_TEST((a.answers.at(0).kind == Answer::Kind::temporary));
  BOOST_TEST(rig.downs.size() == 1u);
  BOOST_TEST(rig.service->mechanisms().size() == 2u);  // what it offered stays known
  rig.gate.spawn("between", Attempt::respond(&between, ""));
  rig.settle();
  BOOST_TEST((between.answers.at(1).kind == Answer::Kind::temporary));
  // A log-in waits for the next connection, and its number means nothing to the old one.
  Attempt next{rig.service->begin(), {}};
  rig.gate.spawn("next", Attempt::start(&next, ""));
  rig.pass(milliseconds(100));
  BOOST_TEST(rig.service->connected());
  BOOST_TEST(rig.said("AUTH\t3\tPLAIN\tservice=smtp\tnologin\tresp="));
  rig.peer->write("OK\t3\tuser=anna\n");
  rig.settle();
  BOOST_TEST((next.answers.at(0).kind == Answer::Kind::ok));
}

BOOST_AUTO_TEST_CASE(without_a_service_a_log_in_fails_soon_and_finds_it_when_it_comes) {
  Rig rig;
  rig.start();
  rig.settle();
  BOOST_TEST(!rig.service->connected());
  for (int i = 0; i < 20; ++i) rig.pass(seconds(6));  // the pauses are as long as they get
  BOOST_TEST(rig.downs.size() == 1u);                 // reported once
  Attempt a{rig.service->begin(), {}};
  rig.gate.spawn("a", Attempt::start(&a, ""));
  rig.pass(milliseconds(100));
  BOOST_TEST((a.answers.at(0).kind == Answer::Kind::temporary));
  rig.listen();
  Attempt b{rig.service->begin(), {}};
  rig.gate.spawn("b", Attempt::start(&b, ""));
  rig.pass(milliseconds(100));
  BOOST_TEST(rig.service->connected());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sasl
