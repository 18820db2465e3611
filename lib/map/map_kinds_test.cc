#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <set>
#include <thread>

#include "lib/base/fd.h"
#include "lib/map/debug_map.h"
#include "lib/map/map.h"
#include "lib/map/socketmap_limits.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::map;

BOOST_AUTO_TEST_SUITE(map_kinds)

namespace {
std::string shown(const Value& v) {
  if (!v) return "error: " + v.error().message();
  return v->value_or("(none)");
}
std::string look(const std::string& spec, std::string_view key) {
  auto m = open(spec);
  BOOST_REQUIRE_MESSAGE(m.has_value(), (m ? "" : m.error().message()));
  return shown((*m)->lookup(key));
}

/// A server that answers whole requests by a function, on one connection after the other.
class Server {
 public:
  using Answer = std::function<std::string(const std::string&)>;
  Server(int family, const std::string& path, char end, Answer answer) : answer_(std::move(answer)), end_(end) {
    fd_ = Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (family == AF_UNIX) {
      sockaddr_un at{};
      at.sun_family = AF_UNIX;
      path.copy(at.sun_path, sizeof at.sun_path - 1);
      BOOST_REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    } else {
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      BOOST_REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
      socklen_t size = sizeof at;
      BOOST_REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
      port = std::to_string(ntohs(at.sin_port));
    }
    BOOST_REQUIRE(::listen(fd_.get(), 8) == 0);
    thread_ = std::thread([this] { run(); });
  }
  ~Server() {
    ::shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string port;
  std::atomic<int> connections = 0;

 private:
  void run() {
    for (;;) {
      Fd c(::accept(fd_.get(), nullptr, nullptr));
      if (!c) return;
      ++connections;
      std::string request;
      char byte = 0;
      while (::recv(c.get(), &byte, 1, 0) == 1) {
        request += byte;
        if (byte != end_) continue;
        const std::string reply = answer_(std::exchange(request, {}));
        if (reply.empty()) break;
        (void)!::send(c.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      }
    }
  }
  Answer answer_;
  char end_;
  Fd fd_;
  std::thread thread_;
};
}  // namespace

BOOST_AUTO_TEST_CASE(a_union_has_what_every_table_has) {
  const std::string spec = "unionmap:{inline:{a=1,b=2},inline:{a=3}}";
  BOOST_TEST(look(spec, "a") == "1,3");
  BOOST_TEST(look(spec, "b") == "2");
  BOOST_TEST(look(spec, "c") == "(none)");
  BOOST_TEST(look("unionmap:{ inline:{ {a = x y} }, fail:x }", "a").starts_with("error"));
}

BOOST_AUTO_TEST_CASE(a_pipe_asks_the_next_table_for_what_the_one_before_had) {
  const std::string spec = "pipemap:{inline:{a=b,c=d},inline:{b=end}}";
  BOOST_TEST(look(spec, "a") == "end");
  BOOST_TEST(look(spec, "c") == "(none)");
  BOOST_TEST(look(spec, "x") == "(none)");
}

BOOST_AUTO_TEST_CASE(debug_tells_what_the_inner_table_says_and_says_the_same) {
  struct Row {
    const char *spec, *key, *value, *told;
  };
  for (const Row& row : {
           Row{"debug:inline:{a=1}", "a", "1", "inline:{a=1} lookup: \"a\" = \"1\"\n"},
           Row{"debug:inline:{a=1}", "b", "(none)", "inline:{a=1} lookup: \"b\" = \"not_found\"\n"},
           Row{"debug:static:{two words}", "k", "two words", "static:{two words} lookup: \"k\" = \"two words\"\n"},
           Row{"debug:fail:x", "k", "error", "fail:x lookup: \"k\" = \"error\" ("},
           Row{"debug:debug:static:x", "k", "x",
               "static:x lookup: \"k\" = \"x\"\ndebug:static:x lookup: \"k\" = \"x\"\n"},
           Row{"debug:proxy:static:x", "k", "x", "proxy:static:x lookup: \"k\" = \"x\"\n"},
           Row{"proxy:debug:static:x", "k", "x", "static:x lookup: \"k\" = \"x\"\n"},
           Row{"pipemap:{debug:inline:{a=b},inline:{b=c}}", "a", "c", "inline:{a=b} lookup: \"a\" = \"b\"\n"},
           Row{"unionmap:{static:x,debug:static:y}", "k", "x,y", "static:y lookup: \"k\" = \"y\"\n"},
           Row{"debug:unionmap:{static:x,static:y}", "k", "x,y",
               "unionmap:{static:x,static:y} lookup: \"k\" = \"x,y\"\n"},
           Row{"static:x", "k", "x", ""},
       }) {
    std::string told;
    on_debug_look_up([&](const std::string& line) { told += line + "\n"; });
    BOOST_TEST(look(row.spec, row.key).starts_with(row.value), row.spec);
    BOOST_TEST(told.starts_with(row.told), told);
    BOOST_TEST(told.empty() == (*row.told == '\0'), told);
  }
  on_debug_look_up({});
  BOOST_TEST(look("debug:static:x", "k") == "x");
}

BOOST_AUTO_TEST_CASE(debug_is_the_inner_table_for_all_else) {
  BOOST_TEST((*open("debug:regexp:{{/a/ b}}"))->whole_key_only());
  BOOST_TEST((*open("debug:socketmap:unix:/x:y"))->blocking());
  BOOST_TEST((*open("debug:texthash:/no/such"))->problem().has_value());
  const pen::testing::ScratchDir dir;
  const auto text = *open("debug:texthash:" + dir.write("text", "a b\n"));
  BOOST_TEST(shown(text->lookup("a")) == "b");
  BOOST_TEST((text->owner() == ::geteuid()));
  OpenOptions files;
  files.served = files.substitute = false;
  BOOST_TEST((*open("debug:tcp:127.0.0.1:9", files))->problem().has_value());
  BOOST_TEST((*open("debug:regexp:{{/(a)/ $1}}", files))->problem().has_value());
}

BOOST_AUTO_TEST_CASE(tables_of_tables_that_are_wrong_do_not_open) {
  for (const auto* spec :
       {"unionmap:{}", "pipemap:{ nosuch:/x }", "randmap:{}", "unionmap:{x:}", "socketmap:inet:host",
        "socketmap:unix:relative:x", "tcp:host", "socketmap:inet:h:1:", "debug:", "debug:static", "debug:nosuch:x"})
    BOOST_TEST(!open(spec), spec);
  std::string deep = "inline:{a=1}";
  for (int i = 0; i < 50; ++i) deep = "unionmap:{" + deep + "}";
  BOOST_TEST(!open(deep));
  deep = "static:x";
  for (int i = 0; i < 50; ++i) deep = "debug:" + deep;
  BOOST_TEST(!open(deep));
}

BOOST_AUTO_TEST_CASE(a_choice_gives_each_of_its_values_sometimes) {
  auto m = open("randmap:{one, two, {three four}}");
  BOOST_REQUIRE(m);
  std::set<std::string> seen;
  for (int i = 0; i < 1000 && seen.size() < 3; ++i) seen.insert(shown((*m)->lookup("x")));
  BOOST_TEST((seen == std::set<std::string>{"one", "two", "three four"}));
}

BOOST_AUTO_TEST_CASE(the_environment_is_a_table) {
  ::setenv("PEN_MAP_TEST", "value", 1);
  BOOST_TEST(look("environ:", "PEN_MAP_TEST") == "value");
  ::unsetenv("PEN_MAP_TEST");
  BOOST_TEST(look("environ:", "PEN_MAP_TEST") == "(none)");
}

BOOST_AUTO_TEST_CASE(a_socketmap_is_asked_in_netstrings_over_a_connection_that_stays) {
  pen::testing::ScratchDir dir;
  const auto path = dir.file("s");
  std::string asked;
  Server server(AF_UNIX, path, ',', [&](const std::string& request) -> std::string {
    asked = request;
    if (request == "9:table key,") return "8:OK value,";
    if (request == "7:table t,") return "9:TEMP oops,";
    if (request == "7:table x,") return "nonsense here";
    if (request == "7:table d,") return "";  // closes the connection
    return "9:NOTFOUND ,";
  });
  auto m = open("socketmap:unix:" + path + ":table");
  BOOST_REQUIRE(m);
  BOOST_TEST((*m)->blocking());
  BOOST_TEST(shown((*m)->lookup("key")) == "value");
  BOOST_TEST(shown((*m)->lookup("other")) == "(none)");
  BOOST_TEST(asked == "11:table other,");
  BOOST_TEST(server.connections == 1);
  BOOST_TEST(shown((*m)->lookup("t")).find("TEMP oops") != std::string::npos);
  BOOST_TEST(shown((*m)->lookup("d")).starts_with("error"));
  BOOST_TEST(shown((*m)->lookup("x")).starts_with("error"));
  BOOST_TEST(shown((*m)->lookup("key")) == "value");
}

BOOST_AUTO_TEST_CASE(a_question_or_an_answer_beyond_the_bounds_of_socketmaps_is_an_error) {
  pen::testing::ScratchDir dir;
  int asked = 0;
  Server server(AF_UNIX, dir.file("s"), ',', [&](const std::string& request) -> std::string {
    ++asked;
    if (request == "7:table b,") return "11:OK 12345678,";
    if (request == "7:table l,") return "12:OK 123456789,";
    return "9:NOTFOUND ,";
  });
  const auto m = *open("socketmap:unix:" + dir.file("s") + ":table");
  limit_socketmaps({.query = 12, .reply = 11});
  BOOST_TEST(shown(m->lookup("b")) == "12345678");
  BOOST_TEST(shown(m->lookup("l")).starts_with("error"));
  const int before = asked;
  BOOST_TEST(shown(m->lookup("1234567")).contains("socketmap_max_query_size"));
  BOOST_TEST(asked == before);
  (void)shown(m->lookup("123456"));
  BOOST_TEST(asked == before + 1);
  // Longer keys than other tables have, and answers than are usual.
  limit_socketmaps({.query = 10'000, .reply = 200'000});
  Server large(AF_UNIX, dir.file("l"), ',',
               [](const std::string&) -> std::string { return "150000:OK " + std::string(149'997, 'x') + ","; });
  const auto l = *open("socketmap:unix:" + dir.file("l") + ":table");
  BOOST_TEST(shown(l->lookup(std::string(9'000, 'k'))).size() == 149'997U);
  limit_socketmaps({});
  BOOST_TEST(shown(l->lookup("k")).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(a_tcp_table_is_asked_in_lines_with_percent_codes) {
  std::string asked;
  Server server(AF_INET, "", '\n', [&](const std::string& request) -> std::string {
    asked = request;
    if (request == "get a%20%25b\n") return "200 x%20y\n";
    if (request == "get bad\n") return "200 %zz\n";
    if (request == "get later\n") return "400 not now\n";
    return "500 no\n";
  });
  auto m = open("tcp:127.0.0.1:" + server.port);
  BOOST_REQUIRE(m);
  BOOST_TEST((*m)->whole_key_only());
  BOOST_TEST(shown((*m)->lookup("a %b")) == "x y");
  BOOST_TEST(shown((*m)->lookup("c\nget d")) == "(none)");
  BOOST_TEST(asked == "get c%0aget%20d\n");
  BOOST_TEST(shown((*m)->lookup("bad")).starts_with("error"));
  BOOST_TEST(shown((*m)->lookup("later")).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(a_server_that_is_not_there_is_no_answer) {
  pen::testing::ScratchDir dir;
  BOOST_TEST(look("socketmap:unix:" + dir.file("none") + ":t", "k").starts_with("error"));
}

BOOST_AUTO_TEST_SUITE_END()
