#pragma once
/// What keeps a source from being used, in all or for a group of receivers: its warm-up, a block, a proxy that failed.
///
/// A group is a provider, or the domain of a next hop; the caller's choice.
///
/// Warm-up: a source that is warmed up may send so many messages to a group on a day (UTC) as its stage there says. The
///          stage rises with the first message of a later day if nine tenths of its number were accepted on the last
///          day on which it sent; behind the last stage nothing is counted.
/// Use:     if (ledger.obstacle(s, group, now).empty()) … once for a message and group:
///          if (ledger.reserved(s, group, now)) ledger.take(s, group, now); else … it waits for the next kept()
///          ledger.accepted(s, group, now);                                            // its receiver took it
///          ledger.block(s, group, now, until, why);    // what replies say of the source (docs/egress.md)
///          const auto changes = ledger.take_changes(last); … write them …; ledger.kept(changes); at a start:
///          ledger.load(value)
/// Kills:   what is written of a day's count runs ahead of it by a part of the day's number, and nothing is taken
///          beyond that. So a process that is killed leaves a count that is too high, and never one that is too low.
/// Bounds:  kMaxEntries of source and group; what comes then counts for the group "*" together.
/// No I/O; time is a parameter. The File must outlive it.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"
#include "lib/send/egress/file.h"

namespace pen::egress {

inline constexpr std::size_t kMaxEntries = 100'000, kMaxGroup = 255, kMaxStages = 100;

/// egress_warmup_schedule; nullopt: not rising numbers from 1 on, or too many.
std::optional<std::vector<std::uint32_t>> parse_schedule(const std::vector<std::string>& words);

/// A source and a group, as it is kept.
struct Entry {
  std::string source, group;
  std::int64_t day = 0;     // of the counts, since 1970
  std::uint32_t stage = 0;  // of the schedule, from 0 on
  std::uint32_t taken = 0, accepted = 0;
  WallTime blocked_until{};
  std::string why;  // it is blocked
  PEN_FIELDS(source, group, day, stage, taken, accepted, blocked_until, why)
  bool operator==(const Entry&) const = default;
};

class Ledger {
 public:
  Ledger(const File& file, std::vector<std::uint32_t> schedule) : file_(file), schedule_(std::move(schedule)) {
    failures_.resize(file.sources.size());
  }

  /// Why the source does not take a message for the group; empty: it does. counted: it took this one before, so
  /// that its warm-up does not refuse it.
  std::string obstacle(std::uint32_t source, std::string_view group, WallTime now, bool counted = false) const;
  /// Whether the count with one more is written. False: it is with the next changes.
  bool reserved(std::uint32_t source, std::string_view group, WallTime now);
  /// It takes one.
  void take(std::uint32_t source, std::string_view group, WallTime now);
  void accepted(std::uint32_t source, std::string_view group, WallTime now);
  /// Whether its messages are counted.
  bool warms_up(std::uint32_t source) const { return file_.sources[source].warmup && !schedule_.empty(); }

  /// Until then it sends nothing to the group; what is later counts.
  void block(std::uint32_t source, std::string_view group, WallTime now, WallTime until, std::string_view why);
  void unblock(std::uint32_t source, std::string_view group);

  /// Its proxy, or its address, does not work: it rests for 30 s, doubled each time up to 15 min. Returns for how long;
  /// 0: it rests already, for another connection met the same.
  seconds failed(std::uint32_t source, WallTime now, std::string_view why);
  /// All that is known of it.
  void forget(std::uint32_t source);
  /// It worked.
  void works(std::uint32_t source) { failures_[source] = {}; }
  struct Failure {
    std::uint32_t count = 0;
    WallTime until{};
    std::string why;
  };
  const Failure& failure(std::uint32_t source) const { return failures_[source]; }

  /// What is known of a source, as of now; its groups in order.
  std::vector<Entry> entries_of(std::uint32_t source, WallTime now) const;
  /// Messages on a day at this stage; 0: any number.
  std::uint32_t limit(std::uint32_t stage) const { return stage < schedule_.size() ? schedule_[stage] : 0; }

  struct Change {
    std::string key;
    std::optional<std::string> value;  // nullopt: it is gone
  };
  /// Since the last call. last: nothing is taken after this, so that what is written is exact; also the counts that
  /// are written with a reserve.
  std::vector<Change> take_changes(bool last = false);
  /// They are written, or cannot be: then the counts are known to this process alone.
  void kept(const std::vector<Change>& changes);
  /// A value that was kept. False: it makes no sense, or its source is no more, and need not be kept.
  bool load(std::string_view value);

 private:
  using Key = std::pair<std::string, std::string>;
  static std::string kept_key(const Key& key) { return key.first + '\0' + key.second; }
  const Entry* find(std::uint32_t source, std::string_view group) const;
  Entry& entry(std::uint32_t source, std::string_view group, WallTime now);
  /// As it stands on the day of `now`.
  Entry as_of(Entry e, WallTime now) const;
  bool make_room(WallTime now);
  void changed(const Entry& e) { changed_.insert(kept_key({e.source, e.group})); }

  const File& file_;
  const std::vector<std::uint32_t> schedule_;
  std::map<Key, Entry> entries_;
  std::unordered_set<std::string> changed_;
  struct Reserve {
    std::int64_t day = 0;
    std::uint32_t taken = 0;
  };
  std::unordered_map<std::string, Reserve> reserves_;  // that are written, by kept_key()
  std::vector<Failure> failures_;
  WallTime swept_{};
};

}  // namespace pen::egress
