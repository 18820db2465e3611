#pragma once
/// The messages that are being worked on, bounded in number and bytes, and as many of their bodies as memory is for.
///
/// State:   the messages by number and by queue id, the bytes they take, the bodies kept (oldest first), the messages
///          with unpacked envelopes, and how many places are promised to new mail that is not durable yet.
/// Use:     add() after QueueLog::Work::start(), remove() after what ends the work; body_of() for the content of a
///          job or a report; pack() between two events.
/// Bounds:  has_room() says whether another message may come; bodies beyond ManagerOptions::body_bytes are dropped and
///          read again from the log. add() itself refuses nothing.
/// Owns:    the messages. A reference to one is good until remove().
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "qmgr/message.h"
#include "qmgr/surroundings.h"
#include "qmgr/tenant_shares.h"

namespace pen::qmgr {

class ActiveSet {
 public:
  explicit ActiveSet(const Surroundings& around);

  /// Numbers the message and takes it in.
  Active& add(std::unique_ptr<Active> message);
  /// What less urgent mail may have of the active set, in per cent: bulk mail, and that together with normal mail. The
  /// rest is for urgent mail, which so finds room whatever waits.
  static constexpr std::size_t kBulkShare = 40, kNotUrgentShare = 90;
  /// The name that mail of its class has among those shares.
  static std::string urgency_name(const mail::Envelope& envelope);
  TenantShares& urgencies() { return urgencies_; }
  const TenantShares& urgencies() const { return urgencies_; }
  /// Counts it against its tenant's share and that of its class, until it goes.
  void count(Active& m);
  TenantShares& tenants() { return tenants_; }
  const TenantShares& tenants() const { return tenants_; }
  /// The message goes, here and from the scheduler.
  void remove(Active& m);

  /// nullptr: not here (any more).
  Active* find(MessageNumber number);
  Active* find(std::string_view queue_id);
  const Active* find(std::string_view queue_id) const;
  /// Of a message that the scheduler knows: it is here.
  Active& at(MessageNumber number);

  bool has_room() const;
  /// A place for a message that is not durable yet. Each is given back, before the message is added.
  void promise_place() { ++promised_; }
  void give_back_place() { --promised_; }

  /// The content; empty: it lies in the spool. nullopt: the disk does not give it back; said in the log.
  std::optional<std::string> body_of(const Active& m) const;
  /// Writes the message as it stands to the journal, if there is space. Work on it goes on.
  void renew(Active& m);
  /// Packs the envelopes that were unpacked first, but for the last kUnpacked. Between two events only: it ends the
  /// life of references into them.
  void pack();
  static constexpr std::size_t kUnpacked = 256;

  std::size_t size() const { return messages_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t body_bytes() const { return body_bytes_; }

 private:
  void drop_body(Active& m);

  const Surroundings& around_;
  TenantShares tenants_, urgencies_;
  Unpacked unpacked_;
  std::unordered_map<MessageNumber, std::unique_ptr<Active>> messages_;
  std::unordered_map<std::string_view, Active*> by_id_;  // the messages own the ids
  MessageNumber next_number_ = 1;
  std::size_t promised_ = 0;
  std::size_t bytes_ = 0, body_bytes_ = 0;
  std::deque<MessageNumber> bodies_;  // kept, oldest first
};

}  // namespace pen::qmgr
