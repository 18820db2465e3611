#pragma once
/// Facts in the form that hosts of a cluster share: in groups that change together, each with the time of its change.
///
/// If two hosts learn different things about a destination at the same time, both stay known: for each group, not for
/// the whole record, the newer statement counts.
///
/// Use:     for (Group g : kAllGroups) if (!same_group(g, old, now)) send(group_name(g), encode_group(g, now, wall));
///          if (auto got = decode_group(g, bytes, wall)) copy_group(g, got->facts, into);
/// Form:    one byte kGroupForm, then the group's fields (lib/base/codec.h); fields are added at the end only.
/// Rules:   decoded bytes come from other hosts: senseless numbers or times make the group invalid; texts for people
///          are cut and made printable.
/// Pure; any thread.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "lib/queue/destdb/facts.h"

namespace pen::destdb {

enum class Group : std::uint8_t {
  failure,  // failures, when to try again, and why
  ceiling,  // connections that the destination tolerated
  quota,    // messages on a connection
  state     // what the host offers, times of connections, measurements
};
inline constexpr std::size_t kGroups = 4;
inline constexpr std::array<Group, kGroups> kAllGroups{Group::failure, Group::ceiling, Group::quota, Group::state};
inline constexpr char kGroupForm = '1';
inline constexpr std::size_t kMaxGroup = 4096;  // bytes, encoded
// The clocks of a cluster may differ by this much; a group with a later date is not believed.
inline constexpr std::chrono::minutes kClockSlack{5};
inline constexpr std::chrono::hours kLongestBackOff{24 * 10};

/// One letter: the field of the redis record.
std::string_view group_name(Group g);
std::optional<Group> group_of(std::string_view name);

bool same_group(Group g, const Facts& a, const Facts& b);
void copy_group(Group g, const Facts& from, Facts& into);

std::string encode_group(Group g, const Facts& facts, WallTime changed);
struct DatedFacts {
  Facts facts;  // only the fields of the group count
  WallTime changed{};
};
/// nullopt: not credible.
std::optional<DatedFacts> decode_group(Group g, std::string_view bytes, WallTime now);

}  // namespace pen::destdb
