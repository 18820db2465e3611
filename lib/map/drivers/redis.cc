/// redis: tables. The query is a command that reads; each value of its reply is a value of the key.
///
/// Quoting: parts of the key never leave their word (lib/map/redis_query.h), and words have their length on the wire.
/// Replies: nil, and the number 0 (of EXISTS and its like), are "not there". Bounds: lib/redis/reply.h.
/// Login:   AUTH with password, with username before it if there is one; SELECT db.
#include <cerrno>

#include "lib/map/drivers/module.h"
#include "lib/map/redis_query.h"
#include "lib/map/timed_socket.h"
#include "lib/redis/reply.h"

namespace pen::map::database {
namespace {

using redis::Reply;

Report trouble(const Error& error) {
  return {error.is_errno(ETIMEDOUT) ? Outcome::timed_out : Outcome::lost, error.message(), false};
}

/// Of a server that cannot answer any question now, where another host may.
bool is_server_down(std::string_view error) {
  for (const char* word : {"LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "TRYAGAIN", "OOM"})
    if (error.starts_with(word)) return true;
  return false;
}

class RedisConnection final : public Connection {
 public:
  explicit RedisConnection(Fd fd) : fd_(std::move(fd)) {}

  Report ask(const Lookup& lookup) override {
    const auto query = lookup.expand("query", quote_redis);
    if (!query) return {Outcome::refused, "the key cannot be quoted"};
    const auto words = split_redis(*query);
    if (!words || words->empty()) return {Outcome::refused, "the query has no end"};
    Reply reply;
    if (Report report = command(*words, reply, lookup.deadline); report.outcome != Outcome::done) return report;
    if (reply.kind == Reply::Kind::array) {
      for (const Reply& item : reply.items) {
        if (item.kind == Reply::Kind::array || item.kind == Reply::Kind::error)
          return {Outcome::refused, "the reply is no list of values"};
        if (!add(lookup, item)) break;
      }
      return {};
    }
    if (reply.kind == Reply::Kind::status) return {Outcome::refused, "the reply is no value"};
    add(lookup, reply);
    return {};
  }

  /// One command and its reply. An error of the server is a report.
  Report command(const std::vector<std::string>& words, Reply& reply, SteadyTime deadline) {
    if (const auto sent = send_before(fd_.get(), redis::format_command(words), deadline); !sent)
      return trouble(sent.error());
    for (;;) {
      auto next = reader_.next();
      if (!next) return {Outcome::refused, next.error().message(), false};
      if (*next) {
        reply = **std::move(next);
        break;
      }
      char chunk[4096];
      const auto n = receive_before(fd_.get(), chunk, deadline);
      if (!n) return trouble(n.error());
      if (*n == 0) return {Outcome::lost, "the server closed the connection", false};
      reader_.feed({chunk, *n});
    }
    // A reply that nobody asked for would be taken for the answer to the next question.
    if (const auto more = reader_.next(); !more || *more) return {Outcome::refused, "more than one reply", false};
    if (reply.kind != Reply::Kind::error) return {};
    if (is_server_down(reply.text)) return {Outcome::lost, reply.text, false};
    return {Outcome::refused, reply.text};
  }

 private:
  static bool add(const Lookup& lookup, const Reply& item) {
    if (item.kind == Reply::Kind::text) return lookup.add(item.text);
    if (item.kind == Reply::Kind::integer && item.integer != 0) return lookup.add(std::to_string(item.integer));
    return true;
  }

  Fd fd_;
  redis::ReplyReader reader_;
};

class RedisDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const auto server = parse_server(host, setting(settings, "port"));
    if (!server) {
      report = {Outcome::refused, "not a server"};
      return nullptr;
    }
    auto fd = connect_before(*server, deadline);
    if (!fd) {
      report = trouble(fd.error());
      return nullptr;
    }
    auto connection = std::make_unique<RedisConnection>(*std::move(fd));
    std::vector<std::vector<std::string>> greeting;
    if (const std::string& password = setting(settings, "password"); !password.empty()) {
      greeting.push_back({"AUTH"});
      if (!setting(settings, "username").empty()) greeting.back().push_back(setting(settings, "username"));
      greeting.back().push_back(password);
    }
    if (setting(settings, "db") != "0") greeting.push_back({"SELECT", setting(settings, "db")});
    for (const auto& words : greeting) {
      Reply reply;
      report = connection->command(words, reply, deadline);
      if (report.outcome != Outcome::done) {
        report.why = words.front() + ": " + report.why;
        return nullptr;
      }
    }
    return connection;
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::RedisDriver)
