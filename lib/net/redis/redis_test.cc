#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/base/async/testing/run.h"
#include "lib/net/redis/client.h"
#include "lib/net/redis/server.h"

namespace pen::redis {
namespace {

std::optional<Reply> read(std::string_view bytes, std::size_t step) {
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.feed(bytes.substr(at, step));
    auto next = reader.next();
    if (!next) return std::nullopt;
    if (*next) return std::move(**next);
  }
  return std::nullopt;
}

std::string error_of(std::string_view bytes) {
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += 16384) {
    reader.feed(bytes.substr(at, 16384));
    if (auto next = reader.next(); !next)
      return next.error().is(RedisError::too_large) ? "too large" : "malformed";
    else if (*next)
      return "a reply";
  }
  return "not whole";
}

/// A server that answers each read with the next of these texts.
struct Script {
  async::Loop loop;
  std::unique_ptr<async::Listener> listener;
  std::uint16_t port = 0;
  std::vector<std::string> answers;
  std::string seen;
  int connections = 0;

  Script() {
    auto fd = async::listen_on(async::SocketAddress::inet("127.0.0.1", 0));
    BOOST_REQUIRE(fd.has_value());
    port = async::local_address(fd->get())->port;
    listener = std::make_unique<async::Listener>(loop, std::move(*fd), 10);
    loop.spawn("server", serve());
  }
  async::Task<void> serve() {
    for (;;) {
      auto accepted = co_await listener->accept();
      if (!accepted) co_return;
      ++connections;
      for (;;) {
        auto bytes = co_await accepted->stream.read_some(65536);
        if (!bytes) break;
        seen += *bytes;
        if (answers.empty()) continue;
        if (answers.front() == "close") {
          answers.erase(answers.begin());
          break;
        }
        accepted->stream.write(answers.front());
        answers.erase(answers.begin());
      }
    }
  }
  ClientOptions options(milliseconds timeout = milliseconds(2000)) const {
    ClientOptions o;
    o.server = {.path = {}, .host = "127.0.0.1", .port = port};
    o.timeout = timeout;
    return o;
  }
  template <class Done>
  void until(Done&& done) {
    for (int i = 0; i < 2000 && !done(); ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(done());
  }
};

struct Events {
  int ups = 0, downs = 0;
  std::string why;
  std::vector<Reply> greeted;
  ClientEvents events(std::vector<std::vector<std::string>> greeting = {}) {
    return {std::move(greeting),
            [this](const std::vector<Reply>& g) {
              ++ups;
              greeted = g;
            },
            [this](const Error& e) {
              ++downs;
              why = e.message();
            }};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(redis)

BOOST_AUTO_TEST_CASE(replies_are_the_same_however_they_are_split) {
  std::string with_nul = "*4\r\n:42\r\n$5\r\na\r\nb";
  with_nul += '\0';
  with_nul += "\r\n*2\r\n+OK\r\n$-1\r\n-ERR no\r\n";
  for (const std::size_t step : {1U, 2U, 3U, 7U, 1000U}) {
    const auto r = read(with_nul, step);
    BOOST_REQUIRE(r.has_value());
    BOOST_REQUIRE(r->items.size() == 4U);
    BOOST_TEST(r->items[0].integer == 42);
    BOOST_TEST(r->items[1].text == std::string("a\r\nb\0", 5));
    BOOST_TEST((r->items[2].items[0].kind == Reply::Kind::status));
    BOOST_TEST((r->items[2].items[1].kind == Reply::Kind::nil));
    BOOST_TEST((r->items[3].kind == Reply::Kind::error));
    BOOST_TEST(r->items[3].text == "ERR no");
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_reply_or_too_much_is_refused_before_it_takes_memory) {
  BOOST_TEST(error_of("hello\r\n") == "malformed");
  BOOST_TEST(error_of("*1\r\n!x\r\n") == "malformed");
  BOOST_TEST(error_of(":12x\r\n") == "malformed");
  // RESP3, which no server is asked for.
  for (const char* reply :
       {",1.5\r\n", "#t\r\n", "%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", "(123\r\n", "=7\r\ntxt:abc\r\n", ">1\r\n+a\r\n"})
    BOOST_TEST(error_of(reply) == "malformed", reply);
  BOOST_TEST(error_of("*1025\r\n") == "too large");
  BOOST_TEST(error_of("*2147483647\r\n") == "too large");
  BOOST_TEST(error_of("*4294967297\r\n") != "not whole");
  BOOST_TEST(error_of("*-5\r\n") != "not whole");
  std::string nested;
  for (int i = 0; i < 3; ++i) nested += "*600\r\n";  // each size is allowed, but not all together
  BOOST_TEST(error_of(nested) == "too large");
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "*1\r\n";
  BOOST_TEST(error_of(deep) != "not whole");
  BOOST_TEST(error_of("$1000000\r\n" + std::string(300'000, 'x')) == "too large");
  BOOST_TEST(error_of("+" + std::string(300'000, 'x')) == "too large");
  BOOST_TEST(error_of("$100000\r\n" + std::string(100'000, 'x') + "\r\n") == "a reply");
}

BOOST_AUTO_TEST_CASE(commands_carry_any_bytes) {
  BOOST_TEST(format_command({"GET", std::string("a\0\r\n", 4)}) ==
             std::string("*2\r\n$3\r\nGET\r\n$4\r\na\0\r\n\r\n", 23));
}

BOOST_AUTO_TEST_CASE(a_server_is_written_in_few_ways) {
  const auto form = [](std::string_view text) {
    const auto s = parse_server(text);
    return s ? s->text() : std::string("none");
  };
  BOOST_TEST(form("inet:127.0.0.1:7000") == "inet:127.0.0.1:7000");
  BOOST_TEST(form(" redis.example ") == "inet:redis.example:6379");
  BOOST_TEST(form("redis.example:1") == "inet:redis.example:1");
  BOOST_TEST(form("inet:[2001:db8::1]:6380") == "inet:[2001:db8::1]:6380");
  BOOST_TEST(form("unix:/run/redis.sock") == "unix:/run/redis.sock");
  BOOST_TEST(form("/run/redis.sock") == "unix:/run/redis.sock");
  for (const char* wrong : {"", "inet:", ":6379", "host:0", "host:65536", "host:x", "::1", "[::1", "[::1]x", "unix:run",
                            "a b", "tcp://host:1"})
    BOOST_TEST(form(wrong) == "none", wrong);
}

BOOST_AUTO_TEST_CASE(requests_are_answered_in_order_after_the_greeting) {
  Script s;
  Events seen;
  s.answers = {"+OK\r\n$3\r\nsha\r\n+PONG\r\n", ":1\r\n:", "2\r\n"};
  ClientOptions o = s.options();
  o.user = "me";
  o.password = "word";
  Client client(s.loop, o, seen.events({{"SCRIPT", "LOAD", "x"}}));
  BOOST_TEST(!client.send({"GET", "a"}, {}));
  client.start();
  s.until([&] { return seen.ups == 1; });
  BOOST_TEST(s.seen.starts_with("*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$4\r\nword\r\n"));
  BOOST_REQUIRE(seen.greeted.size() == 1U);
  BOOST_TEST(seen.greeted[0].text == "sha");
  std::vector<std::int64_t> got;
  const auto keep = [&](Result<Reply> r) { got.push_back(r ? r->integer : -1); };
  BOOST_TEST(client.send({"INCR", "a"}, keep));
  BOOST_TEST(client.send({"INCR", "a"}, keep));
  s.until([&] { return got.size() == 1; });
  // The rest of the second reply comes when the server reads again, with the next request.
  BOOST_TEST(client.send({"INCR", "a"}, {}));
  s.until([&] { return got.size() == 2; });
  BOOST_TEST(got[0] == 1);
  BOOST_TEST(got[1] == 2);
}

BOOST_AUTO_TEST_CASE(a_reply_that_nobody_asked_for_ends_the_connection_and_it_is_tried_again) {
  Script s;
  Events seen;
  s.answers = {"+PONG\r\n", ":1\r\n:2\r\n", "+PONG\r\n"};
  Client client(s.loop, s.options(), seen.events());
  client.start();
  s.until([&] { return seen.ups == 1; });
  int answers = 0;
  client.send({"X"}, [&](Result<Reply> r) { answers += r ? 1 : 100; });
  s.until([&] { return seen.downs == 1; });
  BOOST_TEST(answers == 1);
  BOOST_TEST(seen.why.find("unexpected reply") != std::string::npos);
  s.until([&] { return seen.ups == 2; });
  BOOST_TEST(s.connections == 2);
}

BOOST_AUTO_TEST_CASE(what_is_under_way_ends_with_an_error_when_the_server_goes_or_is_silent) {
  Script s;
  Events seen;
  s.answers = {"+PONG\r\n", "close"};
  Client client(s.loop, s.options(milliseconds(300)), seen.events());
  client.start();
  s.until([&] { return seen.ups == 1; });
  int lost = 0;
  for (int i = 0; i < 3; ++i) client.send({"X"}, [&](Result<Reply> r) { lost += r ? 0 : 1; });
  s.until([&] { return seen.downs == 1; });
  BOOST_TEST(lost == 3);
  BOOST_TEST(client.under_way() == 0U);
  s.answers = {"+PONG\r\n"};  // and no answer after the greeting
  s.until([&] { return seen.ups == 2; });
  client.send({"X"}, [&](Result<Reply> r) { lost += r ? 0 : 1; });
  s.until([&] { return seen.downs == 2; });
  BOOST_TEST(lost == 4);
  BOOST_TEST(seen.why.find("no answer in time") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_the_password_is_down_and_told_once) {
  Script s;
  Events seen;
  s.answers = {"-WRONGPASS no\r\n", "-WRONGPASS no\r\n", "+OK\r\n+PONG\r\n"};
  ClientOptions o = s.options();
  o.password = "word";
  Client client(s.loop, o, seen.events());
  client.start();
  s.until([&] { return seen.ups == 1; });
  BOOST_TEST(seen.downs == 1);
  BOOST_TEST(seen.why.find("WRONGPASS") != std::string::npos);
  BOOST_TEST(seen.why.find("word") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(more_requests_than_the_bound_are_not_taken) {
  Script s;
  Events seen;
  s.answers = {"+PONG\r\n"};
  Client client(s.loop, s.options(), seen.events());
  client.start();
  s.until([&] { return seen.ups == 1; });
  std::size_t taken = 0;
  while (taken < 2 * Client::kMaxRequests && client.send({"X"}, {})) ++taken;
  BOOST_TEST(taken == Client::kMaxRequests);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::redis
