#pragma once
/// Queue ids in the shape of Postfix's long ones (enable_long_queue_ids): "4bGNsx3Ynxz1kGz8Q".
///
/// Grammar: 6 digits base 52 of the seconds since 1970, 4 digits base 52 of the microseconds, "z", then a
///          number in base 51 (where Postfix has the inode: here a counter that starts at a random number).
///          Digits are 0-9 and the consonants, so that no id spells a word; the number never holds "z".
/// Unique:  within a process by strictly increasing time stamps, even when the clock is set back; between processes
///          and restarts by time and the random start of the counter.
/// Thread:  one generator, one thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/random.h"
#include "lib/base/time.h"

namespace pen::mail {

inline constexpr std::size_t kMaxQueueId = 20;

class QueueIdGenerator {
 public:
  /// The clock must outlive the generator; `random` should come from secure_random_u64().
  QueueIdGenerator(const Clock& clock, Random random);
  std::string next();

 private:
  const Clock& clock_;
  std::int64_t last_ = 0;  // microseconds since 1970 in the last id
  std::uint64_t counter_;
};

/// Whether the text may be a queue id of ours or of a maildrop file: 1 … kMaxQueueId letters and digits. Programs
/// check this before they look up an id from a user or another program.
bool is_queue_id(std::string_view text);
/// The time in an id that next() made; nullopt for other text.
std::optional<WallTime> queue_id_time(std::string_view id);

}  // namespace pen::mail
