#pragma once
/// What is learned about the rate that a receiver bears, from its complaints and from their absence.
///
/// Use:     on a complaint of class rate or reputation: complain(learned, pace, wall_now, …);
///          nothing goes while wall_now < learned.held_until; then at most limit(learned);
///          at learned.next_rise: rise(learned, pace, wall_now, whether the limit was made use of).
/// Climb:   there is no limit until somebody complains. Then it is half of what was delivered in the last minute, and
///          rises by a quarter with each interval without a complaint, which is never more than kMostRise in the hour
///          of twelve intervals, whatever happens. What is complained of after a rise is the rise: the rate goes back
///          to the one that stood, and rises by half of what is between the two, interval by interval, until less
///          than kNear of it is left: it has settled. From then on one small step is a probe, each after twice as
///          many intervals as the one before, and after a time beside which the rest that a failed probe costs does
///          not count. A probe that stands where a complaint was is followed by steps that double up to a quarter
///          again.
/// Fall:    a complaint of the rate that it settled at takes a sixteenth, the next one an eighth and so on, until one
///          interval stands; one of a rate that never stood halves.
/// Rest:    nothing goes after a complaint for as long as it says. A receiver that takes nothing at all between two
///          complaints rests twice as long each time, up to kLongestRest. Complaints during a rest are of what was
///          under way: they prolong the rest if they say so.
/// Source:  AIMD (RFC 5681's shape), with the search of CUBIC (RFC 9438) for the way back; docs/shaping.md has reasons.
/// Pure; time is a parameter.
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/codec.h"
#include "lib/base/time.h"
#include "lib/queue/shaping/rate.h"

namespace pen::shaping {

/// Kept in destdb; fields are only added at the end.
struct Learned {
  std::uint64_t rate = 0;        // Rate::thousandths; 0: no limit
  std::uint64_t stood = 0;       // the highest that stood an interval since the last halving; 0: none
  std::uint64_t refused = 0;     // the lowest that was complained of after a rise; 0: not known
  std::uint32_t patience = 1;    // intervals until the next rise
  std::uint32_t complaints = 0;  // since there is a limit
  WallTime complained{};         // the last one
  WallTime held_until{};         // nothing goes before
  WallTime next_rise{};
  std::uint64_t ordered = 0;      // by an administrator; 0: nothing was
  std::uint32_t connections = 0;  // that it bears; 0: not known
  WallTime connections_until{};   // when one more is tried
  std::string reason;             // what was said last, one line
  std::string rule;               // that it was known by
  WallTime used{};                // last change
  std::string block;              // why nothing is taken: Class::block, while held_until lasts; empty: no block
  std::uint32_t step = 0;         // thousandths of the rate that the last rise was; 0: kMostStep
  std::uint32_t falls = 0;        // complaints of a rate that had settled, since it stood
  std::uint32_t in_vain = 0;      // complaints without a delivery since the one before
  // "20/s,5000/h": several that were ordered; empty: `ordered` alone. Kept beside the rest, so that earlier versions
  // read what has none.
  std::string ordered_rates;
  PEN_FIELDS(rate, stood, refused, patience, complaints, complained, held_until, next_rise, ordered, connections,
             connections_until, reason, rule, used, block, step, falls, in_vain)
  bool operator==(const Learned&) const = default;
};

struct Pace {
  seconds pause{300};  // where neither the reply nor its rule names one
  Rate minimum = Rate::per_minute(1);
  seconds increase{300};  // without a complaint, until the rate rises
  seconds forget{30 * 86400};
};

inline constexpr std::uint32_t kMostStep = 250;  // thousandths: a rise at most
inline constexpr std::uint32_t kNear = 30;       // thousandths: what is between the two rates when it has settled
/// An hour is twelve intervals. 1.25 to the twelfth is 14.6.
inline constexpr double kMostRise = 15;
inline constexpr std::uint32_t kMostPatience = 72;  // intervals: six hours, and at least kRestsBetween rests
inline constexpr std::uint32_t kRestsBetween = 48;
inline constexpr seconds kLongestRest{4 * 3600};

/// The limit that holds now, of what was learned and ordered. Half of it, and half of that, and so on, after complaints
/// in vain: they say that a receiver's time has not passed, and nothing of the rate that it bears then.
Rate limit(const Learned& l, const Pace& pace);
/// An administrator's order; none: its end.
void order(Learned& l, const Rates& rates);
Rates ordered(const Learned& l);
/// Something was delivered. True: the limit rose, for the last complaints were in vain.
bool taken(Learned& l);
/// The most that the learned rate can be after so long.
Rate at_most_after(const Learned& l, const Pace& pace, seconds time);
inline bool held(const Learned& l, WallTime now) { return now < l.held_until; }
/// What was delivered: in the last minute, and whether anything since the complaint before.
struct Took {
  std::uint64_t last_minute = 0;
  bool anything = true;
};
/// pause: as stated, or by the rule.
void complain(Learned& l, const Pace& pace, WallTime now, Took took, std::optional<seconds> pause);
/// Nothing is taken for now; the rate stays what it was.
void hold(Learned& l, const Pace& pace, WallTime now, std::optional<seconds> pause);
/// The time of the next rise has come. used: most of what the limit allowed went out since the last one;
/// what nobody asked for proves nothing. Nor does time in which nothing is taken. True: the limit rose.
bool rise(Learned& l, const Pace& pace, WallTime now, bool used);
/// There was no complaint for so long that nothing of it holds, and nothing was ordered.
bool outdated(const Learned& l, const Pace& pace, WallTime now);

}  // namespace pen::shaping
