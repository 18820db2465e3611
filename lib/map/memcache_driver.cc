#include "lib/map/memcache_driver.h"

#include <cerrno>

#include "lib/base/text.h"
#include "lib/map/database_waits.h"
#include "lib/map/memcache_reply.h"
#include "lib/map/timed_socket.h"

namespace pen::map::database {
namespace {

Report trouble(const Error& error) {
  const bool late = error.is_errno(ETIMEDOUT);
  return {late ? Outcome::timed_out : Outcome::lost, error.message(), false};
}

class MemcacheConnection final : public Connection {
 public:
  explicit MemcacheConnection(Fd fd) : fd_(std::move(fd)) {}

  Report ask(const Lookup& lookup) override { return ask_by_steps(*this, lookup); }
  bool in_steps() const override { return true; }

  std::optional<Report> begin(const Lookup& lookup) override {
    auto key = lookup.expand("key_format", [](std::string_view part, std::string& out) {
      out += part;
      return true;
    });
    if (!key || !is_memcache_key(*key)) return Report{};  // the server cannot have it
    key_ = *std::move(key);
    got_.clear();
    unsent_ = lookup.store != nullptr
                  ? memcache_set(key_, *lookup.store, static_cast<std::uint32_t>(number(lookup, "flags")),
                                 static_cast<std::uint32_t>(number(lookup, "ttl")))
                  : memcache_get(key_);
    return send_some();
  }

  std::optional<Report> step(const Lookup& lookup) override {
    if (!unsent_.empty()) return send_some();
    for (;;) {
      char chunk[4096];
      const auto n = receive_now(fd_.get(), chunk);
      if (!n) return trouble(n.error());
      if (!*n) return std::nullopt;
      if (**n == 0) return Report{Outcome::lost, "the server closed the connection", false};
      got_.append(chunk, **n);
      if (auto report = read(lookup)) return report;
    }
  }

  Waits waits() const override { return {.fd = fd_.get(), .write = !unsent_.empty()}; }

 private:
  static std::size_t number(const Lookup& lookup, std::string_view name) {
    return static_cast<std::size_t>(parse_unsigned(setting(lookup.settings, name)).value_or(0));
  }

  std::optional<Report> send_some() {
    if (const auto sent = send_now(fd_.get(), unsent_); !sent) return trouble(sent.error());
    return std::nullopt;
  }

  /// nullopt: the reply is incomplete.
  std::optional<Report> read(const Lookup& lookup) const {
    const MemcacheReply::Limits limits{number(lookup, "line_size_limit"), number(lookup, "data_size_limit")};
    const MemcacheReply reply =
        lookup.store != nullptr ? read_memcache_set(got_, limits) : read_memcache_get(got_, key_, limits);
    switch (reply.state) {
      case MemcacheReply::State::incomplete:
        return std::nullopt;
      case MemcacheReply::State::hit:
        lookup.add(reply.text);
        return Report{};
      case MemcacheReply::State::miss:
      case MemcacheReply::State::stored:
        return Report{};
      case MemcacheReply::State::refused:
        return Report{Outcome::refused, std::string(reply.text)};
      case MemcacheReply::State::malformed:
      case MemcacheReply::State::too_large:
        return Report{Outcome::refused, std::string(reply.text), false};
    }
    return std::nullopt;
  }

  Fd fd_;
  // Of the question under way.
  std::string key_, unsent_, got_;
};

class MemcacheDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings&, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const auto server = memcache_server(host);
    if (!server) {
      report = {Outcome::refused, "not a server"};
      return nullptr;
    }
    auto fd = connect_before(*server, deadline);
    if (fd) return std::make_unique<MemcacheConnection>(*std::move(fd));
    report = trouble(fd.error());
    return nullptr;
  }
};

}  // namespace

Driver* memcache_driver() {
  static auto* const only = new MemcacheDriver;  // used by threads that outlive main()
  return only;
}

std::expected<helper::ServerAddress, std::string> memcache_server(std::string_view text) {
  constexpr std::uint16_t kPort = 11211;
  return helper::ServerAddress::parse(text, {.default_port = kPort, .bare = helper::ServerAddress::Bare::host});
}

}  // namespace pen::map::database
