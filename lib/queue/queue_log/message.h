#pragma once
/// What the queue log stores of a message, and where: positions, logs, envelopes, delivery results.
///
/// The log does not look into payloads; what it must know itself (to list, to recover, to keep one
/// copy of a message) stands beside them.
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/queue/queue_log/ordinals.h"

namespace pen::queue_log {

/// A log's number: the journal, the hold log, then one log per retry interval, shortest first.
using LogId = std::uint32_t;
inline constexpr LogId kJournal = 0;
inline constexpr LogId kHold = 1;
inline constexpr LogId kFirstRetry = 2;

/// Where a record starts. `use` numbers the uses of segments, over all logs and restarts, upwards
/// from 1; within one log a later record has a higher position.
struct Position {
  std::uint64_t use = 0;
  std::uint32_t offset = 0;
  auto operator<=>(const Position&) const = default;
  PEN_FIELDS(use, offset)
};

/// Where an envelope record is.
struct Place {
  LogId log = kJournal;
  Position position;
  auto operator<=>(const Place&) const = default;
  PEN_FIELDS(log, position)
};

/// One version of a message as the caller gives it.
struct Envelope {
  std::string queue_id;
  std::uint32_t recipients = 0;  // ever; ordinals are 0 … recipients-1
  OrdinalSet remaining;          // recipients with something left to do
  WallTime arrived;
  std::uint64_t size = 0;  // of the content, bytes: for listings
  std::string sender;      // for listings and footers, empty for the null sender
  // of the remaining recipients, for footers; at most kMaxDomains are kept
  std::vector<std::string> domains;
  std::string payload;  // everything else; opaque
  // The payload names nothing outside the log. Kept in footers only, for the search for all that is named (Listed);
  // what is read back says false.
  bool self_contained = false;
  PEN_FIELDS(queue_id, recipients, remaining, arrived, size, sender, domains, payload)
};
inline constexpr std::size_t kMaxDomains = 32;  // a message to more is listed as "to many domains"

/// What a delivery record says: these recipients are done with (delivered or failed for good), and how.
struct DeliveryResult {
  OrdinalSet ordinals;
  std::string payload;  // opaque: the diagnostic, whether a report is owed
  PEN_FIELDS(ordinals, payload)
};

/// One version of a message as it is read back.
struct Stored {
  Place place;
  std::uint32_t generation = 0;  // counts replacement envelopes
  std::uint32_t epoch = 0;       // counts process starts
  WallTime appended;             // when this version was written
  WallTime due;                  // when its log's runner will reach it (appended + interval; the journal: appended)
  Envelope envelope;
  // recorded before a restart and not yet in the payload; the caller folds them into the next replacement.
  // `envelope.remaining` leaves their recipients out
  std::vector<DeliveryResult> results;
};

/// Enough to name a stored version without its payload: what footers and scans yield.
struct Listed {
  Place place;
  std::string queue_id;
  std::uint32_t generation = 0;
  WallTime appended;
  WallTime due;
  WallTime arrived;
  std::uint64_t size = 0;
  std::uint64_t remaining = 0;  // recipients
  std::string sender;
  std::vector<std::string> domains;
  bool active = false;          // being worked on
  bool later = false;           // this version was written after the scan began
  bool unmet = false;           // the message was taken after the first pass had looked through the journal
  bool self_contained = false;  // as its envelope said; false when that is not known
  std::uint32_t stored = 0;     // bytes of the version's record, or of its first part; 0: not read
};

/// What a scan does with a message while its replacement is not durable: its old version is what disk and memory agree
/// on, but it cannot be worked on. A listing for people wants it, work on messages comes back for the replacement.
enum class InTransit : std::uint8_t { left_out, shown };

}  // namespace pen::queue_log
