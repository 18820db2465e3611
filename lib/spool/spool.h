#pragma once
/// The spool: files for bodies too large to live in the queue log.
///
/// Source:  docs/origins.md "The spool".
/// Format:  docs/spool.md.
/// Use:     auto spool = Spool::open("/var/spool/penstock/bodies");          // spool_directory
///          auto lease = spool->lease(expected_size);                        // receiver gets lease->fd, writes from
///                                                                           // lease->content_offset, fdatasyncs once
///          auto ref = spool->take(lease->lease, queue_id, length);          // ref goes into the envelope; append it
///          auto fd = spool->open_to_read(ref);                              // for delivery: pread from kContentOffset
///          spool->release(ref, log.next_save()); spool->reclaim(log.last_save());
/// Durable: the receiver's one fdatasync covers the content and the header that lease() wrote. A message is complete
///          when its envelope is in the queue log; until then the file has no owner, whatever it holds.
/// Reuse:   when its message is over, a file is neither truncated nor removed; the next content overwrites it. A
///          reference names file and use, so that a file with another owner is never taken for the message's own.
/// Growth:  a file is made when none is free. Files left by a burst are removed after half an hour without need for
///          them.
/// Writers: the holder of a lease may still be writing when the lease is over, because its qmgr died, or because it
///          gave up while a write was under way. So each lease travels with an exclusive flock. The lock belongs to
///          the open file description and lasts until the last copy of the descriptor is closed, in any process. A
///          file is leased only with that lock held; one that is still open somewhere is skipped.
/// Readers: a descriptor from open_to_read() travels with a shared flock, which lasts as long as its last copy, in any
///          process and over any death of qmgr; until then the file is not leased again. All programs that acknowledge
///          their reading get copies of one description, so that no message costs an open(). release() removes the
///          lock, because by then all have answered; if such a program is lost, call forget_readers(). Besides, a
///          reader compares read_header() before its first read and after its last, before it says "sent".
/// Orphans: files found at the start are not used before the orphan pass has ended: call referenced() for each message
///          of a queue_log::Scan, then sweep(). Until then new files are made, so that mail is accepted at once.
/// Thread:  one. lease() and open_to_read() make up to three system calls; the receivers do the writing.
/// Errors:  SpoolError, errno.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/random.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/spool/files.h"
#include "lib/spool/pool.h"

namespace pen::spool {

enum class SpoolError {
  no_space = 1,   // 452 4.3.1
  too_many,       // too many leases: try later
  unknown_lease,  // the peer named a lease it does not hold
  too_short,      // the file holds less than the peer stated
  wrong_owner,    // another message owns the file now: the reference is stale, or the file was damaged
};
inline std::string_view error_module(SpoolError) { return "spool"; }
inline std::string_view describe(SpoolError e) {
  switch (e) {
    case SpoolError::no_space:
      return "no space left in the spool";
    case SpoolError::too_many:
      return "too many spool files in use by receivers";
    case SpoolError::unknown_lease:
      return "no such lease";
    case SpoolError::too_short:
      return "the spool file is shorter than the message";
    case SpoolError::wrong_owner:
      return "the spool file belongs to another message";
  }
  return "unknown";
}

// Keeps content page-aligned for splice and sendfile.
inline constexpr std::uint64_t kContentOffset = 4096;
inline constexpr std::uint64_t kGrowth = 1U << 20;  // files grow in steps of this size

/// File and use in one number, as envelopes hold it; 0 is no reference.
using BodyRef = std::uint64_t;
constexpr FileNumber file_of(BodyRef ref) { return static_cast<FileNumber>(ref); }
constexpr std::uint32_t use_of(BodyRef ref) { return static_cast<std::uint32_t>(ref >> 32); }

class Spool {
 public:
  /// Makes the directory if it is missing. `reserve`: bytes to leave free on its disk.
  static Result<std::unique_ptr<Spool>> open(const std::string& directory, std::uint64_t reserve = 0);
  /// Opens a spool over any files. `new_use` makes the numbers of uses, which must not repeat for a file; `keep`: see
  /// pool.h.
  static Result<std::unique_ptr<Spool>> open(std::unique_ptr<Files> files, std::uint64_t reserve,
                                             std::function<std::uint64_t()> new_use = secure_random_u64,
                                             std::size_t keep = Pool::kKeep);
  ~Spool();

  struct Lease {
    std::uint64_t lease = 0;
    Fd fd;  // read and write
    std::uint64_t content_offset = kContentOffset;
  };
  /// Reserves disk space for expected_size (0: unknown) beyond what the file already has. If the declared and not yet
  /// received bytes of all files would exceed a sixteenth of the free space, only one step of growth is reserved.
  /// Errors: no_space, too_many, errno.
  Result<Lease> lease(std::uint64_t expected_size);
  /// The receiver is gone or does not need the file. False: there is no such lease.
  bool give_back(std::uint64_t lease);
  /// The receiver has written and synced `length` bytes. Writes the owner into the file (not synced: the envelope
  /// counts).
  Result<BodyRef> take(std::uint64_t lease, std::string_view queue_id, std::uint64_t length);
  /// A read-only descriptor, for a reader that reports the end of its reading, which must be before release(). Errors:
  /// wrong_owner, errno.
  Result<Fd> open_to_read(BodyRef ref);
  /// The same for a reader that does not report: a description, and a lock, of its own.
  Result<Fd> open_apart(BodyRef ref);
  /// A program that may hold a descriptor of open_to_read() will not answer: any surviving copy keeps its lock.
  void forget_readers() { readers_.clear(); }
  /// The message is over, or its envelope was refused; safe_after: see QueueLog::next_save(). A reference to an
  /// earlier use of the file is ignored.
  void release(BodyRef ref, std::uint64_t safe_after);
  std::size_t reclaim(std::uint64_t last_save) { return pool_.reclaim(last_save); }
  bool files_wait() const { return pool_.files_wait(); }
  /// False: the file of a queued message is missing, or has another owner; the caller reports that.
  bool referenced(BodyRef ref);
  /// Ends the orphan pass; returns the number of files without an owner.
  std::size_t sweep() { return pool_.sweep().size(); }
  /// Removes a few files that were not needed in the last half hour; call it once a second. Errors: errno; such a file
  /// stays until the next start.
  Result<void> shrink(SteadyTime now);
  Pool::Figures figures() const { return pool_.figures(); }

  /// The header of a file, for tools; nullopt: no valid one.
  struct Header {
    FileNumber file = 0;
    std::uint32_t use = 0;
    std::string queue_id;  // empty: no owner was written for this use
    std::uint64_t length = 0;
  };
  static Result<std::optional<Header>> read_header(int fd);
  /// All files of the pool, by number.
  const std::map<FileNumber, Pool::File>& files() const { return pool_.files(); }
  struct Look {
    std::string path;
    std::uint64_t size = 0;
    std::optional<Header> header;  // nullopt: no valid one
    std::string fault;             // why the file cannot be read; empty: it can be read
  };
  /// The state on disk of one of them.
  Look look(FileNumber file);

 private:
  Spool(std::unique_ptr<Files> files, std::uint64_t reserve, std::function<std::uint64_t()> new_use, std::size_t keep);
  Result<int> writable(FileNumber file);
  Result<void> create(FileNumber file);
  struct File;
  Result<void> grow(FileNumber number, File& file, std::uint64_t needed);
  /// At most this many bytes of the file can still be hollow.
  void limit_hollow(FileNumber number, std::uint64_t most);
  Result<bool> lock(FileNumber file);
  std::optional<std::uint32_t> use_now(FileNumber file);
  static std::optional<Header> parse_header(std::string block);
  Result<std::optional<Header>> header_of(int fd);

  std::unique_ptr<Files> files_;
  std::uint64_t reserve_;
  std::function<std::uint64_t()> new_use_;
  Pool pool_;
  struct File {
    Fd write;
    std::uint32_t use = 0;
    std::uint64_t size = 0;
    bool locked = false;  // so only holders of this descriptor's leases can write
  };
  std::unordered_map<FileNumber, File> open_;  // kept descriptors: at most max_open_
  // Bytes that were reserved because clients declared them, and that no content has filled yet.
  std::unordered_map<FileNumber, std::uint64_t> hollow_;
  std::uint64_t all_hollow_ = 0;
  // Read-only descriptors, of which delivery programs get copies: also at most max_open_.
  struct Reader {
    Fd fd;
    bool shared = false;  // it holds the shared flock
  };
  std::unordered_map<FileNumber, Reader> readers_;
  Result<Reader> reader_of(BodyRef ref, std::optional<Reader> known);
  /// As many files as a steady stream of large messages uses in turn (a file is reused a second after its message is
  /// over). At most an eighth of the process's descriptors, to leave the others to connections.
  static constexpr std::size_t kMaxOpen = 1024;
  std::size_t max_open_;
  static constexpr seconds kPeriod{900};
  static constexpr std::size_t kRemovedAtOnce = 8;  // an unlink of a large file can take milliseconds
  std::optional<SteadyTime> period_began_;
  void make_room_to_open();
  /// How many files that are still open somewhere are skipped before a new one is made.
  static constexpr std::size_t kMaxBusy = 8;
};

}  // namespace pen::spool
