#pragma once
/// Conversation "queue": the tools look at the queue and act on it.
///
/// Answers stream: any number of Entry or Progress, then exactly one Done per request. Success is reported only after
/// the sync that makes it true. Rights go by the peer's uid (authorized_*_users); root and mail_owner may do all.
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/mail/queue_id.h"

namespace pen::ipc::queue {

inline constexpr std::string_view kName = "queue";

/// maildrop: submitted, and not yet taken into the queue. Shown unless a filter leaves it out; the one order that may
/// be given there is to remove, and only where the filter names the place.
enum class Place : std::uint8_t { incoming, active, deferred, hold, maildrop };
/// Their names, as people write and read them.
inline constexpr std::string_view kPlaceNames[] = {"incoming", "active", "deferred", "hold", "maildrop"};
inline std::string_view name_of(Place place) {
  const auto i = static_cast<std::size_t>(place);
  return i < std::size(kPlaceNames) ? kPlaceNames[i] : "unknown";
}

inline constexpr std::uint8_t bit_of(Place place) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(place));
}

/// Which messages a request is about: every condition that is set must hold. Case does not matter. Conditions on a
/// recipient must hold for one and the same recipient that is left.
struct Filter {
  std::string sender;       // an address, "@domain", or "<>": the null sender
  std::string recipient;    // an address or "@domain"
  std::string domain;       // of a recipient
  seconds older{0};         // arrived at least that long ago
  std::string reply;        // part of the reason why a recipient waits
  std::uint8_t places = 0;  // bit_of(Place); 0: all
  std::string tenant;       // its bytes come after the request's others
  PEN_FIELDS(sender, recipient, domain, older, reply, places)
  bool operator==(const Filter&) const = default;
};
/// The revision (topology.h) from which on a queue manager knows Filter::tenant. To others a tool sends no such
/// request: they would take it to be about every tenant's mail.
inline constexpr std::uint32_t kTenantRevision = 2;
/// Ids in one request at most: a tool sends more as several requests.
inline constexpr std::size_t kMaxIds = 40'000;

// tool → qmgr
struct List {
  std::uint64_t request = 0;
  std::string site;                    // only messages with a recipient in this domain; empty: all
  std::string queue_id;                // only this one; empty: all
  std::vector<std::string> queue_ids;  // only these; empty: all
  Filter filter;
  bool brief = false;  // Entries with domains instead of recipients: what the footers know, many times as fast
  PEN_FIELDS(request, site, queue_id, queue_ids, filter, brief, filter.tenant)
};
/// expire: the message is tried once more and then returned to its sender, as if it had grown too old; one on hold
/// stays there, and is returned when it is released. expire_release: one on hold is released as well.
enum class Verb : std::uint8_t { remove, hold, release, requeue, expire, flush, expire_release };
inline constexpr bool expires(Verb verb) { return verb == Verb::expire || verb == Verb::expire_release; }
struct Act {
  std::uint64_t request = 0;
  Verb verb = Verb::flush;
  bool all = false;
  std::string site;                    // flush only: one destination
  std::vector<std::string> queue_ids;  // when not all and no site
  Filter filter;
  bool dry_run = false;  // an Entry, without recipients, for each message that would be acted on; nothing is done
  std::string by = {};   // the user who ordered it, where the tool acts for another; for events
  PEN_FIELDS(request, verb, all, site, queue_ids, filter, dry_run, filter.tenant, by)
};
/// The content of messages, for pencat: each is answered by Content with a descriptor or inline, in the order asked
/// for; then Done, with the count of messages. A damaged one is answered by an Entry with its `fault`; after
/// that, where the envelope can be read, comes a Content with neither descriptor nor inline body.
struct Show {
  std::uint64_t request = 0;
  std::string queue_id;
  std::vector<std::string> queue_ids;  // more of them
  PEN_FIELDS(request, queue_id, queue_ids)
};
struct AskStatus {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};
/// Which message each file of the spool belongs to: a SpoolFile each, in the order of their numbers; then Done, with
/// the count of files, not_found if none of those asked for is there.
struct ListSpool {
  std::uint64_t request = 0;
  std::vector<std::uint32_t> files;  // only these, at most kMaxIds; empty: all
  PEN_FIELDS(request, files)
};

/// For a copy of the queue while it is in use (docs/snapshot.md): from the first Freeze to Thaw, or to the end of the
/// conversation, no segment of the queue log and no file of the spool is used again; mail goes on, and the log grows.
/// Each Freeze is answered by LogEnds, or by Done with failed if what was frozen was used again because the disk is
/// full. Thaw is answered by Done. For root and mail_owner.
struct Freeze {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};
struct Thaw {
  std::uint64_t request = 0;
  PEN_FIELDS(request)
};

/// What happens to a message from now on, as it happens: Happened with the step `watched` first, then one for each
/// step, until the tool closes or sends anything, which is answered by Done and by nothing else. For users who may
/// list.
struct Watch {
  std::uint64_t request = 0;
  std::string queue_id;  // empty: every message
  PEN_FIELDS(request, queue_id)
};

/// A program that has not answered AskStatus by then hangs: so penstock health and penapi judge.
inline constexpr seconds kHangs{3};

// qmgr → tool
struct EntryRecipient {
  std::string address;
  std::string delay_reason;  // empty: none yet
  PEN_FIELDS(address, delay_reason)
};
/// One that is not tried any more: the notice to the sender is still to come.
struct BouncedRecipient {
  std::string address, original;
  std::string reason;
  PEN_FIELDS(address, original, reason)
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
  bool more = false;  // the next Entry holds more recipients of the same message
  std::vector<std::string>
      domains;  // of a brief one: of the recipients that were left when it was last written, 32 at most
  std::vector<std::string> originals;  // of the recipients, as they were given, in the same order
  std::vector<BouncedRecipient> bounced;
  // of a file in maildrop that is no whole message: why; queue_id is its name then, which may be anything.
  // In the answer to Show: what is damaged, and where
  std::string fault;
  std::string tenant;  // not of a brief one
  // Which try of the message is the next one, or the one under way, from 1 on (docs/events.md); 0: not said.
  std::uint32_t attempt = 0;
  std::uint64_t share_waits = 0;  // deferred: how many of its tenant's messages wait for a share of the active set
  std::int8_t priority = 0;       // this and the next one: not of a brief one
  WallTime release{};             // nothing is sent before; the epoch: it may be sent at once
  std::string signer;             // mail::MessageFacts::signer; not of a brief one
  PEN_FIELDS(request, place, queue_id, arrival, size, sender, recipients, next_try, forced_expire, more, domains,
             originals, bounced, fault, tenant, attempt, share_waits, priority, release, signer)
};
struct Content {
  std::uint64_t request = 0;
  mail::Envelope envelope;
  std::uint64_t body_offset = 0;
  std::string_view inline_body;
  bool more = false;            // only recipients; the next Content holds more of them, the last one everything else
  Place place = Place::active;  // where the message is
  PEN_FIELDS(request, envelope, body_offset, inline_body, more, place, envelope.tenant, envelope.priority,
             envelope.release, envelope.release_request, envelope.signer)
};
/// Of an order or a listing, a few times a second.
struct Progress {
  std::uint64_t request = 0;
  std::uint64_t done = 0, total = 0;  // segments of the queue log looked through, and in all
  std::uint64_t count = 0;            // messages acted on or listed so far
  PEN_FIELDS(request, done, total, count)
};
/// used: a message in the queue has it. leased: somebody is writing a message into it that is not in the queue yet.
/// freed: its message is over, and when the queue log has saved its positions it is free. unknown: damage keeps from
/// knowing.
enum class SpoolState : std::uint8_t { used, leased, freed, free, unknown };
struct SpoolFile {
  std::uint64_t request = 0;
  std::uint32_t number = 0;
  std::string path;
  std::uint64_t size = 0;
  SpoolState state = SpoolState::unknown;
  std::string queue_id;       // of the message that it belongs to; empty: to none
  std::uint64_t content = 0;  // bytes of that message's content
  std::string fault;          // why it cannot be read; empty: it can
  PEN_FIELDS(request, number, path, size, state, queue_id, content, fault)
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
/// How far each log is on stable storage.
struct LogEnd {
  std::int64_t interval = 0;  // of the log, as in the headers of its segments
  std::uint64_t use = 0;
  std::uint32_t offset = 0;
  PEN_FIELDS(interval, use, offset)
};
struct LogEnds {
  std::uint64_t request = 0;
  std::vector<LogEnd> logs;
  PEN_FIELDS(request, logs)
};
/// active: it is being worked on. handed: a delivery program has these recipients. delivered, deferred, failed: these
/// had their result; deferred ones are tried again, failed ones go back to the sender. waits: the round is over, and
/// it is tried again. expired: it was too old. held, released, requeued: an order. removed: its end, for
/// nobody is left; deleted: its end by an order. missed: so many were not reported, because the tool took none.
enum class Step : std::uint8_t {
  watched,
  active,
  handed,
  delivered,
  deferred,
  failed,
  waits,
  expired,
  held,
  released,
  requeued,
  removed,
  deleted,
  missed
};
inline constexpr std::size_t kMaxHappenedTo = 50;
struct Happened {
  std::uint64_t request = 0;
  WallTime time{};
  std::string queue_id = {};
  Step step = Step::watched;
  std::vector<std::string> recipients = {};  // the first kMaxHappenedTo
  std::uint64_t count = 0;                   // of recipients; of missed: steps
  std::string text = {};                     // what was replied, or said
  std::string where = {};                    // handed: "transport:next hop"
  WallTime next_try{};                       // waits
  PEN_FIELDS(request, time, queue_id, step, recipients, count, text, where, next_try)
};
/// not_found: none of the ids named is in the queue. One that is there and needs nothing (a flush of a message that
/// is being tried) is ok, and not counted.
enum class Outcome : std::uint8_t { ok, not_found, denied, failed, no_space };
struct Done {
  std::uint64_t request = 0;
  Outcome outcome = Outcome::ok;
  std::uint64_t count = 0;  // messages acted on or listed
  std::string text;
  PEN_FIELDS(request, outcome, count, text)
};

using ToQmgr = std::variant<List, Act, Show, AskStatus, ListSpool, Freeze, Thaw, Watch>;
using FromQmgr = std::variant<Entry, Content, Progress, Status, Done, SpoolFile, LogEnds, Happened>;

/// Whether each queue id in the answer is one. Tools look before they use it, for they make names of files of it, as
/// root too, and the queue manager may be wrong, or in somebody else's hands. A damaged message may have any name.
inline bool names_messages(const FromQmgr& answer) {
  if (const auto* e = std::get_if<Entry>(&answer)) return !e->fault.empty() || mail::is_queue_id(e->queue_id);
  if (const auto* c = std::get_if<Content>(&answer)) return c->more || mail::is_queue_id(c->envelope.queue_id);
  if (const auto* f = std::get_if<SpoolFile>(&answer)) return f->queue_id.empty() || mail::is_queue_id(f->queue_id);
  if (const auto* h = std::get_if<Happened>(&answer)) return h->queue_id.empty() || mail::is_queue_id(h->queue_id);
  return true;
}

}  // namespace pen::ipc::queue
