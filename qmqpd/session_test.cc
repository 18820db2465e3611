#include "qmqpd/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/receive/intake/fakes.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/suite.h"

namespace pen::qmqpd {
BOOST_AUTO_TEST_SUITE(qmqp_session)

namespace {

std::string netstring(std::string_view text) { return std::to_string(text.size()) + ":" + std::string(text) + ","; }

std::string request(std::string_view content, std::string_view sender = "ada@sender.example",
                    const std::vector<std::string>& recipients = {"user@example.org"}) {
  std::string all = netstring(content) + netstring(sender);
  for (const auto& r : recipients) all += netstring(r);
  return netstring(all);
}

const std::string kMail = "Subject: x\nFrom: ada@sender.example\n\nhello\n";

async::Task<resolve::PeerName> a_name(std::string name) {
  resolve::PeerName found;
  if (!name.empty()) {
    found.verified = found.reverse = resolve::PeerName::State::ok;
    found.name = found.reverse_name = std::move(name);
  }
  co_return found;
}

struct Client {
  explicit Client(int fd_in) : fd(fd_in) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd); }
  int fd;
  std::string said;  // by the server
  bool closed = false;
};

struct World {
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  async::HandlerPool pool{loop, 1};
  intake::fakes::MemoryQueue queue;
  std::shared_ptr<intake::fakes::SetResolve> resolve = std::make_shared<intake::fakes::SetResolve>();
  intake::Intake intake{.loop = loop,
                        .pool = pool,
                        .queue = queue,
                        .resolve = resolve,
                        .settings = {.myhostname = "mx.example.org",
                                     .myorigin = "example.org",
                                     .message_size_limit = 1'000'000,
                                     .drop_fields = {"bcc"}},
                        .next_queue_id = [this] { return "Q" + std::to_string(++ids); },
                        .expansion_waits = false};
  std::string authorized = "192.0.2.0/24, .trusted.example", name = "client.example";
  Server::Options options{.limits = {.content = 1'000'000, .address = 100},
                          .error_delay = milliseconds(0),
                          .find_name = [this](std::string, async::Until) { return a_name(name); }};
  std::shared_ptr<Server> server;
  async::Gate sessions{loop};
  int ids = 0;

  Client connect(std::string address = "192.0.2.7") {
    if (!server) {
      auto list = map::MatchList::open(map::MatchList::Kind::host, authorized, {});
      BOOST_REQUIRE(list);
      options.clients = *std::move(list);
      server = std::make_shared<Server>(loop, intake, options);
    }
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    sessions.spawn("session", Server::serve(server, {async::Stream(loop, Fd(fds[0])),
                                                     async::SocketAddress::inet(std::move(address), 4711),
                                                     {}}));
    return Client(fds[1]);
  }
  /// Lets sessions do all they can without the clock; true when the connection has ended.
  bool settle(Client& client) {
    for (int idle = 0; idle < 40 && !client.closed;) {
      loop.run_once(milliseconds(1));
      char buffer[4096];
      const auto n = ::recv(client.fd, buffer, sizeof buffer, 0);
      if (n > 0) client.said.append(buffer, static_cast<std::size_t>(n));
      if (n == 0) client.closed = true;
      idle = n > 0 ? 0 : idle + 1;
    }
    return client.closed;
  }
  void send(Client& client, std::string_view text) {
    for (int tries = 0; !text.empty() && tries < 10'000; ++tries) {
      const auto n = ::send(client.fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN) return;  // the server has hung up
      loop.run_once(milliseconds(0));
    }
    BOOST_REQUIRE(text.empty());
  }
  /// Sends the bytes, ends the output and returns the reply.
  std::string ask(std::string_view bytes, std::string address = "192.0.2.7") {
    Client client = connect(std::move(address));
    send(client, bytes);
    ::shutdown(client.fd, SHUT_WR);
    for (int i = 0; i < 100 && !settle(client); ++i) {
    }
    BOOST_TEST(client.closed);
    return client.said;
  }
};

PEN_FIXTURE(World)

BOOST_AUTO_TEST_CASE(a_message_is_queued_as_one_of_this_systems_users_mail_is) {
  BOOST_TEST(ask(request("Subject: x\nTo: joe\nBcc: secret\n\nhe\rllo\n.\nlast", "ada", {"user"})) ==
             netstring("KOk: queued as Q1"));
  BOOST_REQUIRE(queue.stored.size() == 1U);
  const auto& [envelope, content, was_inline] = queue.stored.front();
  BOOST_TEST(envelope.queue_id == "Q1");
  BOOST_TEST(envelope.sender == "ada@example.org");
  BOOST_TEST(envelope.recipients.size() == 1U);
  BOOST_TEST(envelope.recipients.front().address == "user@example.org");
  BOOST_TEST(envelope.client.name == "client.example");
  BOOST_TEST(envelope.client.address == "192.0.2.7");
  BOOST_TEST(envelope.client.protocol == "QMQP");
  BOOST_TEST(
      content.starts_with("Received: from client.example (client.example [192.0.2.7])\r\n"
                          "\tby mx.example.org (Penstock) with QMQP id Q1\r\n\tfor <user@example.org>; "));
  BOOST_TEST(content.contains("\r\nTo: joe@example.org\r\n"));
  BOOST_TEST(content.contains("\r\nFrom: ada@example.org\r\n"));
  BOOST_TEST(content.contains("\r\nDate: "));
  BOOST_TEST(!content.contains("secret"));
  BOOST_TEST(content.ends_with("\r\n\r\nhe llo\r\n.\r\nlast\r\n"));
  BOOST_TEST(was_inline);
}

BOOST_AUTO_TEST_CASE(content_that_waits_in_the_spool_for_its_envelope_becomes_the_same_message) {
  std::string body;
  while (body.size() < 3 * Server::kHeld) body += "some text of a line, \xe4\xf6 and a \r too\n";
  const std::string text = "Subject: x\n\n" + body;
  BOOST_TEST(ask(request(text, "ada@sender.example")) == netstring("KOk: queued as Q1"));
  BOOST_REQUIRE(queue.stored.size() == 1U);
  const std::string& content = queue.stored.front().content;
  BOOST_TEST(content.contains("\tfor <user@example.org>; "));
  BOOST_TEST(content.contains("\r\nFrom: ada@sender.example\r\n"));
  std::string lines;
  for (const char c : body) lines += c == '\n' ? "\r\n" : c == '\r' ? " " : std::string(1, c);
  BOOST_TEST(content.ends_with("\r\n\r\n" + lines));
  BOOST_TEST(queue.leases == 0);
}

BOOST_AUTO_TEST_CASE(large_text_without_a_header_is_all_body) {
  std::string text;
  while (text.size() < 2 * Server::kHeld) text += "no header at all\n";
  BOOST_TEST(ask(request(text)).contains("KOk"));
  const std::string& content = queue.stored.at(0).content;
  BOOST_TEST(content.contains("\r\nFrom: ada@sender.example\r\n\r\nno header at all\r\nno header"));
}

BOOST_AUTO_TEST_CASE(recipients_are_many_and_the_sender_may_be_null) {
  std::vector<std::string> all;
  for (int i = 0; i < 3000; ++i) all.push_back("u" + std::to_string(i) + "@there.example");
  BOOST_TEST(ask(request(kMail, "", all)) == netstring("KOk: queued as Q1"));
  BOOST_TEST(queue.stored.at(0).envelope.sender.empty());
  BOOST_TEST(queue.stored.at(0).envelope.recipients.size() == 3000U);
  BOOST_TEST(!queue.stored.at(0).content.contains("for <"));
}

BOOST_AUTO_TEST_CASE(recipients_of_all_sessions_together_have_a_bound) {
  intake.memory = intake::RecipientMemory(1);
  BOOST_TEST(ask(request(kMail)).contains("KOk"));
  BOOST_TEST(ask(request(kMail, "a@b", std::vector<std::string>(200, "user@example.org"))) ==
             netstring("ZError: too many recipients of all clients, try again later"));
  BOOST_TEST(queue.stored.size() == 1U);
}

BOOST_AUTO_TEST_CASE(virtual_aliases_act) {
  resolve->aliases["user@example.org"] = {"a@there.example", "b@there.example"};
  BOOST_TEST(ask(request(kMail)).contains("KOk"));
  BOOST_TEST(queue.stored.at(0).envelope.recipients.size() == 2U);
  resolve->aliases["user@example.org"] = std::vector<std::string>(9, "x@there.example");
  BOOST_TEST(ask(request(kMail)) == netstring("ZError: 4.6.0 alias expansion exceeds limit"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_in_postfixs_words) {
  intake.settings.hopcount_limit = 3;
  BOOST_TEST(ask(request(kMail, "a@b", {})) == netstring("DError: no recipients specified"));
  BOOST_TEST(ask(request("Received: x\nReceived: x\nReceived: x\nReceived: x\n" + kMail)) ==
             netstring("DError: too many hops"));
  intake.settings.header_field_limit = 3;
  BOOST_TEST(ask(request("X: y\nX: y\nX: y\nX: y\n" + kMail)) == netstring("DError: too many header fields"));
  intake.settings.header_field_limit = 0;
  BOOST_TEST(ask("12x:") == netstring("Dnetstring format error while receiving QMQP packet header"));
  BOOST_TEST(ask("12:x") == netstring("Dnetstring format error while receiving message content"));
  BOOST_TEST(ask("9000000:" + std::to_string(1'000'001) + ":x") ==
             netstring("Dnetstring length exceeds storage limit while receiving message content"));
  BOOST_TEST(ask(request(kMail, std::string(101, 'a'))) ==
             netstring("Dnetstring length exceeds storage limit while receiving sender address"));
  BOOST_TEST(ask(request(kMail, "a@b", {std::string(101, 'a')})) ==
             netstring("Dnetstring length exceeds storage limit while receiving recipient address"));
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(ask(request(kMail) + "garbage").contains("KOk"));
}

BOOST_AUTO_TEST_CASE(half_a_request_is_nothing) {
  const std::string whole = request(kMail);
  for (std::size_t size = 0; size < whole.size(); size += 5) BOOST_TEST(ask(whole.substr(0, size)) == "");
  BOOST_TEST(queue.stored.empty());
  BOOST_TEST(server->counts().live == 0U);
}

BOOST_AUTO_TEST_CASE(an_address_with_a_control_character_is_no_address) {
  for (const char c : {'\n', '\r', '\0', '\x7f'}) {
    const std::string odd = std::string("a") + c + "b@there.example";
    BOOST_TEST(ask(request(kMail, odd)) == netstring("DError: control character in an address"));
    BOOST_TEST(ask(request(kMail, "a@b", {"user@example.org", odd, "user@example.org"})) ==
               netstring("DError: control character in an address"));
  }
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(what_the_queue_does_not_take_may_come_again) {
  const std::string later = netstring("ZError: queue file write error");
  queue.outcome = intake::Enqueued::no_space;
  BOOST_TEST(ask(request(kMail)) == later);
  queue.outcome = intake::Enqueued::unavailable;
  BOOST_TEST(ask(request(kMail)) == later);
  queue.outcome = intake::Enqueued::ok;
  queue.lease_outcome = intake::Enqueued::no_space;
  BOOST_TEST(ask(request(kMail + std::string(2 * Server::kHeld, 'x'))) == later);
  resolve->broken = true;
  BOOST_TEST(ask(request(kMail)) == later);
  BOOST_TEST(queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(clients_are_named_by_address_or_by_a_name_that_is_theirs) {
  BOOST_TEST(ask(request(kMail), "203.0.113.9") ==
             netstring("DError: client.example[203.0.113.9] is not authorized to use this service"));
  BOOST_TEST(queue.stored.empty());
  name = "list.trusted.example";
  BOOST_TEST(ask(request(kMail), "203.0.113.9").contains("KOk"));
  BOOST_TEST(ask(request(kMail), "::ffff:192.0.2.9").contains("KOk"));
  BOOST_TEST(queue.stored.back().envelope.client.address == "192.0.2.9");
}

BOOST_AUTO_TEST_CASE(a_client_that_may_not_hand_in_mail_hears_so_before_it_says_anything) {
  name = "";
  options.show_port = true;
  Client client = connect("203.0.113.9");
  BOOST_TEST(settle(client));
  BOOST_TEST(client.said == netstring("DError: unknown[203.0.113.9]:4711 is not authorized to use this service"));
}

BOOST_AUTO_TEST_CASE(nobody_is_let_in_while_the_list_cannot_be_read) {
  authorized = "fail:broken";
  BOOST_TEST(ask(request(kMail)) == netstring("ZError: server configuration error"));
}

BOOST_AUTO_TEST_CASE(an_error_is_said_after_the_delay_and_holds_up_nobody) {
  options.error_delay = seconds(30);
  Client bad = connect();
  send(bad, "nonsense");
  BOOST_TEST(!settle(bad));
  BOOST_TEST(bad.said.empty());
  BOOST_TEST(ask(request(kMail)) == netstring("KOk: queued as Q2"));
  clock.advance(seconds(29));
  BOOST_TEST(!settle(bad));
  BOOST_TEST(bad.said.empty());
  clock.advance(seconds(1));
  settle(bad);
  BOOST_TEST(bad.said.contains("netstring format error"));
}

BOOST_AUTO_TEST_CASE(after_an_early_reply_the_rest_is_read_for_a_while) {
  Client bad = connect();
  send(bad, "nonsense");
  BOOST_TEST(settle(bad));  // the end of the output, not of the connection
  send(bad, std::string(300'000, 'x'));
  settle(bad);
  BOOST_TEST(server->counts().live == 1U);
  clock.advance(seconds(6));
  for (int i = 0; i < 40; ++i) loop.run_once(milliseconds(1));
  BOOST_TEST(server->counts().live == 0U);
}

BOOST_AUTO_TEST_CASE(a_silent_client_is_left_after_the_time_for_one_read) {
  options.timeout = seconds(100);
  Client client = connect();
  send(client, "100:50:abc");
  settle(client);
  clock.advance(seconds(99));
  BOOST_TEST(!settle(client));
  send(client, "d");
  settle(client);
  clock.advance(seconds(99));
  BOOST_TEST(!settle(client));
  clock.advance(seconds(2));
  BOOST_TEST(settle(client));
  BOOST_TEST(client.said.empty());
}

BOOST_AUTO_TEST_CASE(a_session_has_an_hour) {
  Client client = connect();
  send(client, "100000:50000:");
  for (int i = 0; i < 60; ++i) {
    send(client, "x");
    settle(client);
    clock.advance(seconds(61));
  }
  BOOST_TEST(settle(client));
}

BOOST_AUTO_TEST_CASE(a_stop_ends_who_waits_for_a_client) {
  Client client = connect();
  send(client, "100:50:abc");
  BOOST_TEST(!settle(client));
  server->stop();
  BOOST_TEST(settle(client));
  BOOST_TEST(server->counts().live == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmqpd
