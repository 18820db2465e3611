#pragma once
/// New mail: refused at once, or appended to the journal, answered for when it is durable, and then admitted from
/// memory.
///
/// State:   the messages that are durable and not yet admitted; how many were accepted.
/// Use:     enqueue() is the receivers' event; admit() in each settle(), after the answers.
/// Rules:   the answer ok means that the message survives. What finds no room in the active set stays in the journal,
///          for its runner.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/who_may_talk.h"
#include "qmgr/acknowledgements.h"
#include "qmgr/active_set.h"
#include "qmgr/admission.h"
#include "qmgr/reports.h"
#include "qmgr/runners.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class NewMail {
 public:
  NewMail(const Surroundings& around, ActiveSet& active, Acknowledgements& acknowledgements, Reports& reports,
          Admission& admission, Runners& runners)
      : around_(around),
        active_(active),
        acknowledgements_(acknowledgements),
        reports_(reports),
        admission_(admission),
        runners_(runners) {}

  struct Origin {
    ipc::Carrier carrier = ipc::kAnyField;  // what its envelopes may have
    std::string_view session = {};          // that it came in, for events alone; empty: none
  };
  using Answer = std::function<void(ipc::enqueue::Outcome, std::string)>;
  /// answer is called once, in this call (refused) or when the message is durable. An envelope that discharges reports
  /// needs the permit that bounce got with the request for just them (docs/ipc.md, "Who may say what").
  void enqueue(mail::Envelope&& envelope, std::uint64_t permit, std::string_view inline_body, std::uint64_t spool_file,
               std::uint64_t spool_offset, Answer answer, const Origin& origin);
  /// The same of a message that the queue has already, on the disk: its receiver has had no answer.
  void take_again(const mail::Envelope& envelope, std::uint64_t permit, std::string_view inline_body,
                  std::uint64_t spool_file, const Answer& answer, const Origin& origin);
  /// Takes what is durable into the active set: no answer waits for that work.
  void admit();
  bool any_to_admit() const { return !durable_.empty(); }
  std::uint64_t accepted() const { return accepted_; }

 private:
  /// Why the message cannot be taken, whatever room there is; empty: it can.
  std::string refusal(const mail::Envelope& envelope, std::uint64_t permit, std::string_view inline_body,
                      std::uint64_t spool_file, const ipc::Carrier& carrier) const;
  /// A filter or a transport that no setting lets the program name; empty: there is none.
  std::string_view unnamed_way(const mail::Envelope& envelope, const ipc::Carrier& carrier) const;
  void appended(queue_log::QueueLog::Appended appended, std::unique_ptr<Active> fresh,
                std::vector<mail::Discharge> discharges, Answer answer);

  const Surroundings& around_;
  ActiveSet& active_;
  Acknowledgements& acknowledgements_;
  Reports& reports_;
  Admission& admission_;
  Runners& runners_;
  queue_log::Envelope record_;  // its memory serves the next one
  std::deque<std::unique_ptr<Active>> durable_;
  std::uint64_t accepted_ = 0;
};

}  // namespace pen::qmgr
