/// redis: tables. The query is a command that reads; each value of its reply is a value of the key.
///
/// Quoting: parts of the key never leave their word (lib/map/redis_query.h), and words have their length on the wire.
/// Replies: nil, and the number 0 (of EXISTS and its like), are "not there". Bounds: lib/net/redis/reply.h.
/// TLS:     with tls = yes, before anything is sent (timed_tls.h).
/// Login:   AUTH with password, with username before it if there is one; SELECT db.
#include <cerrno>

#include "lib/map/drivers/module.h"
#include "lib/map/drivers/timed_tls.h"
#include "lib/map/redis_query.h"
#include "lib/map/timed_socket.h"
#include "lib/net/redis/reply.h"

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
  RedisConnection(Fd fd, std::unique_ptr<TimedTls> tls) : fd_(std::move(fd)), tls_(std::move(tls)) {}

  Report ask(const Lookup& lookup) override { return ask_by_steps(*this, lookup); }
  bool in_steps() const override { return true; }

  std::optional<Report> begin(const Lookup& lookup) override {
    const auto query = lookup.expand("query", quote_redis);
    if (!query) return Report{Outcome::refused, "the key cannot be quoted"};
    const auto words = split_redis(*query);
    if (!words || words->empty()) return Report{Outcome::refused, "the query has no end"};
    unsent_ = redis::format_command(*words);
    return send_some();
  }

  std::optional<Report> step(const Lookup& lookup) override {
    if (!unsent_.empty()) return send_some();
    for (;;) {
      char chunk[4096];
      const auto n = receive_some(chunk);
      if (!n) return trouble(n.error());
      if (!*n) return std::nullopt;
      if (**n == 0) return closed();
      reader_.feed({chunk, **n});
      auto next = reader_.next();
      if (!next) return Report{Outcome::refused, next.error().message(), false};
      if (!*next) continue;
      const Reply reply = **std::move(next);
      if (Report report = judge(reply); report.outcome != Outcome::done) return report;
      return values_of(reply, lookup);
    }
  }

  Waits waits() const override { return {.fd = fd_.get(), .write = waits_to_write_}; }

  /// One command and its reply. An error of the server is a report.
  Report command(const std::vector<std::string>& words, Reply& reply, SteadyTime deadline) {
    const std::string request = redis::format_command(words);
    if (const auto sent = tls_ ? tls_->send(request, deadline) : send_before(fd_.get(), request, deadline); !sent)
      return trouble(sent.error());
    for (;;) {
      auto next = reader_.next();
      if (!next) return {Outcome::refused, next.error().message(), false};
      if (*next) {
        reply = **std::move(next);
        break;
      }
      char chunk[4096];
      const auto n = tls_ ? tls_->receive(chunk, deadline) : receive_before(fd_.get(), chunk, deadline);
      if (!n) return trouble(n.error());
      if (*n == 0) return closed();
      reader_.feed({chunk, *n});
    }
    return judge(reply);
  }

 private:
  static Report closed() { return {Outcome::lost, "the server closed the connection", false}; }

  /// A report: it cannot be sent.
  std::optional<Report> send_some() {
    if (tls_) {
      const auto wants = tls_->send_now(unsent_);
      if (!wants) return trouble(wants.error());
      waits_to_write_ = *wants == TimedTls::Wants::write;
      if (*wants == TimedTls::Wants::nothing) unsent_.clear();
      return std::nullopt;
    }
    if (const auto sent = send_now(fd_.get(), unsent_); !sent) return trouble(sent.error());
    waits_to_write_ = !unsent_.empty();
    return std::nullopt;
  }
  /// As receive_now().
  Result<std::optional<std::size_t>> receive_some(std::span<char> buffer) {
    waits_to_write_ = false;
    if (!tls_) return receive_now(fd_.get(), buffer);
    PEN_TRY_ASSIGN(const auto got, tls_->receive_now(buffer));
    waits_to_write_ = got.wants == TimedTls::Wants::write;
    if (got.wants != TimedTls::Wants::nothing) return std::nullopt;
    return got.size;
  }

  /// Whether a reply is one, and the only one. An error of the server is a report.
  Report judge(const Reply& reply) {
    // A reply that nobody asked for would be taken for the answer to the next question.
    if (const auto more = reader_.next(); !more || *more) return {Outcome::refused, "more than one reply", false};
    if (reply.kind != Reply::Kind::error) return {};
    if (is_server_down(reply.text)) return {Outcome::lost, reply.text, false};
    return {Outcome::refused, reply.text};
  }

  static Report values_of(const Reply& reply, const Lookup& lookup) {
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

  static bool add(const Lookup& lookup, const Reply& item) {
    if (item.kind == Reply::Kind::text) return lookup.add(item.text);
    if (item.kind == Reply::Kind::integer && item.integer != 0) return lookup.add(std::to_string(item.integer));
    return true;
  }

  Fd fd_;
  std::unique_ptr<TimedTls> tls_;  // null: not encrypted
  redis::ReplyReader reader_;
  // Of the question under way.
  std::string unsent_;
  bool waits_to_write_ = false;
};

class RedisDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const auto server = redis_server(host, setting(settings, "port"));
    if (!server) {
      report = {Outcome::refused, "not a server"};
      return nullptr;
    }
    auto fd = connect_before(*server, deadline);
    if (!fd) {
      report = trouble(fd.error());
      return nullptr;
    }
    std::unique_ptr<TimedTls> tls;
    if (is_yes(settings, "tls")) {
      const std::string& name = setting(settings, "tls_server_name");
      auto started = TimedTls::start(fd->get(),
                                     {.ca_file = setting(settings, "tls_CAfile"),
                                      .cert_file = setting(settings, "tls_cert_file"),
                                      .key_file = setting(settings, "tls_key_file"),
                                      .name = name.empty() ? server->host : name},
                                     deadline);
      if (!started) {
        report = trouble(started.error());
        return nullptr;
      }
      tls = *std::move(started);
    }
    auto connection = std::make_unique<RedisConnection>(*std::move(fd), std::move(tls));
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
