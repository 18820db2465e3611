#pragma once
/// Deliberate mistakes that a test can switch on, to show that the crash tests would catch them.
/// Off in every program.
///
/// Use:     BreakageScope broken(Breakage::skip_commit_sync);  // in a test, single-threaded

namespace pen::queue_log {

enum class Breakage {
  none,
  skip_commit_sync,       // a commit's fdatasync is left out
  acknowledge_early,      // complete() counts what was gathered after the batch was made
  mark_before_start,      // an envelope is marked as garbage before its START is durable
  unkeyed_checksum,       // a recycled segment's stale bytes pass for records
  positions_before_sync,  // restart positions are written before the logs are synced
  // a segment is used again before positions were saved that no longer need it
  recycle_before_save,
  append_after_torn_tail,  // recovery takes up the last segment where its last valid record ends
  moved_before_sync,       // FINISH (moved) is appended before the replacement is durable
  trust_page_cache,        // recovery neither syncs nor drops cached pages before it reads
  forget_deliveries,       // recovery does not apply delivery records
  suffix_too_late,         // the saved start of the working suffix ignores open STARTs
  // the saved end of a retry log passes replacements whose FINISH is missing
  move_without_hold_back,
};
inline constexpr Breakage kAllBreakages[] = {
    Breakage::skip_commit_sync,       Breakage::acknowledge_early,
    Breakage::mark_before_start,      Breakage::unkeyed_checksum,
    Breakage::positions_before_sync,  Breakage::recycle_before_save,
    Breakage::append_after_torn_tail, Breakage::moved_before_sync,
    Breakage::trust_page_cache,       Breakage::forget_deliveries,
    Breakage::suffix_too_late,        Breakage::move_without_hold_back};

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

}  // namespace pen::queue_log
