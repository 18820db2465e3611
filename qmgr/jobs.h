#pragma once
/// The jobs that delivery programs have in hand, and what becomes of their recipients.
///
/// State:   the jobs in hand: the message of each, and its recipients.
/// Use:     hand() and deferred() carry out the scheduler's actions; the rest are events of the
///          delivery programs.
/// Rules:   a recipient without a result in a job's answer is deferred. A job in hand when its
///          program died is tried again, at the second death alone; at the third its message is
///          held.
#include <string>
#include <unordered_map>

#include "qmgr/active_set.h"
#include "qmgr/rounds.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class Jobs {
 public:
  Jobs(const Surroundings& around, ActiveSet& active, Rounds& rounds)
      : around_(around), active_(active), rounds_(rounds) {}

  void hand(HandJob& a);
  void deferred(const DeferRecipients& a);

  // --- events ---
  void result(ipc::delivery::JobResult& result);
  void connection_closed(const ipc::delivery::ConnectionClosed& closed);
  /// The program died with this job in hand. Call before connection_closed() of its connection.
  void survived_death(JobNumber job);
  void transport_failed(const std::string& transport, const std::string& why);
  /// From now on a transport that is gone was asked to go: transport_failed() has no effect.
  void drain() { draining_ = true; }

 private:
  /// Passes to the scheduler what was said of these; what is not their fault is put off.
  /// What a refusal complains of goes slower. How long the source is blocked there; 0: it is not.
  seconds complain(const Active& m, JobNumber job, const Ordinals& mine, mail::DeliveryStatus& status);
  struct InHand {
    MessageNumber message = 0;
    Ordinals ordinals;
    bool soft = false;         // what is refused is tried again
    std::string group = {};    // of its next hop, where mail is sent from sources
    bool suppression = false;  // the suppression list hears of its failures
  };
  /// What a result says of the source that the mail was sent from.
  void learn_of_source(const InHand& job, const ipc::delivery::JobResult& result) const;
  /// What a host refused for good may be the address's fault.
  void tell_suppression(const Active& m, const Ordinals& mine, const mail::DeliveryStatus& status) const;
  ipc::delivery::Job job_of(const Active& m, HandJob& a) const;
  /// The sender that only these recipients see.
  static void set_sender(ipc::delivery::Job& job, const Active& m, bool rewritten);
  /// The job ends before a program had it, for a fault of this host.
  void cannot_hand(Active& m, const HandJob& a, std::string_view why);

  const Surroundings& around_;
  ActiveSet& active_;
  Rounds& rounds_;
  std::unordered_map<JobNumber, InHand> jobs_;
  bool draining_ = false;
};

}  // namespace pen::qmgr
