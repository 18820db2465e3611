#pragma once
/// What can be broken here on purpose: see lib/base/breakage.h.
#include "lib/base/breakage.h"

namespace pen::spool {

enum class Breakage {
  none,
  reuse_before_save,     // a file is free at once when its message is over
  use_number_at_take,    // the header is written after the receiver's sync instead of before it
  name_not_synced,       // a new file's name is not made durable
  no_lock,               // a file is leased although somebody still has it open
  found_files_are_free,  // what was there at start is used before anybody asked whose it is
  references_ignored,    // the orphan pass frees files that messages own
  unlocked_readers,      // a file is leased although somebody still reads it
  // This no cut shows, because no correct queue holds a stale reference: spool_test.cc finds it.
  any_use_fits,  // a reference is believed whatever use its file is in
  last,
};

}  // namespace pen::spool
