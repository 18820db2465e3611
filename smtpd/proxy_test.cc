#include "smtpd/proxy.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/testing/manual_clock.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;

BOOST_AUTO_TEST_SUITE(proxy_filters)

namespace {

/// A filter on loopback that gives the same replies on every connection.
struct ScriptedFilter {
  explicit ScriptedFilter(async::Loop& l)
      : loop(l),
        listener(l, std::move(*async::listen_on(async::SocketAddress::inet("127.0.0.1", 0))), 10),
        port(async::local_address(listener.fd())->port),
        gate(l) {
    gate.spawn("accept", accept_all(this));
  }
  static async::Task<void> accept_all(ScriptedFilter* self) {
    for (;;) {
      auto accepted = co_await self->listener.accept({.deadline = kNever, .cancel = &self->gate.cancel()});
      if (!accepted) co_return;
      ++self->connections;
      self->gate.spawn("serve", serve(self, std::move(accepted->stream)));
    }
  }
  static async::Task<void> serve(ScriptedFilter* self, async::Stream stream) {
    const async::Until until{.deadline = kNever, .cancel = &self->gate.cancel()};
    if (!self->answer(stream, "GREETING", "220 filter ESMTP")) co_return;
    bool content = false;
    for (;;) {
      auto line = co_await stream.read_line(4096, until);
      if (!line) co_return;
      if (content && *line != ".") continue;
      const std::string verb = content ? "DOT" : std::string(line->substr(0, line->find_first_of(" :")));
      content = false;
      if (!self->answer(stream, verb, verb == "DATA" ? "354 go on" : "250 ok")) co_return;
      content = verb == "DATA" && !self->replies.contains("DATA");
    }
  }
  /// False: hang up instead.
  bool answer(async::Stream& stream, const std::string& step, std::string_view usual) {
    const auto own = replies.find(step);
    const std::string_view text = own == replies.end() ? usual : std::string_view(own->second);
    if (text == "hang up") return false;
    if (text == "silence")
      went_silent = true;
    else
      stream.write(std::string(text) + "\r\n");
    return true;
  }
  async::Loop& loop;
  async::Listener listener;
  unsigned short port;
  std::map<std::string, std::string> replies;
  int connections = 0;
  bool went_silent = false;  // the client waits in vain
  async::Gate gate;
};

struct World {
  World() : filter(loop) {
    settings.address = {.path = {}, .host = "127.0.0.1", .port = filter.port};
    settings.timeout = seconds(100);
    settings.helo = "mx.example";
  }
  /// Sends one message for one recipient; returns the replies to each step: "open mail rcpt data end".
  std::string run() {
    said.clear();
    done = false;
    gate.spawn("proxy", play(this));
    for (int i = 0; i < 6000 && !done; ++i) {
      loop.run_once(milliseconds(10));
      if (filter.went_silent) clock.advance(seconds(60));
    }
    BOOST_REQUIRE(done);
    return said;
  }
  static async::Task<void> play(World* self) {
    Proxy proxy(self->loop, self->names, self->settings, self->ends);
    const auto add = [self](const mail::Reply& r) {
      self->said += (self->said.empty() ? "" : " ") + std::to_string(r.code);
    };
    mail::Client client;
    client.name = "client.example";
    client.address = "192.0.2.7";
    add(co_await proxy.open(client, "", false));
    add(co_await proxy.mail({.sender = "ada@example.net",
                             .size = 10,
                             .body_type = {},
                             .smtputf8 = false,
                             .envid = {},
                             .ret = {},
                             .requiretls = false}));
    mail::Recipient to;
    to.address = "ben@example.org";
    add(co_await proxy.rcpt(to));
    add(co_await proxy.data());
    co_await proxy.content("Subject: x\r\n\r\ntext\r\n");
    add(co_await proxy.end_of_data());
    self->failed = proxy.failed();
    self->done = true;
  }
  // nothing times out unless the filter is silent
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  smtpd::testing::TableNames names;
  ProxySettings settings;
  std::shared_ptr<ProxyEnds> ends = std::make_shared<ProxyEnds>();
  ScriptedFilter filter;
  async::Gate gate{loop};
  std::string said;
  bool done = false, failed = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_that_the_filter_takes) {
  World world;
  BOOST_TEST(world.run() == "250 250 250 354 250");
  BOOST_TEST(!world.failed);
  BOOST_TEST(world.ends->empty());
}

BOOST_AUTO_TEST_CASE(a_filter_that_is_silent_is_given_up_at_every_step) {
  const std::pair<const char*, const char*> steps[] = {
      {"GREETING", "451 451 451 451 451"}, {"EHLO", "451 451 451 451 451"}, {"MAIL", "250 451 451 451 451"},
      {"RCPT", "250 250 451 451 451"},     {"DATA", "250 250 250 451 451"}, {"DOT", "250 250 250 354 451"}};
  for (const char* how : {"silence", "hang up", "garbage"}) {
    for (const auto& [step, replies] : steps) {
      BOOST_TEST_CONTEXT(how << " after " << step) {
        World world;
        world.filter.replies[step] = how;
        BOOST_TEST(world.run() == replies);
        BOOST_TEST(world.failed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_filter_refuses_is_refused_and_what_it_may_not_say_is_a_failure) {
  World world;
  world.filter.replies["GREETING"] = "554 not now";
  BOOST_TEST(world.run() == "451 451 451 451 451");
  BOOST_TEST(world.failed);
  world.filter.replies.clear();
  world.filter.replies["EHLO"] = "502 5.5.1 no such command";
  BOOST_TEST(world.run() == "451 451 451 451 451");
  BOOST_TEST(world.failed);
  world.filter.replies.clear();
  // The filter's reply to the sender goes to the client, and further commands may follow.
  world.filter.replies["MAIL"] = "550 5.7.1 not this sender";
  BOOST_TEST(world.run().starts_with("250 550 "));
  BOOST_TEST(!world.failed);
  world.filter.replies.clear();
  world.filter.replies["DOT"] = "550 5.7.1 a virus";
  BOOST_TEST(world.run() == "250 250 250 354 550");
  BOOST_TEST(!world.failed);
  world.filter.replies.clear();
  world.filter.replies["RCPT"] = "354 what";
  BOOST_TEST(world.run() == "250 250 451 451 451");
  world.filter.replies.clear();
  // With 421 it closes its own connection, not the client's.
  world.filter.replies["RCPT"] = "421 going down";
  BOOST_TEST(world.run() == "250 250 451 451 451");
  BOOST_TEST(world.failed);
}

BOOST_AUTO_TEST_CASE(a_filter_by_name_is_looked_up_and_its_addresses_are_tried_in_order) {
  World world;
  world.settings.address.host = "scan.example";
  BOOST_TEST(world.run() == "451 451 451 451 451");  // no address
  world.names.hosts["scan.example"] = {"127.0.0.1"};
  BOOST_TEST(world.run() == "250 250 250 354 250");
  // The first address refuses connections.
  world.names.hosts["scan.example"] = {"127.0.0.2", "127.0.0.1"};
  BOOST_TEST(world.run() == "250 250 250 354 250");
  BOOST_TEST(world.filter.connections == 2);
}

BOOST_AUTO_TEST_CASE(an_address_that_never_answers_leaves_time_for_the_others) {
  World world;
  // Its backlog is full, so that it neither takes nor refuses connections.
  const Fd busy(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(world.filter.port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  const auto* address = reinterpret_cast<const sockaddr*>(&at);
  BOOST_REQUIRE(::bind(busy.get(), address, sizeof at) == 0);
  BOOST_REQUIRE(::listen(busy.get(), 0) == 0);
  std::vector<Fd> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(waiting.back().get(), address, sizeof at);
  }
  world.settings.address.host = "scan.example";
  world.names.hosts["scan.example"] = {"127.0.0.2", "127.0.0.1"};
  world.done = false;
  world.gate.spawn("proxy", World::play(&world));
  for (int i = 0; i < 5; ++i) world.loop.run_once(milliseconds(10));
  BOOST_TEST(world.filter.connections == 0);
  world.clock.advance(seconds(51));  // of 100
  for (int i = 0; i < 3000 && !world.done; ++i) world.loop.run_once(milliseconds(10));
  BOOST_TEST_REQUIRE(world.done);
  BOOST_TEST(world.said == "250 250 250 354 250");
}

BOOST_AUTO_TEST_CASE(the_setting_names_a_host_a_number_or_a_socket) {
  const auto read = [](const std::string& value) -> std::string {
    config::Settings s;
    s.inet_protocols = {"all"};
    s.smtpd_proxy_filter = value;
    s.queue_directory = "/var/spool/pen";
    std::vector<std::string> warnings;
    auto read = ProxySettings::read(s, warnings);
    if (!read) return "wrong";
    return *read ? (*read)->address.text() + ((*read)->address.has_name() ? " by name" : "") : "none";
  };
  BOOST_TEST(read("") == "none");
  BOOST_TEST(read("127.0.0.1:10025") == "inet:127.0.0.1:10025");
  BOOST_TEST(read("inet:localhost:10025") == "inet:localhost:10025");
  BOOST_TEST(read("10025") == "inet:localhost:10025");
  BOOST_TEST(read("inet:10025") == "inet:localhost:10025");
  BOOST_TEST(read(":10025") == "inet:localhost:10025");
  BOOST_TEST(read("[scan.example]:10025") == "inet:scan.example:10025 by name");
  BOOST_TEST(read("scan.example:10025") == "inet:scan.example:10025 by name");
  BOOST_TEST(read("inet:scan:10025") == "inet:scan:10025 by name");
  BOOST_TEST(read("[::1]:10025") == "inet:[::1]:10025");
  BOOST_TEST(read("unix:private/scan") == "unix:/var/spool/pen/private/scan");
  for (const char* wrong : {"scan.example", "scan.example:0", "scan_!:25", "scan.example:x"})
    BOOST_TEST(read(wrong) == "wrong", wrong);
}

BOOST_AUTO_TEST_SUITE_END()
