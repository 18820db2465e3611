#pragma once
/// The change of DKIM keys by date: the file with the dates, and which keys' records were seen in DNS.
///
/// Use:     Rotation rotation(file, clock);
///          auto due = rotation.due(names);                        // the places of the keys that sign now
///          loop.spawn("dkim records", watch_records(loop, signing, look, say, cancel));
/// Watched: a key with a first date, from kAhead before it until its record was seen; every kLookEach. What was once
///          seen is not looked for again.
/// Says:    a line when a key's record is found, and a warning, once a day, about a key that is due without one.
/// Thread:  due() and note() any; watch_records() the loop's.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/map/file_map.h"
#include "lib/trust/dkim/verify.h"
#include "lib/trust/signing/key_dates.h"

namespace pen::signing {

class Signing;

class Rotation {
 public:
  static constexpr std::chrono::hours kAhead{24};
  static constexpr seconds kLookEach{15};
  static constexpr std::size_t kAtOnce = 100;  // names asked about in a round

  Rotation(std::string file, const Clock& clock);

  /// Errors: the file cannot be read.
  Result<std::vector<std::size_t>> due(const std::vector<std::string>& names) const;
  Result<std::shared_ptr<const KeyDateTable>> table() const;
  /// The keys whose records are to be looked for now.
  std::vector<KeyDates> wanted() const;
  void note(const std::string& name, RecordSeen seen) const;
  /// DNS did not answer. What it has said before still counts; and a key whose change is long past, asked about for the
  /// first time now, goes on.
  void note_silence(const KeyDates& key) const;
  RecordSeen seen(std::string_view name) const;
  WallTime now() const { return clock_.wall_now(); }

 private:
  const Clock& clock_;
  mutable map::Reloading<KeyDateTable> file_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, RecordSeen, std::less<>> seen_;  // by name in lower case
};

/// Asks DNS for the record of this name.
using LookForRecord = std::function<async::Task<dkim::KeyAnswer>(std::string name)>;
using SayOfKeys = std::function<void(bool warning, const std::string& line)>;
/// Whether one of the records has this key (KeyRecord::key).
bool has_key(const dkim::KeyAnswer& answer, std::string_view public_bytes);
/// Until it is cancelled. signing: with dates, else it returns at once.
async::Task<void> watch_records(async::Loop* loop, std::shared_ptr<const Signing> signing, LookForRecord look,
                                SayOfKeys say, async::Cancel* cancel);

}  // namespace pen::signing
