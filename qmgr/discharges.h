#pragma once
/// Notices that are in the queue from before a restart: which reports need not be asked for again
/// (docs/notices.md).
///
/// Use:     add() for every message that comes back from the log; before a report of a message that
///          was being worked on at the restart is asked for: look() in each settle() until known(),
///          then take().
/// State:   what each notice found so far discharges, by the queue id that it is about; how far the
///          queue was looked through. The look happens once, and only if somebody needs it.
/// Bounds:  kMost queue ids; beyond it a notice may be sent twice, none is lost.
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/queue/queue_log/scan.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Discharges {
 public:
  explicit Discharges(const Surroundings& around) : around_(around) {}

  /// A message of the queue, notice or not.
  void add(const mail::Envelope& message);
  /// Looks through a slice of the queue. True: all of it is known now.
  bool look();
  bool looking() const { return scan_ != nullptr; }
  bool known() const { return known_; }
  /// What notices of before the restart say about this message; they are forgotten here.
  std::vector<mail::Discharge> take(const std::string& queue_id);

 private:
  static constexpr std::size_t kMost = 100'000;
  bool may_be_notice(std::string_view sender) const;

  const Surroundings& around_;
  std::unordered_map<std::string, std::vector<mail::Discharge>> found_;
  std::unique_ptr<queue_log::Scan> scan_;
  bool known_ = false;
};

}  // namespace pen::qmgr
