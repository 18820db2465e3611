#pragma once
/// Tracks spool files: which are free, leased to a receiver, owned by a message, or waiting until they may be reused.
///
/// Source:  docs/origins.md "The spool" (a pool of files that are reused, not created, truncated or removed for each
///          message).
/// Use:     see spool.h, which does the I/O. This part only decides: no files, no clock.
/// States:  unknown ─referenced()→ used        unknown ─sweep()→ free
///          free, new ─lease()→ leased ─take()→ used ─release()→ retiring ─reclaim()→ free
///          leased ─give_back()→ free               free ─surplus()→ gone, its number to be made again
/// Shrinks: to the largest number of files in use at once during this period and the one before, never below `keep`.
///          So files of a burst are removed after two periods without one, and a steady load removes and makes none.
/// Bounds:  one small entry per file; at most `max_leases` leases at once.
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

  /// A file that existed at the start: it stays unused until sweep() or referenced() settles its owner.
  void found(FileNumber file);
  struct Leased {
    std::uint64_t lease = 0;  // from 1, never given twice
    FileNumber file = 0;
    bool fresh = false;  // the file does not exist yet: create it
  };
  /// nullopt: max_leases are taken. only_fresh: a new file even if some are free.
  std::optional<Leased> lease(bool only_fresh = false);
  /// The file of a lease, for checks. nullopt: there is no such lease.
  std::optional<FileNumber> leased(std::uint64_t lease) const;
  /// The message with the content is in the queue log, or about to be. `use`: the use that its reference will name.
  /// False: there is no such lease.
  bool take(std::uint64_t lease, std::uint32_t use);
  /// The receiver is gone or does not need the file, which becomes the last of the free files. False: there is no such
  /// lease.
  bool give_back(std::uint64_t lease);
  /// As give_back(), for a file that somebody may still write to: it becomes the last of the free files.
  void set_aside(std::uint64_t lease);
  /// The file could not be created: its number is used again later.
  void never_made(std::uint64_t lease);
  /// The file is not one of the spool: neither it nor its number is used again.
  void not_ours(std::uint64_t lease);
  /// The message is over; its file may be reused when queue log save `safe_after` is on disk. False, without effect:
  /// no message with this use owns the file.
  bool release(FileNumber file, std::uint32_t use, std::uint64_t safe_after);
  /// Frees files that have their save on disk; returns how many.
  std::size_t reclaim(std::uint64_t last_save);
  /// Whether files wait for a save.
  bool files_wait() const { return !retiring_.empty(); }

  enum class Owner { yes, missing, another };
  /// A message found in the queue owns the file, in this use. missing: there is no such file (the content is lost).
  /// another: a message with another use of the file was met before; the file itself decides, by settle().
  Owner referenced(FileNumber file, std::uint32_t use);
  void settle(FileNumber file, std::uint32_t use) { files_[file].use = use; }
  bool unknown(FileNumber file) const;
  /// Call this after every message was reported to referenced(): the other files become free. Returns them.
  std::vector<FileNumber> sweep();
  bool swept() const { return swept_; }

  /// Ends a period.
  void next_period();
  /// Free files that will probably not be needed, the least recently used first, at most `most`. They have left the
  /// pool: remove them, then call removed(). None before sweep().
  std::vector<FileNumber> surplus(std::size_t most);
  void removed(FileNumber file) { unmade_.push_back(file); }

  enum class State : std::uint8_t { unknown, free, leased, used, retiring };
  struct File {
    State state = State::unknown;
    std::uint32_t use = 0;  // of a file that a message owns
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
  std::deque<FileNumber> free_;  // most recently used first: its pages are still cached
  std::unordered_map<std::uint64_t, FileNumber> leases_;
  std::deque<std::pair<std::uint64_t, FileNumber>> retiring_;
  std::vector<FileNumber> unmade_;
  std::uint64_t last_lease_ = 0;
  FileNumber last_file_ = 0;
  bool swept_ = false;
  std::size_t peak_ = 0;  // files in use at once, in this period
  std::size_t last_peak_ = 0;
};

}  // namespace pen::spool
