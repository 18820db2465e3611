#pragma once
/// A message in the active set, and how it comes from the queue log and goes back there (payload.h).
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/link.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/queue/queue_log/message.h"
#include "qmgr/payload.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {

struct Active;

/// The messages with unpacked envelopes, in the order in which they were unpacked. Must outlive them.
struct Unpacked {
  struct Entry : Link {
    explicit Entry(const Active* owner) : message(owner) {}
    const Active* message;
  };
  Link messages;
  std::size_t count = 0;
  /// Only while there is one.
  const Active& first() const { return *static_cast<const Entry*>(messages.next)->message; }
};

/// Twenty thousand of these wait when the active set is full: what a message rarely has lies apart, and the envelope
/// of one that nobody works with is kept packed, in its encoded form, which takes a quarter.
struct Active {
  Active() = default;
  ~Active();
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;

  /// The reference is good until pack().
  const mail::Envelope& envelope() const;
  void set_envelope(mail::Envelope envelope);
  /// A message that was traced is from now on one like any other: its sender has the report.
  void end_trace();
  /// For a message that goes no further.
  mail::Envelope take_envelope();
  /// From now on the message is listed while its envelope is unpacked. Those with many recipients never are: they
  /// would be unpacked for each.
  void keep_in(Unpacked& unpacked);
  void pack();
  static constexpr std::size_t kPackRecipients = 20;

  MessageNumber number = 0;
  queue_log::Place place;
  std::uint32_t generation = 0;
  queue_log::OrdinalSet remaining;
  std::uint64_t replacement_bytes = 0;  // of a new message, for QueueLog::Work::start()
  std::size_t outstanding = 0;          // recipients at the scheduler
  std::size_t syncing = 0;              // results with records that are not yet durable
  std::map<std::uint32_t, Note> notes;
  std::string body;
  std::uint64_t spool_file = 0, spool_offset = 0;
  std::size_t bytes = 0;  // counted against the bounds of the active set
  WallTime active{};
  bool body_kept = true;
  bool recovered = false;  // owed reports may have been discharged before the restart
  bool restarted = false;  // it was being worked on when qmgr ended: so may a warning
  bool reporting = false;
  bool report_refused = false;  // this round: the bounce program could not take the report
  // returned after the next try, however young; set by an order, and only reported when it is in the log
  bool forced_expire = false;
  bool expiring = false;  // it is too old, and that was reported
  bool parked = false;    // put off to make room: its age does not count for how long
  // it is parked because its tenant, or its class, has its share of the active set, or because its time has not come
  enum class WaitsFor : std::uint8_t { nothing, tenant, urgency, release } waits_for = WaitsFor::nothing;
  bool waits_for_share() const { return waits_for == WaitsFor::tenant || waits_for == WaitsFor::urgency; }
  bool counted = false;  // against these shares
  enum class Order : std::uint8_t { none, remove, hold, requeue, expire } order = Order::none;

  struct Rare {
    std::unordered_map<std::uint32_t, std::string> rewritten;  // by the transport table, this round
    // of programs, while this recipient was in hand
    std::unordered_map<std::uint32_t, std::uint8_t> deaths;
    std::vector<std::function<void(bool)>> ordered_by;  // tools that wait for the order
    std::string orderer;                                // the user who gave the order, for events
    std::string rewritten_sender;                       // SRS, this round: of mail that is forwarded from here
  };
  /// To change it.
  Rare& rare();
  /// To look at it.
  const Rare& seldom() const;

  const std::string& id() const { return id_; }
  /// Which try of the message this is, from 1 on: each version that the queue log got of it counts as one, also when
  /// it was on hold, and what a restart cut short.
  std::uint32_t attempt() const { return generation + 1; }
  /// The message cannot end before a report is made. (A warning may be given up.)
  bool owes() const {
    for (const auto& [ordinal, n] : notes) {
      if ((n.owed & (mail::notify::kFailure | mail::notify::kSuccess | kFirstTry)) != 0) return true;
    }
    return false;
  }

 private:
  void list() const;
  std::string id_;
  std::string packed_;  // when envelope_ is not there
  mutable std::unique_ptr<mail::Envelope> envelope_;
  mutable Unpacked::Entry unpacked_{this};
  Unpacked* unpacked_in_ = nullptr;
  std::unique_ptr<Rare> rare_;
};

/// The queue-log envelope of a message as it stands. body: for the payload (the caller has it at hand).
queue_log::Envelope to_log(const Active& m, std::string_view body);
/// The recipients of a new message that are left to deliver to, and what is known already: recipients that became
/// others are expanded.
struct Beginning {
  queue_log::OrdinalSet remaining;
  std::vector<Note> notes;
};
Beginning beginning_of(const mail::Envelope& envelope, WallTime now);
/// A new message, into `out`: its memory is used again.
void to_log(const mail::Envelope& envelope, const Beginning& beginning, std::string_view body, std::uint64_t spool_file,
            std::uint64_t spool_offset, queue_log::Envelope& out);
/// The message behind a stored version; nullptr: the payload is damaged.
std::unique_ptr<Active> from_log(queue_log::Stored&& stored);
/// Before when a stored version is not to be sent; the epoch: it may be sent.
WallTime release_of(const queue_log::Stored& stored);
/// The spool file of a stored version, 0: its body is in it. nullopt: the payload is damaged.
std::optional<std::uint64_t> spool_file_of(const queue_log::Stored& stored);

}  // namespace pen::qmgr
