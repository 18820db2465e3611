#pragma once
/// Conversations about the suppression list, the addresses to leave alone, which anvil keeps: "suppression" (smtpd and
/// qmgr ask about recipients and tell of failures) and "suppression_orders" (pensuppress and penapi look and change).
///
/// Asking:  each request has one answer. An address is asked about for a tenant, and stands on the list for that tenant
///          or, with an empty one, for all.
/// Durable: Recorded (done) and Done come when the change is on disk.
/// Lost:    with the connection. The asker asks again: a failure that is told twice on a day counts once.
/// Source:  docs/suppression.md.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc::suppression {

inline constexpr std::string_view kName = "suppression";
inline constexpr std::string_view kOrdersName = "suppression_orders";

/// Why an address is on the list.
enum class Reason : std::uint8_t { bounce, returned, complaint, order };
inline constexpr std::size_t kReasons = 4;
/// A byte of another process may be no reason.
constexpr bool is_reason(Reason reason) { return static_cast<std::size_t>(reason) < kReasons; }
/// What is known of a recipient. unknown: the list cannot be read; undecided: a table of exempt senders cannot.
enum class Standing : std::uint8_t { free, listed, unknown, undecided };

// smtpd, qmgr → anvil
struct Ask {
  std::uint64_t request = 0;
  std::string tenant, sender, recipient;
  PEN_FIELDS(request, tenant, sender, recipient)
};
/// An address has failed. certain: one such failure suffices.
struct Failure {
  std::uint64_t request = 0;
  std::string tenant, address;
  Reason reason = Reason::bounce;
  bool certain = false;
  std::string text;  // what was said
  PEN_FIELDS(request, tenant, address, reason, certain, text)
};
// anvil → smtpd, qmgr
struct Answer {
  std::uint64_t request = 0;
  Standing standing = Standing::free;
  Reason reason = Reason::bounce;  // of a listed one
  PEN_FIELDS(request, standing, reason)
};
/// done: false: it could not be written now. It is told again.
struct Recorded {
  std::uint64_t request = 0;
  bool done = false;
  PEN_FIELDS(request, done)
};

/// An address on the list, or one that has failed but not often enough.
struct Entry {
  std::string tenant, address;
  bool listed = false;
  Reason reason = Reason::bounce;
  std::string text;
  std::int64_t changed = 0;  // seconds since 1970
  std::int64_t expires = 0;  // the same; 0: never
  std::uint32_t days = 0;    // on which it failed
  PEN_FIELDS(tenant, address, listed, reason, text, changed, expires, days)
};
// pensuppress, penapi → anvil
/// `entry` without days. An address that is listed gets the new reason, text and end.
struct Add {
  std::uint64_t request = 0;
  Entry entry;
  PEN_FIELDS(request, entry)
};
struct Remove {
  std::uint64_t request = 0;
  std::string tenant, address;
  PEN_FIELDS(request, tenant, address)
};
/// At most `most` entries behind this one (both empty: from the first), or just this one.
struct List {
  std::uint64_t request = 0;
  std::string tenant, address;
  bool only = false;
  bool watched = false;  // those that are not listed yet, too
  std::uint32_t most = 0;
  PEN_FIELDS(request, tenant, address, only, watched, most)
};
// anvil → pensuppress, penapi
struct Done {
  std::uint64_t request = 0;
  bool known = false;  // it was on the list before
  std::string error;   // empty: it is done
  PEN_FIELDS(request, known, error)
};
struct Listed {
  std::uint64_t request = 0;
  std::vector<Entry> entries;
  bool more = false;
  std::string after_tenant, after_address;  // go on behind this one
  std::string error;
  PEN_FIELDS(request, entries, more, after_tenant, after_address, error)
};

inline constexpr std::size_t kMostText = 300;

using ToAnvil = std::variant<Ask, Failure>;
using FromAnvil = std::variant<Answer, Recorded>;
using OrderToAnvil = std::variant<Add, Remove, List>;
using OrderFromAnvil = std::variant<Done, Listed>;

}  // namespace pen::ipc::suppression
