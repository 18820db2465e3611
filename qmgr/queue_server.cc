#include "qmgr/queue_server.h"

#include <algorithm>
#include <unordered_set>

#include "lib/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/queue_log/scan.h"

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr std::size_t kSlice = 200;  // entries between two turns of the loop

bool for_site(const Active& m, std::string_view site) {
  if (site.empty()) return true;
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      const std::string& address = m.envelope.recipients[i].address;
      const auto at = address.rfind('@');
      if (at != std::string::npos && iequals(std::string_view(address).substr(at + 1), site))
        return true;
    }
  }
  return false;
}
bool may_have_site(const queue_log::Listed& l, std::string_view site) {
  if (site.empty() || l.domains.size() >= queue_log::kMaxDomains) return true;
  return std::any_of(l.domains.begin(), l.domains.end(),
                     [&](const auto& d) { return iequals(d, site); });
}
Place place_of(const queue_log::Listed& l) {
  if (l.active) return Place::active;
  if (l.place.log == queue_log::kJournal) return Place::incoming;
  return l.place.log == queue_log::kHold ? Place::hold : Place::deferred;
}
}  // namespace

Entry to_entry(const Active& m, Place place) {
  Entry e;
  e.place = place;
  e.queue_id = m.id();
  e.arrival = m.envelope.arrival;
  e.size = m.envelope.body.size;
  e.sender = m.envelope.sender;
  e.forced_expire = m.forced_expire;
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      auto& r = e.recipients.emplace_back();
      r.address = m.envelope.recipients[i].address;
      if (auto it = m.notes.find(i); it != m.notes.end()) r.delay_reason = it->second.status.text;
    }
  }
  return e;
}

QueueServer::QueueServer(async::Loop& loop, Manager& manager, std::function<void()> poke,
                         std::function<std::vector<StatusLine>()> status, OpenBody open_body)
    : loop_(loop),
      manager_(manager),
      poke_(std::move(poke)),
      status_(std::move(status)),
      open_body_(std::move(open_body)) {}

async::Task<void> QueueServer::serve(ipc::Opening opening, bool trusted) {
  auto session = std::make_shared<Session>(std::move(opening), trusted);
  for (;;) {
    auto received = co_await session->channel.receive();
    if (!received) {
      if (!received.error().is(async::WaitError::closed))
        log::warning("queue: {}", received.error().message());
      co_return;
    }
    // One request at a time per tool: what it asked first is answered first.
    if (auto* list = std::get_if<List>(&received->message)) {
      co_await handle(session, std::move(*list));
    } else if (auto* act = std::get_if<Act>(&received->message)) {
      co_await handle(session, std::move(*act));
    } else if (auto* show = std::get_if<Show>(&received->message)) {
      co_await handle(session, std::move(*show));
    } else if (auto* ask = std::get_if<AskStatus>(&received->message)) {
      co_await handle(session, std::move(*ask));
    }
    if (!co_await session->channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
}

async::Task<Result<std::uint64_t>> QueueServer::each(See see) {
  std::uint64_t count = 0;
  auto scan = manager_.log().scan(queue_log::InTransit::shown);
  // ids of messages that may move while the scan runs: the active ones
  std::unordered_set<std::string> seen;
  while (!scan->done()) {
    auto some = scan->step(kSlice);
    if (!some) co_return fail(std::move(some).error());
    poke_();
    for (const auto& l : *some) {
      const bool moves = l.active || manager_.find(l.queue_id) != nullptr;
      if (moves ? !seen.insert(l.queue_id).second : seen.contains(l.queue_id)) continue;
      ++count;
      if (!co_await see(l)) co_return count;
    }
    co_await loop_.yield();
  }
  co_return count;
}

async::Task<bool> QueueServer::list_one(Session& s, const List& m, const queue_log::Listed& l,
                                        std::uint64_t& count) {
  if (!m.queue_id.empty() && l.queue_id != m.queue_id) co_return true;
  if (!may_have_site(l, m.site)) co_return true;
  Entry e;
  if (const Active* active = manager_.find(l.queue_id)) {
    if (!for_site(*active, m.site)) co_return true;
    e = to_entry(*active, Place::active);
  } else {
    auto stored = manager_.log().read(l.place);
    if (!stored) co_return true;  // it moved or ended meanwhile
    auto message = from_log(*std::move(stored));
    if (!message || !for_site(*message, m.site)) co_return true;
    e = to_entry(*message, place_of(l));
    e.next_try = l.due;
  }
  e.request = m.request;
  ++count;
  static_cast<void>(s.channel.send(e));
  if (s.channel.congested() && !co_await s.channel.flush({.deadline = loop_.now() + seconds(300)}))
    co_return false;
  co_return m.queue_id.empty();
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, List m) {
  std::uint64_t count = 0;
  auto all = co_await each(
      [this, &s, &m, &count](const queue_log::Listed& l) { return list_one(*s, m, l, count); });
  Done done{m.request, Outcome::ok, count, {}};
  if (!all) {
    done.outcome = Outcome::failed;
    done.text = all.error().message();
  } else if (!m.queue_id.empty() && count == 0) {
    done.outcome = Outcome::not_found;
  }
  static_cast<void>(s->channel.send(done));
}

async::Task<Outcome> QueueServer::order(queue_log::Listed l, Verb verb) {
  struct Waiting {
    explicit Waiting(async::Loop& loop) : event(loop) {}
    async::Event event;
    Outcome outcome = Outcome::failed;
  };
  auto waiting = std::make_shared<Waiting>(loop_);
  manager_.order(l, verb, [waiting](Outcome o) {
    waiting->outcome = o;
    waiting->event.set();
  });
  poke_();
  static_cast<void>(co_await waiting->event.wait());
  co_return waiting->outcome;
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Act m) {
  Done done{m.request, Outcome::ok, 0, {}};
  if (!s->trusted && m.verb != Verb::flush) {
    done.outcome = Outcome::denied;
    done.text = "only root and the mail owner may do that";
    static_cast<void>(s->channel.send(done));
    co_return;
  }
  if (m.verb == Verb::flush) manager_.forgive();
  // Collected first: orders move messages, and the scan would meet them again.
  std::vector<queue_log::Listed> wanted;
  std::unordered_set<std::string> ids(m.queue_ids.begin(), m.queue_ids.end());
  const bool by_id = !m.all && m.site.empty();
  auto scan = manager_.log().scan();
  std::unordered_set<std::string> seen;
  while (!scan->done() && (!by_id || seen.size() < ids.size())) {
    auto some = scan->step(kSlice);
    if (!some) {
      done.outcome = Outcome::failed;
      done.text = some.error().message();
      break;
    }
    poke_();
    for (auto& l : *some) {
      if (by_id ? !ids.contains(l.queue_id) : !may_have_site(l, m.site)) continue;
      if (m.verb == Verb::flush && (l.active || l.place.log == queue_log::kHold)) continue;
      if (m.verb == Verb::release && l.place.log != queue_log::kHold) continue;
      if (!seen.insert(l.queue_id).second) continue;
      wanted.push_back(std::move(l));
    }
    co_await loop_.yield();
  }
  for (auto& l : wanted) {
    // Tried now, but never more at once than the active set holds: the rest follows as room comes.
    while ((m.verb == Verb::flush || m.verb == Verb::expire) && !manager_.room()) {
      static_cast<void>(co_await loop_.sleep(milliseconds(100)));
    }
    const Outcome o = co_await order(l, m.verb);
    if (o == Outcome::ok) ++done.count;
    if (o == Outcome::failed) {
      done.outcome = Outcome::failed;
      done.text = l.queue_id;
    }
  }
  if (by_id && done.count == 0 && done.outcome == Outcome::ok && m.verb != Verb::flush) {
    done.outcome = Outcome::not_found;
  }
  static_cast<void>(s->channel.send(done));
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, Show m) {
  Done done{m.request, Outcome::not_found, 0, {}};
  if (!s->trusted) {
    done.outcome = Outcome::denied;
    static_cast<void>(s->channel.send(done));
    co_return;
  }
  auto scan = manager_.log().scan();
  while (!scan->done() && done.outcome == Outcome::not_found) {
    auto some = scan->step(kSlice);
    if (!some) break;
    for (const auto& l : *some) {
      if (l.queue_id != m.queue_id) continue;
      auto stored = manager_.log().read(l.place);
      if (!stored) continue;
      auto message = from_log(*std::move(stored));
      if (!message) continue;
      Content content{m.request, message->envelope, message->spool_offset, message->body};
      if (message->spool_file != 0) {
        auto fd = open_body_(message->spool_file, message->id());
        if (!fd) {
          done.outcome = Outcome::failed;
          done.text = fd.error().message();
          break;
        }
        async::Fd fds[] = {std::move(*fd)};
        static_cast<void>(s->channel.send(content, fds));
      } else {
        static_cast<void>(s->channel.send(content));
      }
      done.outcome = Outcome::ok;
      done.count = 1;
      break;
    }
    poke_();
    co_await loop_.yield();
  }
  static_cast<void>(s->channel.send(done));
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, AskStatus m) {
  static_cast<void>(s->channel.send(Status{m.request, status_()}));
  static_cast<void>(s->channel.send(Done{m.request, Outcome::ok, 0, {}}));
  co_return;
}

}  // namespace pen::qmgr
