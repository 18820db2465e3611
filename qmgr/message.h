#pragma once
/// A message in the active set, and what of it is stored as the payload of a queue-log envelope.
///
/// The payload is opaque to the queue log: the mail envelope, what is known of each recipient (why it was deferred,
/// what failed and is still to be reported) and the small body, so that one record is the whole message.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/codec.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/queue_log/message.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr {

/// What is known of one recipient beyond its address.
struct Note {
  std::uint32_t ordinal = 0;
  mail::DeliveryStatus status;
  WallTime when{};
  // reports due to the sender: mail::notify::kFailure, kSuccess
  std::uint8_t owed = 0;
  PEN_FIELDS(ordinal, status, when, owed)
};

/// Payload of queue_log::DeliveryResult.
struct ResultPayload {
  std::vector<Note> notes;
  PEN_FIELDS(notes)
};

/// How often a delivery program ended with this recipient in hand; forgotten when one answers for it.
struct Deaths {
  std::uint32_t ordinal = 0;
  std::uint8_t count = 0;
  PEN_FIELDS(ordinal, count)
};
// A job in hand at two deaths of its program runs alone; at three its message is held.
inline constexpr std::uint8_t kDeathsAlone = 2;
inline constexpr std::uint8_t kDeathsHeld = 3;

/// What the queue log keeps of a message: its envelope, what is known of its recipients, its body or where that lies.
struct StoredPayload {
  mail::Envelope envelope;
  std::vector<Note> notes;
  bool forced_expire = false;
  std::uint64_t spool_file = 0;    // 0: inline
  std::uint64_t spool_offset = 0;  // where the content starts
  std::string_view inline_body;
  std::vector<Deaths> deaths;
  PEN_FIELDS(envelope, notes, forced_expire, spool_file, spool_offset, inline_body, deaths)
};

struct Active {
  MessageNumber number = 0;
  mail::Envelope envelope;
  queue_log::Place place;
  std::uint32_t generation = 0;
  queue_log::OrdinalSet remaining;
  std::size_t outstanding = 0;  // recipients at the scheduler
  std::size_t syncing = 0;      // results whose records are not yet durable
  std::map<std::uint32_t, Note> notes;
  std::unordered_map<std::uint32_t, std::string> rewritten;  // by the transport table, this round
  // of programs, while this recipient was in hand
  std::unordered_map<std::uint32_t, std::uint8_t> deaths;
  std::string body;
  bool body_kept = true;
  std::uint64_t spool_file = 0, spool_offset = 0;
  std::size_t bytes = 0;  // counted against the bounds of the active set
  WallTime active{};
  bool recovered = false;  // owed reports may have been discharged before the restart
  bool reporting = false;
  bool report_refused = false;  // this round: the bounce program could not take the report
  bool forced_expire = false;
  enum class Order : std::uint8_t { none, remove, hold, requeue } order = Order::none;
  std::vector<std::function<void(bool)>> ordered_by;  // tools that wait for the order

  const std::string& id() const { return envelope.queue_id; }
  bool owes() const {
    for (const auto& [ordinal, n] : notes) {
      if (n.owed != 0) return true;
    }
    return false;
  }
};

/// The queue-log envelope of a message as it stands. body: for the payload (the caller has it at hand).
queue_log::Envelope to_log(const Active& m, std::string_view body);
/// A new message.
queue_log::Envelope to_log(const mail::Envelope& envelope, std::string_view body,
                           std::uint64_t spool_file, std::uint64_t spool_offset);
/// The message behind a stored version; nullptr: the payload is damaged.
std::unique_ptr<Active> from_log(queue_log::Stored&& stored);
/// The spool file of a stored version, 0: its body is in it. nullopt: the payload is damaged.
std::optional<std::uint64_t> spool_file_of(const queue_log::Stored& stored);

}  // namespace pen::qmgr
