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
/// Reuse:   when its message is over, a file is not removed: its blocks take the next content. What it held is cleared
///          first (its receiver may be somebody else's by now). A reference names file and use, so that a file with
///          another owner is never taken for the message's own.
/// Growth:  a file is made when none is free. Files left by a burst are removed after half an hour without need for
///          them.
/// Holders: a program that was given a descriptor may keep it, or a copy: it was writing when its qmgr died, it
///          gave up while a write was under way, it reads on, or an attacker has taken it over. So a file is leased
///          only when no process has it open, by the kernel's word (Files::only_here()); one that is still open
///          somewhere is skipped. A lease has an open file description of its own, of which the spool keeps no copy.
///          The readers of a message share one, so that a delivery costs no open(), until release(). Besides, a
///          reader compares read_header() before its first read and after its last, before it says "sent". Where the
///          file system cannot say which processes have a file open (NFS), each lease has a new file.
/// Orphans: files found at the start are not used before the orphan pass has ended: call referenced() for each message
///          of a queue_log::Scan, then sweep(). Until then new files are made, so that mail is accepted at once.
/// Thread:  one. lease() makes up to six system calls, open_to_read() up to three; the receivers do the writing.
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
#include "lib/queue/spool/files.h"
#include "lib/queue/spool/pool.h"

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
  /// A read-only descriptor. Errors: wrong_owner, errno.
  Result<Fd> open_to_read(BodyRef ref);
  /// The same with an open file description of its own, for tools: its offset is nobody else's.
  Result<Fd> open_apart(BodyRef ref);
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
  Result<Fd> create(FileNumber file);
  /// The file for a lease, whatever it held is cleared. nullopt: somebody has it open.
  Result<std::optional<Fd>> open_for_lease(const Pool::Leased& leased);
  /// Makes it large enough, and writes its use.
  Result<void> prepare(FileNumber number, const Fd& fd, std::uint64_t expected_size);
  std::uint32_t fresh_use();
  Result<void> grow(FileNumber number, int fd, std::uint64_t size, std::uint64_t needed);
  /// At most this many bytes of the file can still be hollow.
  void limit_hollow(FileNumber number, std::uint64_t most);
  std::optional<std::uint32_t> use_now(FileNumber file);
  static std::optional<Header> parse_header(std::string block);
  Result<std::optional<Header>> header_of(int fd);

  std::unique_ptr<Files> files_;
  std::uint64_t reserve_;
  std::function<std::uint64_t()> new_use_;
  Pool pool_;
  // Bytes that were reserved because clients declared them, and that no content has filled yet.
  std::unordered_map<FileNumber, std::uint64_t> hollow_;
  std::uint64_t all_hollow_ = 0;
  // Read-only descriptors, of which delivery programs get copies, until the message is over: at most max_open_.
  std::unordered_map<FileNumber, Fd> readers_;
  Result<Fd> reader_of(BodyRef ref, std::optional<Fd> known);
  /// As many files as a steady stream of large messages has in delivery. At most an eighth of the process's
  /// descriptors, to leave the others to connections.
  static constexpr std::size_t kMaxOpen = 1024;
  std::size_t max_open_;
  static constexpr seconds kPeriod{900};
  static constexpr std::size_t kRemovedAtOnce = 8;  // an unlink of a large file can take milliseconds
  std::optional<SteadyTime> period_began_;
  bool told_of_leases_ = false;
  /// How many files that are still open somewhere are skipped before a new one is made.
  static constexpr std::size_t kMaxBusy = 8;
};

}  // namespace pen::spool
