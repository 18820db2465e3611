#pragma once
/// The options of the scheduler for shaping: the mode, the rules, the pace of learning and the administrator's limits.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/queue/shaping/learner.h"
#include "lib/queue/shaping/limit.h"
#include "lib/queue/shaping/rules.h"

namespace pen::qmgr {

struct ShapingOptions {
  enum class Mode : std::uint8_t { no, observe, yes } mode = Mode::no;
  shaping::Rules rules;
  shaping::Pace pace;
  using Limit = shaping::Limit;
  /// delivery_limit_maps: for "provider:NAME", "domain:NAME", "source:NAME" and "tenant:NAME". Asked when one is met,
  /// and again when the answer is older than Options::rule_time. A limit of a provider stands in place of the one that
  /// the rules give it. Must not wait. Empty: there are no limits but those of the rules.
  std::function<Limit(const std::string& name)> limit;
};

namespace scheduler {
/// The code of mail that a limit puts off; its text states the time.
inline constexpr const char* kPutOff = "4.3.2";
inline bool was_put_off(const mail::DeliveryStatus& status) {
  return status.remote_mta.empty() && status.diagnostic.empty() && status.dsn == kPutOff;
}
}  // namespace scheduler

/// A slower rate of a limit, as people see it.
struct QuotaState {
  shaping::Quota quota;    // as it was set
  std::uint64_t most = 0;  // of this host, in a cluster its part
  std::uint64_t used = 0;  // in the quota's time until now
  milliseconds opens{0};   // until one more may go; 0: it may
};

/// A limit as people see it. What it holds for: group, and source or domain where these are not empty.
struct LimitState {
  std::string group;   // a provider's name, or the hosts of a route; empty: all destinations
  std::string source;  // that mail leaves from
  std::string domain;  // of senders
  std::string name;    // of an administrator's limit: "domain:example.org", "smtp"; empty: it is a learned one
  shaping::Rate rate;  // that holds now from message to message
  std::vector<QuotaState> quotas;  // that hold beside it
  shaping::Rates set;              // by the administrator
  std::uint32_t connections = 0;
  std::uint64_t waiting = 0;      // jobs
  std::uint64_t last_minute = 0;  // delivered
  milliseconds held{0};           // nothing goes for so long
  shaping::Learned learned;
};

/// What has gone within the times of quotas, as it is kept: qmgr/scheduler/spent.h.
struct Spent {
  std::string key;
  std::optional<std::string> value;  // nullopt: it says nothing any more
};
/// What their keys begin with, among others that are kept.
inline constexpr std::string_view kSpentKey = "quota ";

/// Something to be logged.
struct ShapingNews {
  bool warning = false;
  std::string text;
};

/// Of the mail that a reply is about; "": none. A reply that only repeats them complains of nothing.
struct MailAddresses {
  std::string_view recipient{};  // as it was given to the host
  std::string_view original{};   // in the envelope
  std::string_view sender{};
};

/// Whose mail it is, as limits tell it apart; "": not known, so that nothing is left out for it.
struct MailOf {
  std::string_view sender_domain{}, tenant{};
  std::string_view signer{};  // "": the sender's domain
};

/// What is to become of a recipient after a refusal that complains of something.
struct ComplaintVerdict {
  shaping::Class cls = shaping::Class::none;
  bool put_off = false;  // a 5xx that is no word about the recipient or the message: they wait
  bool rests = false;    // a gate is closed because of it: mail waits there, and the host has not failed
  seconds blocked{0};    // of a block of the source: for how long
};

/// A peer's refusal to talk, or its end of a session, blocks the source that the connection was from.
struct SourceBlock {
  std::string provider, nexthop;  // what it is blocked for; provider may be empty
  seconds time{0};
};

}  // namespace pen::qmgr
