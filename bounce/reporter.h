#pragma once
/// Makes notices and enqueues them: what qmgr asks for in the bounce conversation.
///
/// Promise: `done` is answered only after the notice is on stable storage, or if none is due (NOTIFY, or the
///          postmaster's own); qmgr then forgets the report. After any other answer qmgr asks again later.
/// Order:   the postmaster's copy is queued before the sender's notice, because only the latter settles the report: a
///          crash between them makes a second copy, but loses none. While a sender's notice cannot be queued,
///          CopiesMade remembers the copy.
/// Thread:  the loop's.
/// Source:  RFC 3461-3464; lib/mail/dsn.h makes the text; docs/notices.md.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/mail/dsn.h"
#include "lib/meaning/bounce/from_config.h"
#include "lib/receive/intake/derived.h"
#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/content.h"

namespace pen::bounce {

/// A request with its content.
struct Request {
  ipc::bounce::Notify notify;  // inline_body empty
  ipc::Content content;
};

/// Remembers which copies the postmaster got of reports before their notices are queued, so that a repeated request
/// makes no second copy. It is lost at a restart: then there may be a second copy.
class CopiesMade {
 public:
  /// limit: bytes of memory, approximately.
  explicit CopiesMade(std::size_t limit = 16U << 20) : limit_(limit) {}
  /// True: a copy covered every recipient of this report.
  bool has(const ipc::bounce::Notify& notify) const;
  void add(const ipc::bounce::Notify& notify);
  void forget(const ipc::bounce::Notify& notify);
  /// Bytes, as the limit counts them.
  std::size_t held() const { return held_; }

 private:
  using Key = std::pair<std::string, ipc::bounce::Kind>;   // queue id
  using Made = std::map<Key, std::vector<std::uint32_t>>;  // ordinals, ascending
  static Key key(const ipc::bounce::Notify& notify);
  static std::size_t cost(const std::vector<std::uint32_t>& ordinals);
  void drop(Made::iterator which);

  std::size_t limit_, held_ = 0;
  Made made_;
};

class Reporter {
 public:
  /// All must outlive the reporter. double_bounce: mail from this address never causes a notice.
  Reporter(intake::Intake& intake, mail::DsnSettings settings, std::string double_bounce, PostmasterCopies copies,
           intake::OwnMail own, Random& random);
  async::Task<ipc::bounce::Notified> report(std::shared_ptr<Request> request);

 private:
  mail::DsnRequest describe(const Request& request, bool failing_notice) const;
  /// Returns the queue id of the new message.
  async::Task<Result<std::string>> queue(std::shared_ptr<Request> request, mail::DsnRequest dsn,
                                         std::vector<mail::Discharge> discharges);

  intake::Intake& intake_;
  mail::DsnSettings settings_;
  std::string double_bounce_;
  PostmasterCopies copies_;
  intake::OwnMail own_;
  Random& random_;
  CopiesMade copies_made_;
};

}  // namespace pen::bounce
