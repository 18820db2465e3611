#pragma once
/// The file of sources (egress_sources_file): what outgoing mail is sent from, and the pools of such sources.
///
/// Form:    a line each, "#" begins a comment, words are separated by blanks:
///            source NAME [address=V4] [address6=V6] [helo=NAME] [proxy=URL] [weight=N] [warmup=yes|YYYY-MM-DD]
///            pool NAME SOURCE[*WEIGHT] …
///          URL is socks5://[USER:PASSWORD@]HOST:PORT, socks5-bind://… or haproxy://HOST:PORT; HOST is numeric, USER
///          and PASSWORD may have %XX. A pool may stand before its sources. man/egress_sources.5 is for people.
/// Use:     const Parsed p = parse(text);  for (const Fault& f : p.faults) … "FILE, line N: text"
/// Bounds:  kMaxFile bytes, kMaxSources, kMaxPools, kMaxMembers of a pool, kMaxName bytes of a name.
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::egress {

inline constexpr std::size_t kMaxFile = 1U << 20, kMaxSources = 1000, kMaxPools = 1000, kMaxMembers = 1000,
                             kMaxName = 64;
inline constexpr std::uint32_t kMaxWeight = 10'000, kUsualWeight = 100;
/// What egress_pool_maps may say in place of a pool: as if there were no sources.
inline constexpr std::string_view kNoPool = "none";

struct Proxy {
  enum class Kind : std::uint8_t {
    none,
    socks5,
    socks5_bind,  // SOCKS5 that gets the source's address by BIND before CONNECT
    haproxy       // a PROXY header of version 2, then the dialogue
  };
  Kind kind = Kind::none;
  std::string host;  // numeric
  std::uint16_t port = 0;
  std::string user, password;  // of SOCKS5; no user: it asks for none
  bool operator==(const Proxy&) const = default;
  /// "socks5://192.0.2.9:1080", without user and password.
  std::string shown() const;
};

struct Source {
  std::string name;
  std::string address, address6;  // numeric; both empty: whatever the system or the proxy chooses
  std::string helo;               // empty: as without sources
  Proxy proxy;
  std::uint32_t weight = kUsualWeight;  // 0: it takes no mail
  bool warmup = false;
  /// It takes no mail before this day, counted from 1970 on, and is warmed up from then on; 0: from its first mail on.
  std::int64_t warmup_from = 0;
  unsigned line = 0;
  bool operator==(const Source&) const = default;
  /// Whether it reaches hosts with addresses of the family.
  bool reaches(bool v6) const { return (address.empty() && address6.empty()) || !(v6 ? address6 : address).empty(); }
};

struct Member {
  std::uint32_t source = 0;  // in File::sources
  std::uint32_t weight = 0;
  bool operator==(const Member&) const = default;
};
struct Pool {
  std::string name;
  std::vector<Member> members;
  bool operator==(const Pool&) const = default;
};

struct File {
  std::vector<Source> sources;
  std::vector<Pool> pools;
  const Source* source(std::string_view name) const;
  const Pool* pool(std::string_view name) const;
};

struct Fault {
  unsigned line = 0;
  std::string text;
};
struct Parsed {
  File file;  // what has no fault
  std::vector<Fault> faults;
};
Parsed parse(std::string_view text);

/// A name of a source or pool: letters, digits, ".", "_" and "-", not above kMaxName.
bool valid_name(std::string_view name);

}  // namespace pen::egress
