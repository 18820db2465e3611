#pragma once
/// Lists every message that lives, a slice at a time: what penqueue, pensuper and the spool's orphan pass read.
///
/// Use:     auto scan = log.scan();
///          while (!scan->done()) { auto some = scan->step(500); … let the loop turn … }
///          auto some = log.find({id})                       // the same for a few ids: segments whose filter says that
///                                                           // they hold none of them are passed over
/// Order:   journal, hold log, retry logs, then what each of them got meanwhile (Listed::later tells which versions
///          were written after the scan began). A message that moves while the scan runs may be seen twice (by its
///          id), and is not missed. Replacements not yet handed to the writer are shown once they are; scan() asks for
///          that (flush).
/// Cost:    reads the index records of segments and the garbage marks of their envelopes, not the envelopes; what
///          follows the last index record of a segment being appended to, and segments that a crash ended, are read
///          whole. find(): two small reads for each segment that holds none of the ids, 4 bytes for each envelope of
///          that id.
/// Bounds:  one footer chunk and one record in memory.
/// Lifetime: the log outlives the scan. Recovery need not have ended, but then versions may show that it will drop.
/// Errors:  io_error.
#include <memory>
#include <vector>

#include "lib/queue/queue_log/queue_log.h"

namespace pen::queue_log {

class Scan {
 public:
  ~Scan();
  /// The next entries; at most `max`, and after looking at about 4 × max records even if none lives.
  Result<std::vector<Listed>> step(std::size_t max);
  bool done() const;
  /// It looks for what moved meanwhile: every message that was there when the first pass ended was shown. A step() ends
  /// where the second pass begins.
  bool second_pass() const;
  /// Whether everything that was appended before this pass began is written. A replacement that is not yet is not
  /// shown, nor (left_out) is the version before it: a caller that must not miss one flushes and waits for commits
  /// until this is true, before the first step() and again when the second pass begins.
  bool settled() const;
  /// Segments looked through and to look through so far known: for progress bars.
  struct Progress {
    std::size_t done = 0;
    std::size_t of = 0;
  };
  Progress progress() const;

 private:
  friend class QueueLog;
  struct Impl;
  explicit Scan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::queue_log
