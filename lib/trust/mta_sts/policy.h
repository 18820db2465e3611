#pragma once
/// MTA-STS (RFC 8461), grammar and rules: the TXT record, the policy, which hosts it names, when to fetch it.
///
/// Use:     auto id = read_records(txt_strings);           // nullopt: the domain announces no policy
///          auto policy = parse_policy(body);              // what its policy host sent
///          if (policy->names_host("mx.example.org")) …
///          Plan p = plan(known, id, now, options);        // what to do, given what is known of the domain
/// Strict:  text that violates the grammar is no record and no policy, as section 3.1 demands for the record. But
///          lines may end in LF alone, and empty lines are ignored: real policy hosts send both.
/// Pure: no I/O, no clock. Thread: any.
/// Source:  RFC 8461 sections 3.1 (record), 3.2 (policy), 3.3 (fetching), 4.1 (hosts), 5.1 (order), 10.2 (refreshing).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::mta_sts {

inline constexpr std::size_t kMaxPolicy = 64 * 1024;  // bytes of a policy: section 3.3 suggests it
inline constexpr seconds kMaxAge{31'557'600};         // a year: section 3.2

enum class PolicyError { bad_policy = 1 };
std::string_view error_module(PolicyError);
std::string_view describe(PolicyError);

/// The id of one TXT record; nullopt: it is not in the form of section 3.1.
std::optional<std::string> parse_record(std::string_view text);
/// The id that a domain's TXT records announce. Records of other kinds are ignored; if two are of this kind, neither
/// counts.
std::optional<std::string> read_records(std::span<const std::string> records);

enum class Mode : std::uint8_t { none, testing, enforce };
std::string_view mode_name(Mode mode);

struct Policy {
  Mode mode = Mode::none;
  seconds max_age{0};
  std::vector<std::string> mx;  // patterns, lower case: "mail.example.org", "*.example.net"
  PEN_FIELDS(mode, max_age, mx)
  bool operator==(const Policy&) const = default;

  /// Whether a pattern matches the MX host: the same name, or with one label in place of "*".
  bool names_host(std::string_view host) const;
  /// The text of the policy, line by line, as reports show it: "version: STSv1", "mode: enforce", …
  std::vector<std::string> lines() const;
};

/// Parses a policy. An age beyond a year counts as a year. Errors: what is wrong with it, for people.
Result<Policy> parse_policy(std::string_view text);

/// Results of a fetch, as reports distinguish them (RFC 8460 section 4.3.2.2). no_authorities: the fault is ours, and
/// says nothing of the domain.
enum class FetchOutcome : std::uint8_t { ok, fetch_failed, webpki_invalid, policy_invalid, no_authorities };

/// What is stored about a domain, over restarts.
struct Known {
  std::optional<Policy> policy;  // the last one fetched
  std::string id;                // the record's id at that time
  WallTime fetched{};
  WallTime used{};                          // when mail last needed it, to within a day
  std::string attempted_id;                 // the id of the last failed fetch; empty: there was no record
  WallTime failed{};                        // when it failed; epoch: the last fetch succeeded
  FetchOutcome outcome = FetchOutcome::ok;  // of that fetch
  std::string why;                          // for people
  PEN_FIELDS(policy, id, fetched, used, attempted_id, failed, outcome, why)
  bool operator==(const Known&) const = default;

  /// When the policy expires; epoch: there is none.
  WallTime expires() const;
  bool valid(WallTime now) const { return policy && now < expires(); }
};

struct Timing {
  seconds refresh{86'400};  // the age for refetching a policy in the background (half its life, if that is shorter)
  seconds retry{300};       // pause after a failed fetch: section 3.3 demands five minutes
};

/// What to do for mail that is sent now.
struct Plan {
  enum class Fetch : std::uint8_t {
    no,
    behind,  // begin, and meanwhile use what is known
    first    // begin, and wait a while: no valid policy is known, or a newer one is announced
  };
  bool use = false;  // Known::policy applies
  Fetch fetch = Fetch::no;
  bool operator==(const Plan&) const = default;
};
/// id: what DNS announces now; nullopt: nothing usable, or DNS failed. Neither ends a known policy.
Plan plan(const Known& known, const std::optional<std::string>& id, WallTime now, const Timing& timing);
/// Whether to refetch a policy before it expires although no mail needs it (section 10.2). Not if it was unused for
/// `unused`.
bool wants_refresh(const Known& known, WallTime now, const Timing& timing, seconds unused);
/// Whether the entry holds nothing of use any longer.
bool is_garbage(const Known& known, WallTime now, const Timing& timing);

}  // namespace pen::mta_sts
