#pragma once
/// Facts as hosts of a cluster share them: in groups that change together, each with the time of its change.
///
/// Two hosts that learn different things of a destination at the same time both keep what they learned: the newer word
/// counts for each group, not for the whole record.
///
/// Use:     for (Group g : kAllGroups) if (!same_group(g, old, now)) send(group_name(g), encode_group(g, now, wall));
///          if (auto got = decode_group(g, bytes, wall)) copy_group(g, got->facts, into);
/// Form:    one byte kGroupForm, then the group's fields (lib/base/codec.h); fields are added at the end only.
/// Rules:   what is decoded was written by others: numbers and times out of any sense make it no group at all, words
///          for people are cut and made printable.
/// Pure; any thread.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "lib/destdb/facts.h"

namespace pen::destdb {

enum class Group : std::uint8_t {
  failure,  // failures, when to try again, and why
  ceiling,  // connections that were tolerated
  quota,    // messages on a connection
  state     // what it offers, times of connections, measures
};
inline constexpr std::size_t kGroups = 4;
inline constexpr std::array<Group, kGroups> kAllGroups{Group::failure, Group::ceiling, Group::quota, Group::state};
inline constexpr char kGroupForm = '1';
inline constexpr std::size_t kMaxGroup = 4096;  // bytes, encoded
// Clocks of a cluster may differ by so much; what is dated later was not written by one of it.
inline constexpr std::chrono::minutes kClockSlack{5};
inline constexpr std::chrono::hours kLongestBackOff{24 * 10};

/// One letter: the field of the record in redis.
std::string_view group_name(Group g);
std::optional<Group> group_of(std::string_view name);

bool same_group(Group g, const Facts& a, const Facts& b);
void copy_group(Group g, const Facts& from, Facts& into);

std::string encode_group(Group g, const Facts& facts, WallTime changed);
struct DatedFacts {
  Facts facts;  // of which the group counts
  WallTime changed{};
};
/// nullopt: not to be believed.
std::optional<DatedFacts> decode_group(Group g, std::string_view bytes, WallTime now);

}  // namespace pen::destdb
