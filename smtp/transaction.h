#pragma once
/// One message at the peer: how far its commands and content have been sent, which replies are owed, and what each
/// recipient got. For Pipeline alone.
///
/// Pure.
#include <optional>
#include <vector>

#include "lib/base/time.h"
#include "lib/suite/ipc/delivery.h"
#include "smtp/peer.h"

namespace pen::smtp {

using ipc::delivery::Job;

struct JobDone {
  const Job* job = nullptr;
  std::vector<mail::DeliveryStatus> results;  // one per recipient, in order
  // One per recipient: beyond what the peer takes in a transaction (LIMITS), and others were taken. Empty: none was.
  std::vector<bool> rest = {};
  microseconds service_time{0};
  std::uint32_t connection_use = 1;  // how many transactions this connection has seen
  bool cut_short = false;            // the connection ended before the peer had answered all of it
  bool own_fault = false;            // what is deferred is so because of us: no other host would do better
};

struct Transaction {
  /// How far its commands have been sent.
  enum class At : std::uint8_t { queued, xforward, mail, rcpt, data, data_wait, content, sent };
  struct Recipient {
    enum class State : std::uint8_t { pending, accepted, settled } state = State::pending;
    mail::DeliveryStatus status;  // when settled
    bool rest = false;            // beyond RCPTMAX or RCPTDOMAINMAX
  };

  Transaction(std::uint64_t its_number, const Job* its_job, SteadyTime now)
      : number(its_number), job(its_job), recipients(its_job->recipients.size()), started(now) {}

  bool is_probe() const { return mail::is_probe(job->purpose); }
  bool all_settled() const { return settled == recipients.size(); }
  /// The first status counts.
  void settle(std::size_t recipient, const mail::DeliveryStatus& status);
  void settle_rest(const mail::DeliveryStatus& status);
  void settle_accepted(const mail::DeliveryStatus& status);
  /// All are settled; it gives its results away.
  JobDone done(SteadyTime now);

  std::uint64_t number = 0;
  const Job* job = nullptr;
  At at = At::queued;
  std::vector<Recipient> recipients;
  std::size_t next_xforward = 0;  // to send
  std::size_t next_rcpt = 0;
  std::size_t owed = 0;        // replies still to come, of any kind
  std::size_t final_owed = 0;  // of them, to end-of-data
  std::size_t accepted = 0;
  std::size_t settled = 0;
  std::size_t accepted_in_vain = 0;  // RCPT commands accepted although MAIL was refused
  bool mail_refused = false;
  bool dot_only = false;  // 354 without recipients: "." alone is owed or was sent
  bool by_421 = false;    // a 421 before end-of-data
  bool uses_bdat = false;
  bool to_seven_bit = false;  // 8-bit content for a peer without 8BITMIME
  bool in_flight = false;
  bool committed = false;
  bool written = false;
  SteadyTime started{};
  std::uint32_t use = 0;
};

}  // namespace pen::smtp
