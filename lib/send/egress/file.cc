#include "lib/send/egress/file.h"

#include <algorithm>
#include <chrono>

#include "lib/base/date.h"
#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::egress {
namespace {

constexpr std::size_t kMaxHelo = 255, kMaxLogin = 255;  // a domain; RFC 1929

std::string quoted(std::string_view word) { return "\"" + printable(word, 100) + "\""; }

/// Errors are texts, for the line that they are in is known to the caller.
struct ProxyOr {
  std::optional<Proxy> value;
  std::string why;
};

/// An address of the family in its usual form; empty: it is no such address.
std::string address_of(std::string_view text, bool v6) {
  const auto ip = text.starts_with('[') ? std::nullopt : parse_ip(text);
  return ip && ip->size == (v6 ? 16 : 4) ? ip->text() : std::string();
}

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    const char l = ascii_lower(c);
    return ascii_digit(l) ? l - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit(text[i + 1]), low = digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

ProxyOr parse_proxy(std::string_view url) {
  // The text may have a password: no message repeats it.
  using Kind = Proxy::Kind;
  Proxy p;
  for (const auto& [scheme, kind] : {std::pair<std::string_view, Kind>{"socks5://", Kind::socks5},
                                     {"socks5-bind://", Kind::socks5_bind},
                                     {"haproxy://", Kind::haproxy}}) {
    if (!url.starts_with(scheme)) continue;
    p.kind = kind;
    url.remove_prefix(scheme.size());
    break;
  }
  if (p.kind == Kind::none) return {{}, "proxy is not socks5://…, socks5-bind://… or haproxy://…"};
  if (const auto at = url.rfind('@'); at != std::string_view::npos) {
    if (p.kind == Kind::haproxy) return {{}, "proxy=haproxy:// takes no user"};
    const auto login = url.substr(0, at);
    const auto colon = login.find(':');
    if (colon == std::string_view::npos) return {{}, "the user of proxy has no password"};
    const auto user = percent_decoded(login.substr(0, colon)), password = percent_decoded(login.substr(colon + 1));
    if (!user || !password || user->empty() || password->empty() || user->size() > kMaxLogin ||
        password->size() > kMaxLogin)
      return {{}, "user and password of proxy must have 1 to 255 bytes, and % only before two hexadecimal digits"};
    p.user = *user;
    p.password = *password;
    url.remove_prefix(at + 1);
  }
  const auto colon = url.rfind(':');
  if (colon == std::string_view::npos) return {{}, "proxy has no port"};
  auto host = url.substr(0, colon);
  const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (v6) host = host.substr(1, host.size() - 2);
  p.host = address_of(host, v6);
  if (p.host.empty()) return {{}, "the host of proxy is not an address (of IPv6 in brackets)"};
  const auto port = parse_unsigned(url.substr(colon + 1));
  if (!port || *port == 0 || *port > 65535) return {{}, "the port of proxy is not a number from 1 to 65535"};
  p.port = static_cast<std::uint16_t>(*port);
  return {p, {}};
}

std::optional<std::uint32_t> parse_weight(std::string_view text) {
  const auto n = parse_unsigned(text);
  if (!n || *n > kMaxWeight) return std::nullopt;
  return static_cast<std::uint32_t>(*n);
}

bool valid_helo(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHelo && std::all_of(name.begin(), name.end(), [](char c) {
    return ascii_alnum(c) || c == '.' || c == '-' || c == '_' || c == '[' || c == ']' || c == ':';
  });
}

/// Applies NAME=VALUE. Returns what is wrong with it; empty: nothing.
std::string apply(Source& s, std::string_view word) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return quoted(word) + " is not of the form NAME=VALUE";
  const auto name = word.substr(0, equals), value = word.substr(equals + 1);
  if (name == "address") {
    s.address = address_of(value, false);
    if (s.address.empty()) return "address is not an IPv4 address: " + quoted(value);
  } else if (name == "address6") {
    s.address6 = address_of(value, true);
    if (s.address6.empty()) return "address6 is not an IPv6 address: " + quoted(value);
  } else if (name == "helo") {
    if (!valid_helo(value)) return "helo is not a host name: " + quoted(value);
    s.helo = value;
  } else if (name == "proxy") {
    auto proxy = parse_proxy(value);
    if (!proxy.value) return proxy.why;
    s.proxy = *std::move(proxy.value);
  } else if (name == "weight") {
    const auto weight = parse_weight(value);
    if (!weight) return "weight is not a number from 0 to 10000: " + quoted(value);
    s.weight = *weight;
  } else if (name == "warmup") {
    const auto day = parse_day(value);
    if (value != "yes" && (!day || *day < WallTime{}))
      return "warmup is neither yes nor a day YYYY-MM-DD: " + quoted(value);
    s.warmup = true;
    if (day) s.warmup_from = std::chrono::floor<std::chrono::days>(day->time_since_epoch()).count();
  } else {
    return "unknown word " + quoted(name) + "; known are address, address6, helo, proxy, weight and warmup";
  }
  return {};
}

/// A pool's line, kept until all sources are known.
struct Line {
  unsigned number = 0;
  std::vector<std::string_view> words;
};

class Reader {
 public:
  void line(unsigned number, std::string_view text) {
    const auto words = split(text.substr(0, text.find('#')), " \t\r\f\v");
    if (words.empty()) return;
    if (words[0] != "source" && words[0] != "pool")
      return fault(number, "a line begins with source or pool, not with " + quoted(words[0]));
    const bool is_source = words[0] == "source";
    if (words.size() < 2 || !valid_name(words[1]))
      return fault(
          number, std::string(words[0]) + " needs a name of at most 64 letters, digits, dots, underscores and hyphens");
    if (is_source) return source(number, words);
    pools_.push_back({number, words});
  }

  Parsed end() {
    for (const Line& l : pools_) pool(l);
    std::sort(out_.faults.begin(), out_.faults.end(), [](const Fault& a, const Fault& b) { return a.line < b.line; });
    return std::move(out_);
  }

  void fault(unsigned line, std::string text) { out_.faults.push_back({line, std::move(text)}); }

 private:
  void source(unsigned number, const std::vector<std::string_view>& words) {
    if (const Source* known = out_.file.source(words[1]))
      return fault(number, "source " + known->name + " stands in line " + std::to_string(known->line) + " already");
    if (out_.file.sources.size() >= kMaxSources) return fault(number, "there are more than 1000 sources");
    Source s;
    s.name = words[1];
    s.line = number;
    std::vector<std::string_view> seen;
    for (auto word = words.begin() + 2; word != words.end(); ++word) {
      const auto name = word->substr(0, word->find('='));
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) return fault(number, quoted(name) + " stands twice");
      seen.push_back(name);
      if (std::string why = apply(s, *word); !why.empty()) return fault(number, std::move(why));
    }
    const bool tells_address = s.proxy.kind == Proxy::Kind::haproxy || s.proxy.kind == Proxy::Kind::socks5_bind;
    if (tells_address && s.address.empty() && s.address6.empty())
      return fault(number, "this kind of proxy is told the source's address: address or address6 is missing");
    out_.file.sources.push_back(std::move(s));
  }

  void pool(const Line& l) {
    Pool p;
    p.name = l.words[1];
    if (p.name == kNoPool) return fault(l.number, "a pool cannot be called none, which stands for no pool");
    if (out_.file.pool(p.name) != nullptr) return fault(l.number, "pool " + p.name + " stands twice");
    if (out_.file.pools.size() >= kMaxPools) return fault(l.number, "there are more than 1000 pools");
    if (l.words.size() < 3) return fault(l.number, "pool " + p.name + " has no source");
    if (l.words.size() - 2 > kMaxMembers) return fault(l.number, "pool " + p.name + " has more than 1000 sources");
    for (auto word = l.words.begin() + 2; word != l.words.end(); ++word) {
      const auto star = word->find('*');
      const Source* s = out_.file.source(word->substr(0, star));
      if (s == nullptr) return fault(l.number, "unknown source " + quoted(word->substr(0, star)));
      const auto weight = star == std::string_view::npos ? s->weight : parse_weight(word->substr(star + 1));
      if (!weight) return fault(l.number, "the weight of " + s->name + " is not a number from 0 to 10000");
      const auto index = static_cast<std::uint32_t>(s - out_.file.sources.data());
      if (std::any_of(p.members.begin(), p.members.end(), [&](const Member& m) { return m.source == index; }))
        return fault(l.number, "source " + s->name + " stands twice in pool " + p.name);
      p.members.push_back({index, *weight});
    }
    if (std::all_of(p.members.begin(), p.members.end(), [](const Member& m) { return m.weight == 0; }))
      return fault(l.number, "no source of pool " + p.name + " has a weight");
    out_.file.pools.push_back(std::move(p));
  }

  Parsed out_;
  std::vector<Line> pools_;
};

template <class T>
const T* named(const std::vector<T>& all, std::string_view name) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const T& t) { return t.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

std::string Proxy::shown() const {
  const char* scheme = kind == Kind::socks5        ? "socks5://"
                       : kind == Kind::socks5_bind ? "socks5-bind://"
                       : kind == Kind::haproxy     ? "haproxy://"
                                                   : "";
  if (kind == Kind::none) return {};
  const bool v6 = host.find(':') != std::string::npos;
  return scheme + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

const Source* File::source(std::string_view name) const { return named(sources, name); }
const Pool* File::pool(std::string_view name) const { return named(pools, name); }

Parsed parse(std::string_view text) {
  Reader reader;
  if (text.size() > kMaxFile) {
    reader.fault(1, "the file is larger than 1 MiB");
    return reader.end();
  }
  for (unsigned number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    reader.line(number, text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return reader.end();
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
    return ascii_alnum(c) || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace pen::egress
