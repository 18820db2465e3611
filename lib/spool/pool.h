#pragma once
/// Which spool file is free, leased to a receiver, owned by a message, or waiting until it may be used again.
///
/// Source:  docs/origins.md "The spool" (a pool of files that are re-used and not created, truncated or removed per
///          message).
/// Use:     see spool.h, which does the I/O. This part decides and touches nothing: no files, no clock.
/// States:  unknown ─referenced()→ used        unknown ─sweep()→ free
///          free, new ─lease()→ leased ─take()→ used ─release()→ retiring ─reclaim()→ free
///          leased ─give_back()→ free               free ─surplus()→ gone, its number to be made again
/// Shrinks: to the most files that were in hand at once during this period and the one before, never below `keep`. So a
///          burst's files go when two periods have passed without one, and a steady load removes and makes none.
/// Bounds:  one small entry per file; at most `max_leases` leased at once.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace pen::spool {

using FileNumber = std::uint32_t;  // from 1

class Pool {
 public:
  static constexpr std::size_t kKeep = 16;
  static constexpr std::size_t kMaxLeases = 20000;
  explicit Pool(std::size_t max_leases = kMaxLeases, std::size_t keep = kKeep) : max_leases_(max_leases), keep_(keep) {}

  /// A file that was there at start: nobody may have it before sweep() or referenced() tells what it is.
  void found(FileNumber file);
  struct Leased {
    std::uint64_t lease = 0;  // from 1, never given twice
    FileNumber file = 0;
    bool fresh = false;  // does not exist yet: create it
  };
  /// nullopt: max_leases are out. only_fresh: a new file even when there are free ones.
  std::optional<Leased> lease(bool only_fresh = false);
  /// The file of a lease, for checks. nullopt: no such lease (any more).
  std::optional<FileNumber> leased(std::uint64_t lease) const;
  /// The message with the content is in the queue log (or about to be). `use`: what its reference will name. False:
  /// no such lease.
  bool take(std::uint64_t lease, std::uint32_t use);
  /// The receiver is gone or does not need it; every other free file comes first. False: no such lease.
  bool give_back(std::uint64_t lease);
  /// As give_back(), but every other free file comes first: somebody may still write to this one.
  void set_aside(std::uint64_t lease);
  /// Could not be created: the number is used again later.
  void never_made(std::uint64_t lease);
  /// Turned out not to be a file of the spool: neither it nor its number is used again.
  void not_ours(std::uint64_t lease);
  /// The message is over; the file may be used again when queue log save `safe_after` is on disk.
  /// False, and nothing is done: it is not in the hands of a message with this use.
  bool release(FileNumber file, std::uint32_t use, std::uint64_t safe_after);
  /// Returns how many became free.
  std::size_t reclaim(std::uint64_t last_save);
  /// Whether files are waiting for a save.
  bool files_wait() const { return !retiring_.empty(); }

  enum class Owner { yes, missing, another };
  /// A message found in the queue owns the file, in this use. missing: no such file (its content is lost). another: a
  /// message with another use of it was met before; what the file says decides, by settle().
  Owner referenced(FileNumber file, std::uint32_t use);
  void settle(FileNumber file, std::uint32_t use) { files_[file].use = use; }
  bool unknown(FileNumber file) const;
  /// Every message was reported to referenced(): files nobody owns are free. Returns them.
  std::vector<FileNumber> sweep();
  bool swept() const { return swept_; }

  /// A period is over.
  void next_period();
  /// Free files that nobody is likely to need, the coldest first, at most `most`. They are not the pool's any more:
  /// remove them, then tell removed(). Nothing before sweep().
  std::vector<FileNumber> surplus(std::size_t most);
  void removed(FileNumber file) { unmade_.push_back(file); }

  enum class State : std::uint8_t { unknown, free, leased, used, retiring };
  struct File {
    State state = State::unknown;
    std::uint32_t use = 0;  // of one in a message's hands
  };
  /// All files, in order.
  const std::map<FileNumber, File>& files() const { return files_; }
  struct Figures {
    std::size_t files = 0, free = 0, leased = 0, used = 0, retiring = 0, unknown = 0;
  };
  Figures figures() const;

 private:
  std::size_t max_leases_;
  std::size_t keep_;
  std::map<FileNumber, File> files_;
  std::deque<FileNumber> free_;  // last used first: its pages are the warmest
  std::unordered_map<std::uint64_t, FileNumber> leases_;
  std::deque<std::pair<std::uint64_t, FileNumber>> retiring_;
  std::vector<FileNumber> unmade_;
  std::uint64_t last_lease_ = 0;
  FileNumber last_file_ = 0;
  bool swept_ = false;
  std::size_t peak_ = 0;  // files in hand at once, in this period
  std::size_t last_peak_ = 0;
};

}  // namespace pen::spool
