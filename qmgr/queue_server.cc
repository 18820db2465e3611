#include "qmgr/queue_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/queue/queue_log/id_filter.h"
#include "lib/queue/queue_log/scan.h"

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr std::size_t kSlice = 50;  // entries that are found at a time

constexpr int kLooks = 3;  // for what moved just when it was to be shown
constexpr std::size_t kMaxSeen =
    100'000;  // ids of messages that moved while a listing ran; beyond it one may be shown twice
constexpr std::size_t kEntryBytes = 512 * 1024;  // of recipients in one Entry: a frame holds 1 MiB

/// An Entry with perhaps more recipients than a frame holds: as many Entries as it takes.
class Parts {
 public:
  explicit Parts(Entry head) : entry_(std::move(head)) {}
  void add(EntryRecipient recipient, std::string original) {
    const auto bytes = recipient.address.size() + original.size() + recipient.delay_reason.size();
    entry_.recipients.push_back(std::move(recipient));
    entry_.originals.push_back(std::move(original));
    cut(bytes);
  }
  void add(BouncedRecipient recipient) {
    const auto bytes = recipient.address.size() + recipient.original.size() + recipient.reason.size();
    entry_.bounced.push_back(std::move(recipient));
    cut(bytes);
  }
  std::vector<Entry> take() {
    parts_.push_back(std::move(entry_));
    return std::move(parts_);
  }

 private:
  void cut(std::size_t more) {
    bytes_ += more + 8;
    if (bytes_ < kEntryBytes) return;
    entry_.more = true;
    parts_.push_back(entry_);
    entry_.more = false;
    entry_.recipients.clear();
    entry_.originals.clear();
    entry_.bounced.clear();
    bytes_ = 0;
  }
  Entry entry_;
  std::vector<Entry> parts_;
  std::size_t bytes_ = 0;
};

std::string envelope_fault(const queue_log::Listed& l, std::string_view why) {
  return fmt::format("its envelope is damaged, record {}:{} in penqueue --log: {}", l.place.position.use,
                     l.place.position.offset, why);
}
}  // namespace

Entry to_entry(const Active& m, Place place) {
  Entry e;
  e.place = place;
  e.queue_id = m.id();
  e.arrival = m.envelope().arrival;
  e.size = m.envelope().body.size;
  e.sender = m.envelope().sender;
  e.forced_expire = m.forced_expire;
  e.tenant = m.envelope().tenant;
  e.priority = m.envelope().priority;
  e.signer = m.envelope().signer;
  e.release = m.envelope().release;
  e.attempt = m.attempt();
  return e;
}

Entry to_entry(const queue_log::Listed& l) {
  Entry e;
  e.place = place_of(l);
  e.queue_id = l.queue_id;
  e.arrival = l.arrived;
  e.size = l.size;
  e.sender = l.sender;
  e.attempt = l.generation + 1;
  if (e.place == Place::deferred) e.next_try = l.due;
  return e;
}

Entry to_entry(const submission::Dropped& d) {
  Entry e;
  e.place = Place::maildrop;
  e.queue_id = d.name;
  e.arrival = d.arrival;
  e.size = d.size;
  if (d.submission) e.sender = d.submission->sender;
  e.fault = d.fault;
  return e;
}

QueueServer::QueueServer(async::Loop& loop, Manager& manager, Maildrop maildrop, bool orders_only,
                         std::function<std::vector<StatusLine>()> status, OpenBody open_body, spool::Spool* spool)
    : loop_(loop),
      watches_(loop),
      manager_(manager),
      maildrop_(std::move(maildrop)),
      orders_only_(orders_only),
      status_(std::move(status)),
      open_body_(std::move(open_body)),
      spool_(spool) {}

async::Task<void> QueueServer::serve(ipc::Opening opening, Right right, Guests::Guest* guest) {
  auto session = std::make_shared<Session>(std::move(opening), right);
  for (;;) {
    auto received = co_await session->channel.receive({.deadline = loop_.now() + kToolIdle});
    if (!received) {
      if (!received.error().is(async::WaitError::closed) && !received.error().is(async::WaitError::timed_out))
        log::warning("queue: {}", received.error().message());
      co_return;
    }
    // One request at a time per tool: what it asked first is answered first.
    if (auto* list = std::get_if<List>(&received->message)) {
      co_await handle(session, std::move(*list));
    } else if (auto* act = std::get_if<Act>(&received->message)) {
      if (guest != nullptr) co_await guest->begin();
      co_await handle(session, std::move(*act));
    } else if (auto* show = std::get_if<Show>(&received->message)) {
      co_await handle(session, std::move(*show));
    } else if (auto* ask = std::get_if<AskStatus>(&received->message)) {
      co_await handle(session, std::move(*ask));
    } else if (auto* files = std::get_if<ListSpool>(&received->message)) {
      co_await handle(session, std::move(*files));
    } else if (auto* freeze = std::get_if<Freeze>(&received->message)) {
      co_await handle(session, *freeze);
    } else if (auto* thaw = std::get_if<Thaw>(&received->message)) {
      co_await handle(session, *thaw);
    } else if (auto* watch = std::get_if<Watch>(&received->message)) {
      co_await handle(session, std::move(*watch));
    }
    if (guest != nullptr) guest->end();
    if (!co_await session->channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
}

async::Task<Walks::Turn> QueueServer::walk_turn() {
  for (;;) {
    const auto wait = walks_.wait(loop_.clock().now(), manager_.commits());
    if (wait <= std::chrono::nanoseconds(0)) break;
    (void)co_await loop_.sleep(wait);
  }
  co_return Walks::Turn(loop_.clock().now());
}

bool QueueServer::tell(Session& s, Course& course) {
  if (loop_.now() - course.told >= kProgressEvery) {
    course.told = loop_.now();
    (void)s.channel.send(course.is);
  }
  return s.channel.is_open();
}

async::Task<bool> QueueServer::report(Session& s, Course& course) {
  (void)tell(s, course);
  if (s.channel.congested() && !co_await s.channel.flush({.deadline = loop_.now() + seconds(300)})) co_return false;
  co_return s.channel.is_open();
}

async::Task<bool> QueueServer::settle(Session& s, Course& course, const queue_log::Scan& scan) {
  while (!scan.settled()) {
    co_await next_commit();
    if (!co_await report(s, course)) co_return false;
  }
  co_return true;
}

async::Task<void> QueueServer::next_commit() {
  auto committed = std::make_shared<async::Event>(loop_);
  manager_.after_commit([committed] { committed->set(); });
  (void)co_await committed->wait({.deadline = loop_.now() + kProgressEvery});
}

async::Task<Result<void>> QueueServer::each(Session& s, const List& m, std::vector<std::string> ids, Shown& shown,
                                            See see) {
  for (int looks = 0;; ++looks) {
    auto missed = co_await look(s, m, std::move(ids), shown, see);
    if (!missed) co_return std::unexpected(std::move(missed).error());
    if (missed->empty() || looks == kLooks) co_return Result<void>{};
    ids = *std::move(missed);
  }
}

async::Task<Result<std::vector<std::string>>> QueueServer::look(Session& s, const List& m, std::vector<std::string> ids,
                                                                Shown& shown, const See& see) {
  // Before the scan begins: what moves between its beginning and its first step might not be met.
  Walks::Turn turn = co_await walk_turn();
  Course course(m.request, loop_.now());
  std::optional<WallTime> second;
  const std::size_t wanted = ids.size();
  auto scan = manager_.find_stored(std::move(ids), queue_log::InTransit::shown);
  // Besides what was shown: those that may move while the scan runs, the active ones.
  auto& seen = shown.ids;
  std::unordered_set<std::string> moved;  // while the first pass came to them: the second one has them, if they live
  std::vector<std::string> missed;        // the same in the second pass
  std::size_t found = 0;
  const auto may_go_on = [&] { return !scan->done() && (wanted == 0 || found < wanted); };
  while (may_go_on()) {
    if (scan->second_pass() && !second) second = loop_.clock().wall_now();
    auto some = scan->step(kSlice);
    if (!some) co_return fail(std::move(some).error());
    const auto progress = scan->progress();
    course.is = {m.request, progress.done, progress.of, shown.count};
    (void)tell(s, course);
    for (const auto& l : *some) {
      // A version of the second pass: the one before it was shown by the first pass, where it was.
      const bool again = l.later && second && !l.unmet && l.appended >= *second;
      if (again && !moved.contains(l.queue_id)) continue;
      const bool moves = l.active || manager_.find(l.queue_id) != nullptr;
      const std::uint64_t hash = queue_log::IdFilter::hash(l.queue_id);
      if (seen.contains(hash)) continue;
      const Seen did = co_await see(l);
      if (did == Seen::gone) {
        end_turn(turn);
        co_return std::vector<std::string>{};
      }
      if (did == Seen::moved) {
        if (second && missed.size() < kMaxSeen) missed.push_back(l.queue_id);
        if (!second && moved.size() < kMaxSeen) moved.insert(l.queue_id);
      } else {
        if ((moves || wanted != 0) && seen.size() < kMaxSeen) seen.insert(hash);
        ++found;
      }
      if (turn.over(loop_.clock().now())) {
        end_turn(turn);
        co_await loop_.next_turn();
        turn = co_await walk_turn();
      }
    }
    if (turn.over(loop_.clock().now()) && may_go_on()) {  // also when it passes over everything
      end_turn(turn);
      co_await loop_.next_turn();
      turn = co_await walk_turn();
    } else {
      co_await loop_.yield();
    }
  }
  end_turn(turn);
  co_return missed;
}

QueueServer::Seen QueueServer::unread(Session& s, std::uint64_t request, const queue_log::Listed& l, const Error& why,
                                      std::uint64_t& count) {
  if (why.is(queue_log::QueueLogError::not_found)) return Seen::moved;
  ++count;
  return tell_fault(s, request, l, envelope_fault(l, why.message())) ? Seen::yes : Seen::gone;
}

/// What footers know of the message is enough; its envelope is read only if the filter asks for it.
async::Task<QueueServer::Seen> QueueServer::list_briefly(Session& s, const List& m, const QueueFilter& filter,
                                                         const queue_log::Listed& l, std::uint64_t& count) {
  const auto answer = filter.footer(l);
  if (answer == QueueFilter::Answer::no) co_return Seen::yes;
  if (answer == QueueFilter::Answer::ask) {
    const Active* message = manager_.find(l.queue_id);
    std::unique_ptr<Active> read;
    if (message == nullptr) {
      auto stored = manager_.log().runners().read(l.place);
      if (!stored) co_return unread(s, m.request, l, stored.error(), count);
      read = from_log(*std::move(stored));
      message = read.get();
    }
    if (message == nullptr || !filter.envelope(*message)) co_return Seen::yes;
  }
  Entry e = to_entry(l);
  e.request = m.request;
  e.domains = l.domains;
  ++count;
  if (auto sent = s.channel.send(e); !sent) log::warning("queue: {}: {}", l.queue_id, sent.error().message());
  co_return !s.channel.congested() || co_await s.channel.flush({.deadline = loop_.now() + seconds(300)}) ? Seen::yes
                                                                                                         : Seen::gone;
}

async::Task<QueueServer::Seen> QueueServer::list_one(Session& s, const List& m, const QueueFilter& filter,
                                                     const queue_log::Listed& l, std::uint64_t& count) {
  if (filter.footer(l) == QueueFilter::Answer::no) co_return Seen::yes;
  std::unique_ptr<Active> read;
  const Active* message = manager_.find(l.queue_id);
  Entry e;
  if (message != nullptr) {
    if (!filter.envelope(*message)) co_return Seen::yes;
    e = to_entry(*message, Place::active);
  } else {
    auto stored = manager_.log().runners().read(l.place);
    if (!stored) co_return unread(s, m.request, l, stored.error(), count);
    read = from_log(*std::move(stored));
    if (!read || !filter.envelope(*read)) co_return Seen::yes;
    message = read.get();
    e = to_entry(*message, place_of(l));
    e.next_try = l.due;
    if (e.place == Place::deferred) e.share_waits = manager_.share_waits(e.tenant);
    if (e.place == Place::deferred && e.tenant.empty()) e.share_waits = manager_.urgency_waits(*message);
  }
  e.request = m.request;
  ++count;
  // Taken down before the first wait: an active message may end meanwhile.
  Parts parts(std::move(e));
  for (const auto& range : message->remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      const mail::Recipient& recipient = message->envelope().recipients[i];
      const auto note = message->notes.find(i);
      parts.add({recipient.address, note == message->notes.end() ? std::string() : note->second.status.text},
                recipient.shown_original());
    }
  }
  for (const auto& [ordinal, note] : message->notes) {
    if ((note.owed & mail::notify::kFailure) == 0 || message->remaining.contains(ordinal)) continue;
    const mail::Recipient& recipient = message->envelope().recipients[ordinal];
    parts.add({recipient.address, recipient.shown_original(), note.status.text});
  }
  read.reset();
  co_return co_await send(s, parts.take()) ? Seen::yes : Seen::gone;
}

/// false: the tool is gone.
async::Task<bool> QueueServer::send(Session& s, std::vector<Entry> parts) {
  for (const Entry& part : parts) {
    if (auto sent = s.channel.send(part); !sent) log::warning("queue: {}: {}", part.queue_id, sent.error().message());
    if (s.channel.congested() && !co_await s.channel.flush({.deadline = loop_.now() + seconds(300)})) co_return false;
  }
  co_return true;
}

async::Task<bool> QueueServer::list_dropped(Session& s, const List& m, const QueueFilter& filter,
                                            const submission::Dropped& d, Shown& shown) {
  if (!filter.dropped(d)) co_return true;
  if (shown.ids.size() < kMaxSeen) shown.ids.insert(queue_log::IdFilter::hash(d.name));
  ++shown.count;
  Entry e = to_entry(d);
  e.request = m.request;
  if (m.brief && d.submission) {
    for (const mail::Recipient& r : d.submission->recipients) {
      const std::string_view domain = domain_of(r.address);
      if (e.domains.size() >= queue_log::kMaxDomains) break;
      if (std::ranges::none_of(e.domains, [&](const auto& x) { return iequals(x, domain); }))
        e.domains.emplace_back(domain);
    }
  }
  Parts parts(std::move(e));
  if (!m.brief && d.submission) {
    for (const mail::Recipient& r : d.submission->recipients) parts.add({r.address, {}}, r.shown_original());
  }
  co_return co_await send(s, parts.take());
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, List m) {
  if (!s->right.list) {
    (void)s->channel.send(Done{m.request, Outcome::denied, 0, kMayNotList});
    co_return;
  }
  co_await recovered();  // what is being worked on is not known before
  Shown shown;
  std::vector<std::string> ids = m.queue_ids;
  if (!m.queue_id.empty()) ids.push_back(m.queue_id);
  const bool by_id = !ids.empty();
  const QueueFilter filter(m.filter, m.site, loop_.clock().wall_now());
  Result<void> all;
  if (filter.covers(Place::maildrop)) {
    all = co_await maildrop_.each(ids, [this, &s, &m, &filter, &shown](const submission::Dropped& d) {
      return list_dropped(*s, m, filter, d, shown);
    });
    std::erase_if(ids, [&](const std::string& id) { return shown.ids.contains(queue_log::IdFilter::hash(id)); });
  }
  if (filter.covers_queue() && (!by_id || !ids.empty())) {
    const See see = [this, &s, &m, &filter, &shown](const queue_log::Listed& l) {
      return m.brief ? list_briefly(*s, m, filter, l, shown.count) : list_one(*s, m, filter, l, shown.count);
    };
    auto queued = co_await each(*s, m, ids, shown, see);
    std::erase_if(ids, [&](const std::string& id) { return shown.ids.contains(queue_log::IdFilter::hash(id)); });
    if (by_id && queued && !ids.empty()) {
      // Nothing is said not to be there because its receiver's word is read, or its record written, a moment later.
      co_await loop_.next_turn();
      const auto now = manager_.find_stored({});
      Course course(m.request, loop_.now());
      if (!co_await settle(*s, course, *now)) co_return;
      queued = co_await each(*s, m, std::move(ids), shown, see);
    }
    if (all) all = std::move(queued);
  }
  Done done{m.request, Outcome::ok, shown.count, {}};
  if (!all) {
    done.outcome = Outcome::failed;
    done.text = all.error().message();
  } else if (by_id && shown.count == 0) {
    done.outcome = Outcome::not_found;
  }
  (void)s->channel.send(done);
}

Result<void> QueueServer::tell_fault(Session& s, std::uint64_t request, const queue_log::Listed& l, std::string what) {
  Entry e = to_entry(l);
  e.request = request;
  e.fault = std::move(what);
  return s.channel.send(e);
}

/// Damage is reported, and what there is of the message is shown. false: it is not there any more. Errors: of the
/// channel.
Result<bool> QueueServer::show_one(Session& s, std::uint64_t request, const queue_log::Listed& l) {
  const auto no_envelope = [&](std::string_view why) -> Result<bool> {
    PEN_TRY(tell_fault(s, request, l, envelope_fault(l, why)));
    return true;
  };
  auto stored = manager_.log().runners().read(l.place);
  if (!stored && stored.error().is(queue_log::QueueLogError::not_found)) return false;
  if (!stored) return no_envelope(stored.error().message());
  auto message = from_log(*std::move(stored));
  if (!message) return no_envelope("a whole record with no envelope in it");
  std::vector<Fd> fds;
  if (message->spool_file != 0) {
    auto fd = open_body_(message->spool_file, message->id());
    if (fd)
      fds.push_back(*std::move(fd));
    else
      PEN_TRY(tell_fault(s, request, l, "its content cannot be opened: " + fd.error().message()));
  }
  Content content{request, {}, message->spool_offset, message->body, false, place_of(l)};
  auto& recipients = content.envelope.recipients;
  std::size_t bytes = 0;
  mail::Envelope envelope = message->take_envelope();
  for (auto& r : std::exchange(envelope.recipients, {})) {
    bytes += r.address.size() + r.original.size() + r.orcpt.size() + 16;
    recipients.push_back(std::move(r));
    if (bytes < kEntryBytes) continue;
    Content part{request, {}, 0, {}, true, place_of(l)};
    part.envelope.queue_id = message->id();
    part.envelope.recipients = std::exchange(recipients, {});
    PEN_TRY(s.channel.send(part));
    bytes = 0;
  }
  auto rest = std::exchange(recipients, {});
  content.envelope = std::move(envelope);
  content.envelope.recipients = std::move(rest);
  PEN_TRY(s.channel.send(content, fds));
  return true;
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Show m) {
  Done done{m.request, Outcome::not_found, 0, {}};
  std::vector<std::string> ids = std::move(m.queue_ids);
  if (!m.queue_id.empty()) ids.insert(ids.begin(), std::move(m.queue_id));
  if (!s->right.all) done.outcome = Outcome::denied;
  if (!s->right.all || ids.empty()) {
    (void)s->channel.send(done);
    co_return;
  }
  co_await recovered();
  std::unordered_map<std::string, queue_log::Listed> places;
  auto scan = manager_.find_stored(ids, queue_log::InTransit::shown);
  while (!scan->done() && places.size() < ids.size()) {
    auto some = scan->step(kSlice);
    if (!some) {
      done.outcome = Outcome::failed;
      done.text = some.error().message();
      break;
    }
    for (auto& l : *some) places.insert_or_assign(l.queue_id, std::move(l));
    co_await loop_.yield();
  }
  for (const std::string& id : ids) {
    const auto place = places.find(id);
    if (place == places.end()) continue;
    const auto shown = show_one(*s, m.request, place->second);
    if (!shown) {
      // It does not fit a frame; or the tool is gone, and nothing else can be sent.
      if (!tell_fault(*s, m.request, place->second, shown.error().message())) co_return;
    }
    if (!shown || *shown) ++done.count;
    if (s->channel.congested() && !co_await s->channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
  if (done.count == ids.size()) done.outcome = Outcome::ok;
  (void)s->channel.send(done);
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Watch m) {
  if (!s->right.list) {
    (void)s->channel.send(Done{m.request, Outcome::denied, 0, kMayNotList});
    co_return;
  }
  if (orders_only_) {
    (void)s->channel.send(Done{m.request, Outcome::failed, 0, "the mail system is down"});
    co_return;
  }
  // What ends it, the next receive() finds too.
  (void)co_await Watches::serve(&watches_, &s->channel, m.request, std::move(m.queue_id));
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, AskStatus m) {
  (void)s->channel.send(Status{m.request, status_()});
  (void)s->channel.send(Done{m.request, Outcome::ok, 0, {}});
  co_return;
}

}  // namespace pen::qmgr
