#pragma once
/// Deliberate mistakes that a test can switch on, to show that the crash tests would catch them. Off in every program.
///
/// Use:     BreakageScope broken(Breakage::reuse_before_save);  // in a test, single-threaded

namespace pen::spool {

enum class Breakage {
  none,
  reuse_before_save,     // a file is free at once when its message is over
  use_number_at_take,    // the header is written after the receiver's sync instead of before it
  name_not_synced,       // a new file's name is not made durable
  no_lock,               // a file is leased although somebody still has it open
  found_files_are_free,  // what was there at start is used before anybody asked whose it is
  references_ignored,    // the orphan pass frees files that messages own
  // This no cut shows, because no correct queue holds a stale reference: spool_test.cc finds it.
  any_use_fits,  // a reference is believed whatever use its file is in
  last,
};

namespace detail {
inline Breakage current_breakage = Breakage::none;
}
inline bool broken(Breakage b) { return detail::current_breakage == b; }

class BreakageScope {
 public:
  explicit BreakageScope(Breakage b) { detail::current_breakage = b; }
  ~BreakageScope() { detail::current_breakage = Breakage::none; }
  BreakageScope(const BreakageScope&) = delete;
  BreakageScope& operator=(const BreakageScope&) = delete;
};

}  // namespace pen::spool
