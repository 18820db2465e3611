#pragma once
/// Conversation "queue": the tools look at the queue and act on it.
///
/// Answers stream: any number of Entry or Progress, then exactly one Done per request. Success is reported only after
/// the sync that makes it true. Rights go by the peer's uid (authorized_*_users); root and mail_owner may do all.
#include <string>
#include <variant>
#include <vector>

#include "lib/mail/envelope.h"

namespace pen::ipc::queue {

inline constexpr std::string_view kName = "queue";

enum class Place : std::uint8_t { incoming, active, deferred, hold };

// tool → qmgr
struct List {
  std::uint64_t request = 0;
  std::string site;      // only messages with a recipient in this domain; empty: all
  std::string queue_id;  // only this one; empty: all
  PEN_FIELDS(request, site, queue_id)
};
enum class Verb : std::uint8_t { remove, hold, release, requeue, expire, flush };
struct Act {
  std::uint64_t request = 0;
  Verb verb = Verb::flush;
  bool all = false;
  std::string site;                    // flush only: one destination
  std::vector<std::string> queue_ids;  // when not all and no site
  PEN_FIELDS(request, verb, all, site, queue_ids)
};
/// The content of one message, for pencat: answered by Content with a descriptor or inline, then Done.
struct Show {
  std::uint64_t request = 0;
  std::string queue_id;
  PEN_FIELDS(request, queue_id)
};
struct AskStatus {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};

// qmgr → tool
struct EntryRecipient {
  std::string address;
  std::string delay_reason;  // empty: none yet
  PEN_FIELDS(address, delay_reason)
};
struct Entry {
  std::uint64_t request = 0;
  Place place = Place::active;
  std::string queue_id;
  WallTime arrival{};
  std::uint64_t size = 0;
  std::string sender;
  std::vector<EntryRecipient> recipients;
  WallTime next_try{};  // deferred
  bool forced_expire = false;
  PEN_FIELDS(request, place, queue_id, arrival, size, sender, recipients, next_try, forced_expire)
};
struct Content {
  std::uint64_t request = 0;
  mail::Envelope envelope;
  std::uint64_t body_offset = 0;
  std::string_view inline_body;
  PEN_FIELDS(request, envelope, body_offset, inline_body)
};
struct Progress {
  std::uint64_t request = 0;
  std::uint64_t done = 0, total = 0;
  PEN_FIELDS(request, done, total)
};
struct StatusLine {
  std::string name, value;
  PEN_FIELDS(name, value)
};
struct Status {
  std::uint64_t request = 0;
  std::vector<StatusLine> lines;
  PEN_FIELDS(request, lines)
};
enum class Outcome : std::uint8_t { ok, not_found, denied, failed };
struct Done {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::uint64_t count = 0;  // messages acted on or listed
  std::string text;
  PEN_FIELDS(request, outcome, count, text)
};

using ToQmgr = std::variant<List, Act, Show, AskStatus>;
using FromQmgr = std::variant<Entry, Content, Progress, Status, Done>;

}  // namespace pen::ipc::queue
