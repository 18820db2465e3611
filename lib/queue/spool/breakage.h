#pragma once
/// The spool's deliberate mistakes: see lib/base/breakage.h.
#include "lib/base/breakage.h"

namespace pen::spool {

enum class Breakage {
  none,
  reuse_before_save,     // a file is free as soon as its message is over
  use_number_at_take,    // the header is written after the receiver's sync instead of before
  name_not_synced,       // a new file's name is not made durable
  leased_while_open,     // a file is leased although another process still has it open
  found_files_are_free,  // files found at the start are used before their owners are known
  references_ignored,    // the orphan pass frees files that messages own
  // No cut shows this one, because a correct queue never holds a stale reference: spool_test.cc finds it.
  any_use_fits,  // a reference is accepted whatever use its file is in
  not_cleared,   // a file is leased with its old content; only a reader that breaks the rules sees it: spool_test.cc
  last,
};

}  // namespace pen::spool
