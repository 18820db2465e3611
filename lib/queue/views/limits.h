#pragma once
/// Limits (docs/shaping.md) in a few words: for lists of destinations and for the story of a message.
///
/// Use:     why = limits_why(entry.limits, entry.quotas);
///          if (const Holding h = limit_that_holds(explained.limits, explained.quotas, whose); h.limit != nullptr) …
/// Quotas:  the slower rates of limits that have several, each with the place of its limit.
/// Words:   not made printable.
/// Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/ipc/destinations.h"

namespace pen::views {

/// What it holds for: "google from a of news.example".
std::string limit_subject(const ipc::destinations::Limit& l);
/// "at most 10/m", "at most 10/m and 2 connections"; empty: neither.
std::string limit_bounds(const ipc::destinations::Limit& l);
/// Why mail for a destination with these limits goes slowly or not at all; empty: nothing is said. What holds for one
/// domain of senders only is left out.
std::string limits_why(const std::vector<ipc::destinations::Limit>& limits,
                       const std::vector<ipc::destinations::Quota>& quotas);
/// The quota of this limit that lets nothing through now, and opens last; nullptr: none.
const ipc::destinations::Quota* full_quota(std::size_t limit, const std::vector<ipc::destinations::Quota>& quotas);
/// "3120 of 5000/h", and what is left of the time where it is full: "…, the next in 600 s".
std::string quota_text(const ipc::destinations::Quota& q);
/// Jobs that wait at these limits, before any connection.
std::uint64_t jobs_at_limits(const std::vector<ipc::destinations::Limit>& limits);

struct Mail {
  std::string sender, source;  // the envelope's sender; where it leaves from
};
bool holds_for(const ipc::destinations::Limit& l, const Mail& mail);
struct Holding {
  const ipc::destinations::Limit* limit = nullptr;  // none does
  const ipc::destinations::Quota* quota = nullptr;  // that is full, if it is that
};
/// The limit that keeps such mail waiting: the one that lets nothing through for longest, else one at which jobs wait.
Holding limit_that_holds(const std::vector<ipc::destinations::Limit>& limits,
                         const std::vector<ipc::destinations::Quota>& quotas, const Mail& mail);

}  // namespace pen::views
