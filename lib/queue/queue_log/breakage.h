#pragma once
/// What can be broken here on purpose: see lib/base/breakage.h.
#include "lib/base/breakage.h"

namespace pen::queue_log {

enum class Breakage {
  none,
  skip_commit_sync,          // a commit's fdatasync is left out
  acknowledge_early,         // complete() counts what was gathered after the batch was made
  beside_anything,           // a commit of the journal is handed out beside one that seals a segment, or has no sync
  mark_before_start,         // an envelope is marked as garbage before its START is durable
  unkeyed_checksum,          // a recycled segment's stale bytes pass for records
  positions_before_sync,     // restart positions are written before the other logs and the marks are synced
  positions_before_journal,  // restart positions are written before the journal is durable as far as they go
  recycle_before_save,       // a segment is used again before positions that need it no more are saved
  append_after_torn_tail,    // recovery takes up the last segment where its last valid record ends
  moved_before_sync,         // FINISH (moved) is appended before the replacement is durable
  trust_page_cache,          // recovery neither syncs nor drops cached pages before it reads
  forget_deliveries,         // recovery does not apply delivery records
  suffix_too_late,           // the saved start of the working suffix ignores open STARTs
  move_without_hold_back,    // the saved end of a retry log passes replacements without a FINISH
  seal_without_sync,         // a log goes on to its next segment without a sync of the last one
  footer_of_torn_segment,    // a listing believes the footer of a segment that a crash ended
  positions_in_one_place,    // both copies of the restart positions are written over each other
  unpinned_envelope,         // an open START does not keep its envelope's segment
  use_numbers_again,         // the number of a use is given a second time after a crash lost its header
  renew_at_once,             // a message is renewed although its START is not durable
  forget_tombstones,         // recovery does not apply tombstones
  first_part_suffices,       // a record in parts counts without its last part
  forget_the_unanswered,     // restart positions pass what the same commit makes durable
  settle_before_copies_are_marked,  // recovery ends without the marks of what was sent again while it read
  older_version_wins,               // of several versions recovery keeps the oldest
  second_version_is_a_fault,        // one of a message that is worked on is an error like any other
  ignore_failed_write,              // a write that fails counts as done
  // These no cut shows: fault_test.cc finds them.
  take_the_reserve,     // new mail is taken while only the reserve is left
  odd_mark_is_garbage,  // any mark but 0 counts as garbage
  recycle_damaged,      // a segment with unreadable bytes goes back to the pool
  last,
};

}  // namespace pen::queue_log
