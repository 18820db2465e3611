#include "lib/map/memcache_driver.h"

#include <cerrno>

#include "lib/base/text.h"
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

  Report ask(const Lookup& lookup) override {
    const auto key = lookup.expand("key_format", [](std::string_view part, std::string& out) {
      out += part;
      return true;
    });
    if (!key || !is_memcache_key(*key)) return {};  // the server cannot have it
    const auto number = [&](std::string_view name) {
      return static_cast<std::size_t>(parse_unsigned(setting(lookup.settings, name)).value_or(0));
    };
    const MemcacheReply::Limits limits{number("line_size_limit"), number("data_size_limit")};
    const bool set = lookup.store != nullptr;
    const std::string request = set ? memcache_set(*key, *lookup.store, static_cast<std::uint32_t>(number("flags")),
                                                   static_cast<std::uint32_t>(number("ttl")))
                                    : memcache_get(*key);
    if (const auto sent = send_before(fd_.get(), request, lookup.deadline); !sent) return trouble(sent.error());
    std::string got;
    for (;;) {
      char chunk[4096];
      const auto n = receive_before(fd_.get(), chunk, lookup.deadline);
      if (!n) return trouble(n.error());
      if (*n == 0) return {Outcome::lost, "the server closed the connection", false};
      got.append(chunk, *n);
      const MemcacheReply reply = set ? read_memcache_set(got, limits) : read_memcache_get(got, *key, limits);
      switch (reply.state) {
        case MemcacheReply::State::incomplete:
          continue;
        case MemcacheReply::State::hit:
          lookup.add(reply.text);
          return {};
        case MemcacheReply::State::miss:
        case MemcacheReply::State::stored:
          return {};
        case MemcacheReply::State::refused:
          return {Outcome::refused, std::string(reply.text)};
        case MemcacheReply::State::malformed:
        case MemcacheReply::State::too_large:
          return {Outcome::refused, std::string(reply.text), false};
      }
    }
  }

 private:
  Fd fd_;
};

class MemcacheDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings&, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const auto server = parse_server(host, kPort);
    if (!server) {
      report = {Outcome::refused, "not a server"};
      return nullptr;
    }
    auto fd = connect_before(*server, deadline);
    if (fd) return std::make_unique<MemcacheConnection>(*std::move(fd));
    report = trouble(fd.error());
    return nullptr;
  }

 private:
  static constexpr std::string_view kPort = "11211";
};

}  // namespace

Driver* memcache_driver() {
  static auto* const only = new MemcacheDriver;  // used by threads that outlive main()
  return only;
}

}  // namespace pen::map::database
