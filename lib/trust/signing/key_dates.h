#pragma once
/// When DKIM keys sign: the file of dkim_key_dates, and which keys of an address sign at a time. No I/O, no clock.
///
/// Use:     auto table = KeyDateTable::parse(text, file);
///          auto chosen = keys_due(names, *table, record, now);    // record: what DNS says of a name's key
/// Lines:   NAME FROM UNTIL, # begins a comment; dates as 2026-12-01, 2026-12-01T06:00Z or 2026-12-01T06:00:00Z, of
///          UTC (lib/base/date.h), - for none.
/// Rules:   a key with a first date signs from then on, once DNS has its record. Until a key that is due signs, the
///          last one whose time is over goes on, and where no other key ever signed, the one that is due or will be
///          first: no mail waits for a change of keys.
/// Errors:  a line that makes no sense, with file and number.
/// Source:  docs/dkim.md, "Changing keys".
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::signing {

enum class KeyDateError { line = 1 };
std::string_view error_module(KeyDateError);
std::string_view describe(KeyDateError);

struct KeyDates {
  std::string name;
  std::optional<WallTime> from, until;
  std::size_t line = 0;
};

class KeyDateTable {
 public:
  static Result<KeyDateTable> parse(std::string_view text, const std::string& file);
  /// In any case, as names of keys are compared. nullptr: it has no dates.
  const KeyDates* find(std::string_view name) const;
  const std::vector<KeyDates>& all() const { return all_; }

 private:
  std::vector<KeyDates> all_;  // sorted by name in lower case
};

/// What DNS says of a key's record. unknown: nobody has asked yet; unanswered: it was asked while the change was fresh,
/// and has not said anything.
enum class RecordSeen : std::uint8_t { unknown, unanswered, missing, there };
/// A record that nobody has asked about yet, as after a start, is taken to be there when the change is so long past.
inline constexpr std::chrono::hours kSettled{24};

/// The places in `names` of the keys that sign now; with a name it is never empty.
std::vector<std::size_t> keys_due(const std::vector<std::string>& names, const KeyDateTable& table,
                                  const std::function<RecordSeen(std::string_view name)>& record, WallTime now);

}  // namespace pen::signing
