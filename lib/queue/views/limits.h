#pragma once
/// Limits (docs/shaping.md) in a few words: for lists of destinations and for the story of a message.
///
/// Use:     why = limits_why(entry.limits);   if (const Limit* l = limit_that_holds(explained.limits, whose)) …
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
std::string limits_why(const std::vector<ipc::destinations::Limit>& limits);
/// Jobs that wait at these limits, before any connection.
std::uint64_t jobs_at_limits(const std::vector<ipc::destinations::Limit>& limits);

struct Mail {
  std::string sender, source;  // the envelope's sender; where it leaves from
};
bool holds_for(const ipc::destinations::Limit& l, const Mail& mail);
/// The limit that keeps such mail waiting: one that lets nothing through now, else one at which jobs wait. nullptr:
/// none does.
const ipc::destinations::Limit* limit_that_holds(const std::vector<ipc::destinations::Limit>& limits, const Mail& mail);

}  // namespace pen::views
