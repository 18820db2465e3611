#pragma once
/// The newest layout of payloads that a queue may hold, in a file beside its segments: what an older version must know
/// before it takes a newer one's place.
///
/// Why:     mail that has nothing new keeps the layout that every version reads (payload.h), so the version of the
///          queue's format says nothing of it. An older version puts a message that it cannot read on hold.
/// Use:     before the first such record: mark.note(layout);  when the queue holds nothing: mark.forget();
///          the other version: check_layouts(directory)
/// Form:    "layout 6\n" in $queue_log_directory/payload-layout; debian/penstock.preinst reads it too. None: nothing
///          newer than the usual layout was ever written.
/// Errors:  errno. What cannot be written costs a warning beforehand, and no mail.
/// Thread:  the loop's: a file of a few bytes is written and synced once in the life of a queue.
#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace pen::qmgr {

class LayoutMark {
 public:
  explicit LayoutMark(std::string directory);
  std::uint8_t layout() const { return layout_; }
  /// The queue is about to hold a payload of this layout.
  Result<void> note(std::uint8_t layout);
  /// The queue holds nothing; not after a note().
  Result<void> forget();

 private:
  std::string directory_;
  std::uint8_t layout_ = 0;
  bool noted_ = false;
};

/// Whether this version reads the payloads in a queue. A sentence in the error says what it does not read.
Result<void> check_layouts(const std::string& directory);

}  // namespace pen::qmgr
