#pragma once
/// Makes notices and enqueues them: what qmgr asks for in the bounce conversation.
///
/// Promise: `done` only after the notice is on stable storage, or when none is due (NOTIFY, or the postmaster's own):
///          qmgr then forgets the report. Anything else: qmgr asks again later.
/// Order:   the postmaster's copy is queued before the sender's notice, which alone discharges the report: a crash
///          between them makes a second copy, never a lost one. A sender's notice that cannot be queued does not: the
///          copy is remembered.
/// Thread:  the loop's.
/// Source:  RFC 3461-3464; lib/mail/dsn.h makes the text; docs/notices.md.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/bounce/from_config.h"
#include "lib/intake/derived.h"
#include "lib/ipc/bounce.h"
#include "lib/ipc/content.h"
#include "lib/mail/dsn.h"

namespace pen::bounce {

/// A request that owns what it needs.
struct Request {
  ipc::bounce::Notify notify;  // inline_body empty
  ipc::Content content;
};

/// Which copies the postmaster got of reports whose own notice is not queued yet, so that asking again makes no second
/// copy. In memory only: after a restart there may be a second one.
class CopiesMade {
 public:
  /// limit: bytes of memory, about.
  explicit CopiesMade(std::size_t limit = 16U << 20) : limit_(limit) {}
  /// A copy told of every recipient of this report.
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
  /// All must outlive the reporter. double_bounce: address whose mail never causes a notice.
  Reporter(intake::Intake& intake, mail::DsnSettings settings, std::string double_bounce, PostmasterCopies copies,
           intake::OwnMail own, Random& random);
  async::Task<ipc::bounce::Notified> report(std::shared_ptr<Request> request);

 private:
  mail::DsnRequest describe(const Request& request, bool failing_notice) const;
  /// Queue id of the new message.
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
