/// Orders of tools for one message, for a set, for all: bounded in what is not yet durable, whatever their number.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/queue_log/id_filter.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/suite/events/emitter.h"
#include "qmgr/queue_server.h"

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr std::size_t kSlice = 200;            // messages looked at between two turns of the loop
constexpr std::size_t kWindow = 4096;          // orders given and not yet durable: they share commits
constexpr std::size_t kWindowBytes = 4 << 20;  // and the bytes of the records that they write anew
// Remembers which messages an order met, for those that it meets again where they went: 1,000,000 with one in 20,000
// mistaken for such, 5,000,000 with one in 25.
constexpr std::size_t kMetBytes = 4 << 20;
constexpr std::size_t kMissed = 65536;  // messages that moved away from an order, and are looked for again
constexpr int kRounds = 5;              // how often
constexpr std::size_t kMaxBy = 200;

/// What no message says by itself.
void tell_flush(const Act& m, std::uint64_t messages, std::string_view who) {
  if (!events::wanted()) return;
  using enum events::Field;
  events::tell(events::Event(events::Type::order, events::now())
                   .text(queue_id, m.queue_ids.size() == 1 ? std::string_view(m.queue_ids.front()) : std::string_view())
                   .text(action, "flush")
                   .text(destination, m.site)
                   .number(count, messages)
                   .text(by, who));
}

bool writes_anew(Verb verb) { return verb != Verb::remove && verb != Verb::flush; }
}  // namespace

/// One request while it is carried out. Orders hold it: the last of them may end after the tool went.
struct QueueServer::Run {
  Run(async::Loop& loop, std::uint64_t request) : moved(loop), course(request, loop.now()) {}
  async::Event moved;      // an order ended
  std::size_t window = 0;  // orders for messages at rest that are not done
  std::size_t bytes = 0;
  std::size_t active = 0;  // orders for messages being worked on: bounded by the active set
  Course course;           // its count: done
  std::uint64_t failures = 0;
  std::string failed;  // id of the first that failed
  Outcome why = Outcome::ok;
  bool again = false;               // looks for what it missed
  bool counts = false;              // nothing is listed and nothing ordered
  bool known = false;               // one of the ids that it names is in the queue
  std::vector<std::string> missed;  // were not where they had been when their turn came
  queue_log::IdFilter met;          // of those that stay in the queue, and may be met again

  static bool remembers(const Act& m) { return m.dry_run || m.verb == Verb::requeue || expires(m.verb); }
  bool full() const { return window >= kWindow || bytes >= kWindowBytes; }
};

bool QueueServer::meant(const Act& m, const QueueFilter& filter, const queue_log::Listed& l, WallTime began,
                        const Run& run) {
  const bool held = l.place.log == queue_log::kHold;
  const bool by_id = !m.queue_ids.empty();
  switch (m.verb) {
    case Verb::flush:
      if (held || l.active) return false;
      break;
    case Verb::release:
      if (!held) return false;
      break;
    case Verb::hold:
      if (held && !by_id) return false;
      break;
    case Verb::remove:
    case Verb::requeue:
    case Verb::expire:
    case Verb::expire_release:
      break;
  }
  if (l.later && !by_id && !run.again) {
    // New mail; or an old message that moved before the scan came to it, or because of this very order. What a flush
    // finds moved was just tried; what is on hold now was not when the release began.
    if (l.arrived > began) return false;
    if (m.verb == Verb::flush || m.verb == Verb::release) return false;
    if (run.remembers(m) && run.met.may_contain(queue_log::IdFilter::hash(l.queue_id))) return false;
    const Active* active = manager_.find(l.queue_id);
    if (active != nullptr && (active->order != Active::Order::none || active->forced_expire)) return false;
  }
  switch (filter.footer(l)) {
    case QueueFilter::Answer::no:
      return false;
    case QueueFilter::Answer::yes:
      return true;
    case QueueFilter::Answer::ask:
      break;
  }
  if (const Active* active = manager_.find(l.queue_id)) return filter.envelope(*active);
  auto stored = manager_.log().runners().read(l.place);
  if (!stored) return false;  // it moved: the scan comes to where it is now
  const auto message = from_log(*std::move(stored));
  return message && filter.envelope(*message);
}

std::string QueueServer::Session::by(const Act& m) const {
  return right.all && !m.by.empty() ? printable(m.by, kMaxBy) : fmt::format("uid {}", uid);
}

void QueueServer::give(const queue_log::Listed& l, const Act& m, const std::shared_ptr<Run>& run, std::string by) {
  const Verb verb = m.verb;
  const bool active = manager_.find(l.queue_id) != nullptr;
  const std::size_t bytes = writes_anew(verb) ? l.stored : 0;
  ++(active ? run->active : run->window);
  if (active) run->met.add(queue_log::IdFilter::hash(l.queue_id));  // it is obeyed when its work ends
  run->bytes += bytes;
  const auto done = [run, active, bytes, id = l.queue_id](Outcome o) {
    --(active ? run->active : run->window);
    run->bytes -= bytes;
    if (o == Outcome::ok) ++run->course.is.count;
    // One that was not there any more has moved: it is to be met again.
    if (o == Outcome::ok && !active) run->met.add(queue_log::IdFilter::hash(id));
    if (o == Outcome::not_found && run->missed.size() < kMissed) run->missed.push_back(id);
    if (o == Outcome::failed || o == Outcome::no_space) {
      if (run->failures++ == 0) {
        run->failed = id;
        run->why = o;
      }
    }
    run->moved.set();
  };
  manager_.event()->orders.give(l, verb, done, std::move(by), !m.queue_ids.empty());
}

async::Task<void> QueueServer::recovered() {
  if (manager_.log().restart().stage() == queue_log::Recovery::done) co_return;
  auto done = std::make_shared<async::Event>(loop_);
  manager_.when_recovered([done] { done->set(); });
  (void)co_await done->wait();
}

async::Task<void> QueueServer::run_order(Session& s, const Act& m, std::shared_ptr<Run> run) {
  const WallTime began = loop_.clock().wall_now();
  std::optional<Orders::Bulk> bulk;
  if (m.queue_ids.empty()) bulk.emplace(manager_.event()->orders);
  if (m.queue_ids.empty() && Run::remembers(m)) run->met = queue_log::IdFilter(kMetBytes);
  bool there = co_await look_through(s, m, run, m.queue_ids, began);
  for (int round = 0; there && round < kRounds && !run->missed.empty(); ++round) {
    run->again = true;
    auto ids = std::exchange(run->missed, {});
    there = co_await look_through(s, m, run, std::move(ids), began);
  }
}

/// Orders what is meant of these messages, or of all, and waits until that is done. false: the tool is gone.
async::Task<bool> QueueServer::look_through(Session& s, const Act& m, std::shared_ptr<Run> run,
                                            std::vector<std::string> ids, WallTime began) {
  const QueueFilter filter(m.filter, m.site, began);
  const std::size_t wanted = ids.size();
  std::unordered_set<std::string> met;  // of the ids asked for
  auto scan = manager_.find_stored(std::move(ids));
  bool there = co_await settle(s, run->course, *scan);
  bool second = false;
  while (there && !scan->done() && (wanted == 0 || met.size() < wanted)) {
    if (scan->second_pass() && !second) {
      second = true;
      there = co_await settle(s, run->course, *scan);
      if (!there) break;
    }
    auto some = scan->step(kSlice);
    if (!some) {
      run->why = Outcome::failed;
      run->failed = some.error().message();
      break;
    }
    const auto progress = scan->progress();
    run->course.is.done = progress.done;
    run->course.is.total = progress.of;
    for (const auto& l : *some) {
      run->known = true;
      if (wanted != 0 && met.contains(l.queue_id)) continue;
      if (!meant(m, filter, l, began, *run)) continue;
      if (wanted != 0) met.insert(l.queue_id);
      if (m.dry_run) {
        run->met.add(queue_log::IdFilter::hash(l.queue_id));
        ++run->course.is.count;
        if (run->counts) continue;
        Entry entry = to_entry(l);
        entry.request = m.request;
        (void)s.channel.send(entry);
        continue;
      }
      while (there && run->full()) {
        run->moved.reset();
        (void)co_await run->moved.wait({.deadline = loop_.now() + kProgressEvery});
        there = co_await report(s, run->course);
      }
      if (!there) break;
      give(l, m, run, s.by(m));
    }
    // What this pass ordered is remembered before the next one begins.
    while (there && scan->second_pass() && !second && run->window > 0) {
      run->moved.reset();
      (void)co_await run->moved.wait({.deadline = loop_.now() + kProgressEvery});
      there = co_await report(s, run->course);
    }
    there = there && co_await report(s, run->course);
    co_await loop_.yield();
  }
  while (run->window + run->active > 0 && there) {
    run->moved.reset();
    (void)co_await run->moved.wait({.deadline = loop_.now() + kProgressEvery});
    there = co_await report(s, run->course);
  }
  co_return there;
}

async::Task<bool> QueueServer::remove_dropped(Session& s, const Act& m, const QueueFilter& filter, Run& run,
                                              const submission::Dropped& d) {
  // Other names are not pendrop's: pickup leaves them alone, and so do orders for all.
  if (!mail::is_queue_id(d.name) || !filter.dropped(d)) co_return true;
  run.known = true;
  if (m.dry_run) {
    Entry entry = to_entry(d);
    entry.request = m.request;
    (void)s.channel.send(entry);
    ++run.course.is.count;
    co_return co_await report(s, run.course);
  }
  const auto removed = co_await maildrop_.remove(d.name);
  const auto failed = [&](const std::string& why) {
    if (run.failures++ != 0) return;
    run.why = Outcome::failed;
    run.failed = d.name + ": " + why;
  };
  if (!removed) {
    failed(removed.error().message());
  } else if (*removed == Maildrop::Removed::yes) {
    log::info("{}: removed from maildrop", d.name);
    if (events::wanted())
      events::tell(events::Event(events::Type::order, events::now())
                       .text(events::Field::queue_id, d.name)
                       .text(events::Field::action, "removed")
                       .text(events::Field::by, s.by(m)));
    ++run.course.is.count;
  } else if (*removed == Maildrop::Removed::busy && !m.queue_ids.empty()) {
    failed("it is being taken into the queue: repeat");
  }
  co_return co_await report(s, run.course);
}

/// In the places that are meant, one after the other.
async::Task<void> QueueServer::carry_out(Session& s, const Act& m, std::shared_ptr<Run> run) {
  const QueueFilter filter(m.filter, m.site, loop_.clock().wall_now());
  if ((m.filter.places & bit_of(Place::maildrop)) != 0) {
    auto all = co_await maildrop_.each(m.queue_ids, [this, &s, &m, &filter, &run](const auto& dropped) {
      return remove_dropped(s, m, filter, *run, dropped);
    });
    if (!all) {
      run->why = Outcome::failed;
      run->failed = all.error().message();
    }
  }
  if (filter.covers_queue() && s.channel.is_open()) co_await run_order(s, m, run);
}

std::string QueueServer::refusal(const Act& m) const {
  if (m.verb != Verb::remove && (m.filter.places & bit_of(Place::maildrop)) != 0)
    return "what is in maildrop can be deleted; nothing else can be done with it there";
  if (orders_only_ && !m.dry_run && (m.verb == Verb::flush || expires(m.verb)))
    return "the mail system is not running: nothing is delivered or returned before it is started";
  if (m.queue_ids.size() > kMaxIds) return "too many queue ids in one request";
  return {};
}

/// How many messages wait that an order for all means: nothing knows it without looking.
async::Task<std::uint64_t> QueueServer::count_meant(Session& s, Act m) {
  m.dry_run = true;
  auto run = std::make_shared<Run>(loop_, m.request);
  run->counts = true;
  co_await run_order(s, m, run);
  co_return run->course.is.count;
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Act m) {
  Done done{m.request, Outcome::ok, 0, {}};
  const bool by_id = !m.queue_ids.empty();
  const QueueFilter filter(m.filter, m.site, {});
  if (m.dry_run && !s->right.list) {
    done.outcome = Outcome::denied;
    done.text = kMayNotList;
  } else if (m.verb == Verb::flush && !m.dry_run && !s->right.flush) {
    done.outcome = Outcome::denied;
    done.text = kMayNotFlush;
  } else if (m.verb != Verb::flush && !m.dry_run && !s->right.all) {
    done.outcome = Outcome::denied;
    done.text = kMayNotChange;
  } else if (!by_id && !m.all && m.site.empty() && filter.empty()) {
    done.outcome = Outcome::not_found;  // nothing is meant by nothing
  } else if (std::string why = refusal(m); !why.empty()) {
    done.outcome = Outcome::failed;
    done.text = std::move(why);
  } else if (m.verb == Verb::flush && m.all && !by_id && filter.empty() && !m.dry_run) {
    co_await recovered();
    done.count = co_await count_meant(*s, m);
    manager_.flush_all();
    tell_flush(m, done.count, s->by(m));
  } else {
    co_await recovered();
    if (m.verb == Verb::flush && !m.dry_run) manager_.forgive();
    auto run = std::make_shared<Run>(loop_, m.request);
    co_await carry_out(*s, m, run);
    if (!m.dry_run && run->course.is.count > 0) {
      manager_.event()->runners.look_again();
    }
    done.count = run->course.is.count;
    if (m.verb == Verb::flush && !m.dry_run) tell_flush(m, run->course.is.count, s->by(m));
    if (run->why != Outcome::ok) {
      done.outcome = run->why;
      done.text = run->failed;
    } else if (by_id && done.count == 0 && !run->known) {
      done.outcome = Outcome::not_found;
    }
  }
  (void)s->channel.send(done);
}

}  // namespace pen::qmgr
