#pragma once
/// Finds, after a start, which spool files no message in the queue owns; the spool uses those again.
///
/// Use:     OrphanPass pass(log, spool, body_of, missing);
///          while (…) switch (pass.step(50)) …           // in slices, beside all other work; after recovery
/// Rules:   a message that is missed loses its body. So versions in transit between two logs are looked at as well,
///          where anything cannot be read no file is used again, and each of the scan's two passes begins when what
///          was appended before it is written (Scan::settled()). New mail gets new files until the pass has ended.
/// Cost:    goes through the footers of the queue once, and reads the envelopes of which these do not say that they
///          name no file (queue_log::Envelope::self_contained): large messages; no message stays in memory.
/// Owns:    the scan. Log and spool must outlive it.
/// Source:  docs/spool.md.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/spool/spool.h"

namespace pen::qmgr {

class OrphanPass {
 public:
  /// The spool file that a stored message refers to, 0: none. nullopt: the message cannot be read.
  using BodyOf = std::function<std::optional<spool::BodyRef>(const queue_log::Stored&)>;
  /// The file of a message that is in the queue is not there.
  using Missing = std::function<void(const std::string& queue_id)>;
  OrphanPass(queue_log::QueueLog& log, spool::Spool& spool, BodyOf body_of, Missing missing);
  ~OrphanPass();

  enum class Step {
    more,       // call again
    unsettled,  // call again after the next commit; a flush was asked for
    ended,      // files without an owner are free
    given_up,   // gave_up() says why: the files found at start stay unused until the next one
  };
  /// Looks at up to `slice` messages.
  Step step(std::size_t slice);

  struct Figures {
    std::size_t found = 0;       // files there when the pass began, without a known owner
    std::size_t orphans = 0;     // of them without an owner; once it has ended
    std::size_t missing = 0;     // files that a message wants and that are not there
    std::uint64_t messages = 0;  // looked at
  };
  const Figures& figures() const { return figures_; }
  /// What ended the pass before its time.
  struct GaveUp {
    std::string queue_id;  // the message that cannot be read; empty: the scan of the queue log failed
    std::string why;
  };
  const GaveUp& gave_up() const { return gave_up_; }

 private:
  queue_log::QueueLog& log_;
  spool::Spool& spool_;
  BodyOf body_of_;
  Missing missing_;
  std::unique_ptr<queue_log::Scan> scan_;
  int passes_begun_ = 0;  // of the scan
  Figures figures_;
  GaveUp gave_up_;
};

}  // namespace pen::qmgr
