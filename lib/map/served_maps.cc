/// Tables that other processes serve: socketmap (netstrings) and tcp (lines). Only the protocols; source.h does the
/// asking.
///
/// Source:  socketmap_table(5), tcp_table(5).
#include <atomic>

#include "lib/base/text.h"
#include "lib/map/socketmap_limits.h"
#include "lib/map/socketmap_reply.h"
#include "lib/map/source.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

std::atomic<std::size_t> most_query{SocketmapLimits{}.query}, most_reply{SocketmapLimits{}.reply};

class SocketmapServer final : public ServerSource {
 public:
  SocketmapServer(std::string name, Address address, std::string table)
      : ServerSource(std::move(name), std::move(address)), table_(std::move(table)) {}
  std::string request(std::string_view key) const override { return netstring(table_ + " " + std::string(key)); }
  /// Too long a question is an error: "not found" would be an answer that nobody gave.
  Result<bool> asks_for(std::string_view key) const override {
    const std::size_t size = table_.size() + 1 + key.size();
    if (size <= socketmap_limits().query) return true;
    return fail(MapError::too_large,
                name() + ": a question of " + std::to_string(size) + " bytes (socketmap_max_query_size)");
  }
  std::size_t whole(std::string_view bytes) const override { return whole_netstring(bytes, socketmap_limits().reply); }
  std::size_t most_bytes() const override { return socketmap_limits().reply + kNetstringFrame; }
  Value meaning(std::string_view answer) const override { return socketmap_meaning(netstring_content(answer), name()); }

 private:
  std::string table_;
};

/// Encodes everything but printable ASCII, and '%', as %XX.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 127 && c != '%') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) -> int {
    const auto at = std::string_view("0123456789abcdef").find(ascii_lower(c));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return out;
}

class TcpServer final : public ServerSource {
 public:
  using ServerSource::ServerSource;
  std::string request(std::string_view key) const override { return "get " + percent_encoded(key) + "\n"; }
  std::size_t whole(std::string_view bytes) const override {
    const auto lf = bytes.find('\n');
    return lf == std::string_view::npos ? 0 : lf + 1;
  }
  Value meaning(std::string_view answer) const override {
    const auto line = trim(answer);
    const auto text = percent_decoded(trim(line.substr(std::min<std::size_t>(3, line.size()))));
    if (line.starts_with("500")) return std::nullopt;
    if (line.starts_with("200 ") && text) return *text;
    return fail(MapError::unreadable, name() + ": " + printable(line, 200));
  }
};

class ServedMap final : public Map {
 public:
  ServedMap(std::shared_ptr<const ServerSource> source, bool whole_keys)
      : Map(source->name()), source_(std::move(source)), whole_keys_(whole_keys) {}
  bool blocking() const override { return true; }
  bool whole_key_only() const override { return whole_keys_; }
  Value find(std::string_view key) override {
    PEN_TRY_ASSIGN(const bool asks, source_->asks_for(key));
    if (!asks) return std::nullopt;
    return answer_from(source_, key);
  }

 private:
  std::shared_ptr<const ServerSource> source_;
  bool whole_keys_;
};

}  // namespace

void limit_socketmaps(SocketmapLimits limits) {
  most_query.store(limits.query, std::memory_order_relaxed);
  most_reply.store(limits.reply, std::memory_order_relaxed);
}
SocketmapLimits socketmap_limits() {
  return {.query = most_query.load(std::memory_order_relaxed), .reply = most_reply.load(std::memory_order_relaxed)};
}

Result<std::shared_ptr<Map>> make_socketmap(std::string spec, const std::string& name) {
  const auto bad = [&] {
    return fail(MapError::bad_spec, spec + ": expected socketmap:inet:host:port:table or socketmap:unix:/path:table");
  };
  const auto last = name.rfind(':');
  if (last == std::string::npos || last + 1 == name.size()) return bad();
  const std::string_view where = std::string_view(name).substr(0, last);
  if (!where.starts_with("unix:/") && !where.starts_with("inet:")) return bad();
  auto server = helper::ServerAddress::parse(where, {});
  if (!server) return bad();
  return std::make_shared<ServedMap>(
      std::make_shared<SocketmapServer>(std::move(spec), *std::move(server), name.substr(last + 1)), false);
}

Result<std::shared_ptr<Map>> make_tcp(std::string spec, const std::string& name) {
  auto server = helper::ServerAddress::parse(name, {.bare = helper::ServerAddress::Bare::host});
  if (!server) return fail(MapError::bad_spec, spec + ": expected tcp:host:port");
  return std::make_shared<ServedMap>(std::make_shared<TcpServer>(std::move(spec), *std::move(server)), true);
}

}  // namespace pen::map
