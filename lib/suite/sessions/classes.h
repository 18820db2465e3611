#pragma once
/// Session classes: which class of hosts an SMTP session belongs to, and the limits of each class.
///
/// Form:    "*.customer.fr 8 8, 192.0.2.0/24 20 10, * 3 3": entries between commas, each a mask, the total limit
///          (incoming and outgoing sessions together: an outgoing one waits at it) and the refuse limit (an incoming
///          one is refused at it). A mask is a host name, "*.domain" (the domain itself too), an address, a network,
///          or "*".
/// Match:   the first entry with a mask that fits the session's other end. A name counts only when it is sure: the
///          verified name of a client, the MX host name of a destination.
/// Loopback: 127.0.0.0/8 and ::1 belong to a class only through a mask that names them, which "*" does not.
/// Use:     auto classes = Classes::parse(text); classes->find("mx.customer.fr", "192.0.2.7") == 0
/// Source:  docs/origins.md "Session classes". Pure; immutable once made, any thread.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/network.h"

namespace pen::sessions {

/// More entries than anyone needs: a look-up goes through them in order.
inline constexpr std::size_t kMaxClasses = 1000;
/// The largest limit. 0 is not allowed: it would refuse, or keep in the queue, everything for ever.
inline constexpr std::uint32_t kMaxLimit = 1'000'000;

struct Class {
  std::string mask;  // as a name: lower case
  std::uint32_t total = 0, refuse = 0;
};

class Classes {
 public:
  /// Empty text: no classes. The error is a sentence that names the entry and what is wrong with it.
  static std::expected<Classes, std::string> parse(std::string_view text);

  bool empty() const { return list_.empty(); }
  const std::vector<Class>& list() const { return list_; }
  /// The place in list() of the session's class; nullopt: no mask fits, nothing limits it.
  /// name: empty or "unknown" when it is not sure; in any case, with or without a final dot. address: numeric, with or
  /// without brackets; other text (a Unix socket's empty one) is treated as loopback.
  std::optional<std::uint32_t> find(std::string_view name, std::string_view address) const;
  /// A client on a loopback address may belong to a class.
  bool names_loopback() const;
  /// Every session but loopback's belongs to a class: the last mask is "*".
  bool catches_all() const { return !rules_.empty() && rules_.back().kind == Kind::all; }

 private:
  enum class Kind : std::uint8_t { host, domain, network, all };
  struct Rule {
    Kind kind = Kind::all;
    std::string name;  // host: the name; domain: with its leading dot
    Network network;
  };
  static std::expected<Rule, std::string> parse_mask(std::string_view mask);
  static bool fits(const Rule& rule, std::string_view name, const std::optional<IpAddress>& address);
  std::vector<Class> list_;
  std::vector<Rule> rules_;  // one for each of list_
};

/// Whether it is in 127.0.0.0/8, is ::1, or is no address at all.
bool is_loopback(const std::optional<IpAddress>& address);

}  // namespace pen::sessions
