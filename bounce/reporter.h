#pragma once
/// Makes notices and enqueues them: what qmgr asks for in the bounce conversation.
///
/// Promise: `done` only after the notice is on stable storage, or when none is due (null sender, NOTIFY): qmgr then
///          forgets the report. Anything else: qmgr asks again later.
/// Thread:  the loop's.
/// Source:  RFC 3461-3464; lib/mail/dsn.h makes the text.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/intake/intake.h"
#include "lib/ipc/bounce.h"
#include "lib/ipc/content.h"
#include "lib/mail/dsn.h"

namespace pen::bounce {

/// A request that owns what it needs.
struct Request {
  ipc::bounce::Notify notify;  // inline_body empty
  ipc::Content content;
};

class Reporter {
 public:
  /// All must outlive the reporter. double_bounce: address whose mail never causes a notice.
  Reporter(intake::Intake& intake, mail::DsnSettings settings, std::string double_bounce,
           Random& random);
  async::Task<ipc::bounce::Notified> report(std::shared_ptr<Request> request);

 private:
  intake::Intake& intake_;
  mail::DsnSettings settings_;
  std::string double_bounce_;
  Random& random_;
};

}  // namespace pen::bounce
