// memcache: tables: the protocol's replies, hits and misses, the backup, servers that fail. The server is a thread of
// the test behind a Unix socket.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <mutex>
#include <thread>

#include "lib/base/fd.h"
#include "lib/map/map.h"
#include "lib/map/memcache_reply.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::map;

namespace {

using State = MemcacheReply::State;

std::string shown(const Value& v) {
  if (!v) return "error: " + v.error().message();
  return v->value_or("(none)");
}

/// Answers every line of a client by what `answers` has for it, else with END. "close" closes the connection, "silent"
/// says nothing until the test ends.
class FakeServer {
 public:
  explicit FakeServer(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
    BOOST_REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    BOOST_REQUIRE(::listen(listener_.get(), 100) == 0);
    accepting_ = std::jthread([this] { accept(); });
  }
  ~FakeServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    accepting_.join();
    for (const int fd : clients_) ::shutdown(fd, SHUT_RDWR);
    threads_.clear();
    for (const int fd : clients_) ::close(fd);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void answer(const std::string& line, const std::string& reply) {
    const std::lock_guard lock(mutex_);
    answers_[line] = reply;
  }
  std::vector<std::string> take_lines() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }
  std::size_t connections() {
    const std::lock_guard lock(mutex_);
    return clients_.size();
  }

 private:
  void accept() {
    for (;;) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      clients_.push_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    std::string got;
    for (char chunk[4096];;) {
      const auto n = ::recv(fd, chunk, sizeof chunk, 0);
      if (n <= 0) return;
      got.append(chunk, static_cast<std::size_t>(n));
      for (auto end = got.find("\r\n"); end != std::string::npos; end = got.find("\r\n")) {
        const std::string line = got.substr(0, end);
        got.erase(0, end + 2);
        const std::string reply = note(line);
        if (reply == "close") {
          ::shutdown(fd, SHUT_RDWR);
          return;
        }
        if (reply != "silent") (void)::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
      }
    }
  }
  std::string note(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    if (const auto known = answers_.find(line); known != answers_.end()) return known->second;
    if (line.starts_with("set ")) return "";  // the value comes in the next line
    return lines_.size() > 1 && lines_[lines_.size() - 2].starts_with("set ") ? "STORED\r\n" : "END\r\n";
  }

  Fd listener_;
  std::mutex mutex_;
  std::map<std::string, std::string> answers_;
  std::vector<std::string> lines_;
  std::vector<int> clients_;
  std::vector<std::jthread> threads_;
  std::jthread accepting_;
};

struct Fixture {
  std::shared_ptr<Map> table(const std::string& more = "", const OpenOptions& options = {}) const {
    const std::string text = "memcache = unix:" + dir.file("s") + "\n" + more;
    return *map::open("memcache:" + dir.write("t.cf", text), options);
  }
  void answer(const std::string& key, const std::string& value) {
    server.answer("get " + key, "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n");
  }
  using Lines = std::vector<std::string>;

  testing::ScratchDir dir;
  FakeServer server{dir.file("s")};
};

State state(std::string_view bytes) { return read_memcache_get(bytes, "k", {.line = 30, .data = 10}).state; }

}  // namespace

BOOST_AUTO_TEST_SUITE(memcache_replies)

BOOST_AUTO_TEST_CASE(a_value_is_found_and_its_absence) {
  const auto hit = read_memcache_get("VALUE k 7 5\r\na\r\nb!\r\nEND\r\n", "k", {});
  BOOST_TEST((hit.state == State::hit));
  BOOST_TEST(hit.text == "a\r\nb!");
  BOOST_TEST((state("VALUE k 0 0\r\n\r\nEND\r\n") == State::hit));
  BOOST_TEST((state("END\r\n") == State::miss));
  BOOST_TEST((read_memcache_set("STORED\r\n", {}).state == State::stored));
}

BOOST_AUTO_TEST_CASE(every_part_of_a_reply_is_incomplete) {
  const std::string whole = "VALUE k 0 1\r\nv\r\nEND\r\n";
  for (std::size_t i = 0; i < whole.size(); ++i) BOOST_TEST((state(whole.substr(0, i)) == State::incomplete), i);
}

BOOST_AUTO_TEST_CASE(what_is_no_reply_to_this_question_is_told_apart) {
  for (const char* text : {"VALUE l 0 1\r\nv\r\nEND\r\n", "VALUE k 0 1\r\nvv\r\nEND\r\n", "VALUE k 0 1\r\nv\r\nEnd\r\n",
                           "VALUE k 0 x\r\n", "VALUE k 0\r\n", "VALUE k 0 -1\r\n", "\r\n", "STORED\r\n",
                           "END\r\nEND\r\n", "VALUE k 0 1\r\nv\r\nEND\r\nE", "VALUES k 0 1\r\n"})
    BOOST_TEST((state(text) == State::malformed), text);
  for (const char* text : {"ERROR\r\n", "SERVER_ERROR out of memory\r\n", "CLIENT_ERROR bad\r\n"})
    BOOST_TEST((state(text) == State::refused), text);
  BOOST_TEST((read_memcache_set("NOT_STORED\r\n", {}).state == State::refused));
  BOOST_TEST((read_memcache_set("END\r\n", {}).state == State::malformed));
}

BOOST_AUTO_TEST_CASE(what_is_beyond_the_bounds_is_not_waited_for) {
  BOOST_TEST((state(std::string(32, 'x')) == State::too_large));
  BOOST_TEST((state("ERROR" + std::string(25, 'x') + "\r") == State::incomplete));
  BOOST_TEST((state(std::string(31, 'x') + "\r\n") == State::too_large));
  BOOST_TEST((state("VALUE k 0 11\r\n") == State::too_large));
  BOOST_TEST((state("VALUE k 0 18446744073709551615\r\n") == State::too_large));
  BOOST_TEST((state("VALUE k 0 99999999999999999999\r\n") == State::malformed));
  BOOST_TEST((state("VALUE k 0 1\r\nv\r\n" + std::string(32, 'x')) == State::too_large));
}

BOOST_AUTO_TEST_CASE(keys_that_the_server_cannot_have_are_known) {
  BOOST_TEST((is_memcache_key("jo@x.org") && is_memcache_key("j\xc3\xbc") && is_memcache_key(std::string(250, 'k'))));
  for (const std::string key : {"", "a b", "a\tb", "a\r\nset b", "a\x7f"}) BOOST_TEST(!is_memcache_key(key), key);
  BOOST_TEST(!is_memcache_key(std::string(251, 'k')));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(memcache_tables, Fixture)

BOOST_AUTO_TEST_CASE(keys_are_found_and_not_found) {
  answer("key", "value");
  answer("empty", "");
  const auto t = table();
  BOOST_TEST(!t->problem());
  BOOST_TEST(t->blocking());
  BOOST_TEST(shown(t->lookup("key")) == "value");
  BOOST_TEST(shown(t->lookup("KEY")) == "value");
  BOOST_TEST(shown(t->lookup("empty")) == "");
  BOOST_TEST(shown(t->lookup("absent")) == "(none)");
  BOOST_TEST(server.connections() == 1U);
  (void)server.take_lines();
  for (const std::string key : {"two words", "line\r\nget key", "", "\xff"})
    BOOST_TEST(shown(t->lookup(key)) == "(none)");
  BOOST_TEST(server.take_lines().empty());
}

BOOST_AUTO_TEST_CASE(key_format_and_domain_say_what_is_asked) {
  answer("mail:jo:org", "value");
  const auto t = table("key_format = mail:%u:%1\ndomain = x.org\n");
  BOOST_TEST(shown(t->lookup("jo@x.org")) == "value");
  for (const char* key : {"jo@y.org", "jo", "@x.org"}) BOOST_TEST(shown(t->lookup(key)) == "(none)");
  BOOST_TEST(server.take_lines() == Lines{"get mail:jo:org"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_the_backup_has_is_put_into_the_cache) {
  const std::string more = "backup = inline:{ jo=there, long=" + std::string(20, 'v') +
                           " }\nkey_format = a:%s\nflags = 3\nttl = 60\ndata_size_limit = 10\n";
  const auto t = table(more);
  BOOST_TEST(shown(t->lookup("Jo")) == "there");
  BOOST_TEST(server.take_lines() == (Lines{"get a:jo", "set a:jo 3 60 5", "there"}), boost::test_tools::per_element());
  answer("a:jo", "cached");
  BOOST_TEST(shown(t->lookup("jo")) == "cached");
  BOOST_TEST(shown(t->lookup("absent")) == "(none)");
  BOOST_TEST(shown(t->lookup("long")) == std::string(20, 'v'));
  BOOST_TEST(server.take_lines() == (Lines{"get a:jo", "get a:absent", "get a:long"}),
             boost::test_tools::per_element());
  server.answer("set a:jo 3 60 5", "SERVER_ERROR out of memory\r\n");
  server.answer("get a:jo", "END\r\n");
  BOOST_TEST(shown(t->lookup("jo")) == "there");
}

BOOST_AUTO_TEST_CASE(a_backup_that_fails_is_an_error) {
  const auto t = table("backup = fail:x\n");
  BOOST_TEST(shown(t->lookup("jo")).starts_with("error"));
  BOOST_TEST(t->problem().has_value());
  answer("jo", "cached");
  BOOST_TEST(shown(t->lookup("jo")) == "cached");
}

BOOST_AUTO_TEST_CASE(a_server_that_fails_means_later_and_never_no) {
  server.answer("get close", "close");
  server.answer("get other", "VALUE key 0 1\r\nv\r\nEND\r\n");
  server.answer("get large", "VALUE large 0 100\r\n");
  server.answer("get error", "SERVER_ERROR busy\r\n");
  const auto t = table("data_size_limit = 99\nretry_pause = 0\n");
  for (const char* key : {"close", "other", "large", "error"})
    BOOST_TEST(shown(t->lookup(key)).starts_with("error"), key);
  BOOST_TEST(shown(t->lookup("absent")) == "(none)");
}

BOOST_AUTO_TEST_CASE(a_command_is_tried_max_try_times) {
  server.answer("get close", "close");
  BOOST_TEST(shown(table("max_try = 3\nretry_pause = 0\n")->lookup("close")).starts_with("error"));
  BOOST_TEST(server.take_lines() == (Lines(3, "get close")), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_server_that_is_silent_costs_its_time_once_if_there_is_a_backup) {
  for (const char* key : {"get a", "get b", "get c"}) server.answer(key, "silent");
  const auto t = table("timeout = 1\nmax_try = 1\nbackup = static:there\n");
  const auto began = system_clock().now();
  for (const char* key : {"a", "b", "c"}) BOOST_TEST(shown(t->lookup(key)) == "there");
  BOOST_TEST((system_clock().now() - began >= seconds(1)));
  BOOST_TEST(server.take_lines() == Lines{"get a"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_work_says_why) {
  const auto why = [&](const std::string& more, const OpenOptions& options = {}) {
    const auto problem = table(more, options)->problem();
    return problem ? problem->message() : std::string();
  };
  BOOST_TEST(why("max_try = 0\n").contains("max_try: expected 1 to"));
  BOOST_TEST(why("timeout = 0\n").contains("timeout"));
  BOOST_TEST(why("memcache = unix:s\n").contains("inet:host:port"));
  BOOST_TEST(why("key_format = %x\n").contains("key_format"));
  BOOST_TEST(why("backup = memcache:/etc/x\n").contains("cannot stand behind another"));
  BOOST_TEST(why("backup = proxy:memcache:/etc/x\n").contains("cannot stand behind another"));
  BOOST_TEST(why("", {.served = false}).contains("not allowed in this setting"));
  BOOST_TEST(table("query = x\n")->notes().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
