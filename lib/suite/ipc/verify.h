#pragma once
/// Conversations of the program verify: "verify" (smtpd asks whether addresses can be delivered to, penverify looks
/// into the cache) and "probed" (qmgr reports what became of probes).
///
/// Asking:  Ask has one answer at once. If that is `probing`, another one follows when the probe has ended.
/// Lost:    with the connection. The asker asks again; verify probes again for a result that does not arrive.
/// Source:  docs/address-verification.md.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"
#include "lib/mail/delivery_status.h"

namespace pen::ipc::verify {

inline constexpr std::string_view kName = "verify";
inline constexpr std::string_view kProbedName = "probed";

/// What is known of an address. deferred: a probe could not find out, for a reason that may pass.
enum class State : std::uint8_t { probing, good, deferred, bad };

// smtpd, penverify → verify
/// May start a probe.
struct Ask {
  std::uint64_t request = 0;
  std::string address;
  PEN_FIELDS(request, address)
};
/// At most `most` entries behind this address ("": from the first), or the one of just this address.
struct List {
  std::uint64_t request = 0;
  std::string address;
  bool only = false;
  std::uint32_t most = 0;
  PEN_FIELDS(request, address, only, most)
};
struct Forget {
  std::uint64_t request = 0;
  std::string address;
  PEN_FIELDS(request, address)
};
// verify → smtpd, penverify
struct Answer {
  std::uint64_t request = 0;
  State state = State::probing;
  std::string text;  // why, at most kMostText bytes
  PEN_FIELDS(request, state, text)
};
struct Entry {
  std::string address;
  State state = State::probing;
  std::string text;
  std::int64_t updated = 0;  // seconds since 1970, of the last result
  std::int64_t probed = 0;   // of the last probe; 0: none since then
  bool under_way = false;    // a probe of it
  PEN_FIELDS(address, state, text, updated, probed, under_way)
};
struct Listed {
  std::uint64_t request = 0;
  std::vector<Entry> entries;
  bool more = false;
  PEN_FIELDS(request, entries, more)
};
struct Forgotten {
  std::uint64_t request = 0;
  bool known = false;
  PEN_FIELDS(request, known)
};
inline constexpr std::size_t kMostText = 500;  // of what a host said: it is shown to clients

using ToVerify = std::variant<Ask, List, Forget>;
using FromVerify = std::variant<Answer, Listed, Forgotten>;

// qmgr → verify, never answered
/// The results of all recipients of one probe.
struct Probed {
  std::string queue_id;
  std::string address;  // as it was asked for
  std::vector<mail::DeliveryStatus> results;
  PEN_FIELDS(queue_id, address, results)
};
// verify → nobody
struct Nothing {
  std::uint8_t unused = 0;
  PEN_FIELDS(unused)
};

using ToProbed = std::variant<Probed>;
using FromProbed = std::variant<Nothing>;

}  // namespace pen::ipc::verify
