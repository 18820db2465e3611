/// The files of the spool and the messages that they belong to, for tools.
#include <algorithm>
#include <unordered_map>

#include "qmgr/queue_server.h"

namespace pen::qmgr {

using namespace ipc::queue;

namespace {
constexpr std::size_t kSlice = 50;  // files looked at between two turns of the loop
}

/// What the queue says of the spool: each message is the only one that names its file and use.
struct QueueServer::SpoolOwners {
  struct Owner {
    std::string queue_id;
    std::uint64_t content = 0;
  };
  std::unordered_map<spool::BodyRef, Owner> owners;
  bool damaged = false;  // there may be more
};

async::Task<QueueServer::Seen> QueueServer::note_owner(const queue_log::Listed& l, SpoolOwners& into) {
  if (l.self_contained) co_return Seen::yes;
  spool::BodyRef body = 0;
  if (const Active* message = manager_.find(l.queue_id)) {
    body = message->spool_file;
  } else {
    const auto stored = manager_.log().runners().read(l.place);
    if (!stored && stored.error().is(queue_log::QueueLogError::not_found)) co_return Seen::moved;
    const auto named = stored ? spool_file_of(*stored) : std::nullopt;
    if (!named) into.damaged = true;
    body = named.value_or(0);
  }
  if (body != 0) into.owners.insert_or_assign(body, SpoolOwners::Owner{l.queue_id, l.size});
  co_return Seen::yes;
}

SpoolFile QueueServer::spool_file(spool::FileNumber number, const SpoolOwners& known) {
  using State = spool::Pool::State;
  const spool::Pool::File in_pool = spool_->files().at(number);
  spool::Spool::Look look = spool_->look(number);
  SpoolFile f;
  f.number = number;
  f.path = std::move(look.path);
  f.size = look.size;
  f.fault = std::move(look.fault);
  const std::uint32_t written = look.header ? look.header->use : 0;
  const std::uint32_t use = in_pool.state == State::used ? in_pool.use : written;
  const auto owner = known.owners.find(spool::BodyRef{use} << 32U | number);
  const bool owned = owner != known.owners.end();
  switch (in_pool.state) {
    case State::used:
      f.state = SpoolState::used;
      break;
    case State::leased:
      f.state = SpoolState::leased;
      break;
    case State::retiring:
      f.state = SpoolState::freed;
      break;
    case State::free:
      f.state = SpoolState::free;
      break;
    case State::unknown:  // of before the start, and the orphan pass has not ended
      f.state = owned ? SpoolState::used : known.damaged ? SpoolState::unknown : SpoolState::free;
      break;
  }
  if (f.state != SpoolState::used) return f;
  if (owned) {
    f.queue_id = owner->second.queue_id;
    f.content = owner->second.content;
  } else if (look.header && written == use) {  // it came when the scan had passed
    f.queue_id = std::move(look.header->queue_id);
    f.content = look.header->length;
  }
  return f;
}

async::Task<void> QueueServer::handle(std::shared_ptr<Session> s, ListSpool m) {
  Done done{m.request, Outcome::ok, 0, {}};
  if (!s->right.all) {
    done.outcome = Outcome::denied;
    done.text = kMayNotChange;
  }
  if (done.outcome != Outcome::ok || spool_ == nullptr) {
    (void)s->channel.send(done);
    co_return;
  }
  co_await recovered();
  SpoolOwners known;
  known.damaged = manager_.log().restart().report().damage_count != 0;
  List all;
  all.request = m.request;
  Shown shown;
  if (auto scanned = co_await each(*s, all, {}, shown,
                                   [this, &known](const queue_log::Listed& l) { return note_owner(l, known); });
      !scanned) {
    done.outcome = Outcome::failed;
    done.text = scanned.error().message();
    (void)s->channel.send(done);
    co_return;
  }
  std::vector<spool::FileNumber> numbers = std::move(m.files);
  const bool by_number = !numbers.empty();
  if (!by_number)
    for (const auto& [number, file] : spool_->files()) numbers.push_back(number);
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  std::size_t in_slice = 0;
  for (const spool::FileNumber number : numbers) {
    if (++in_slice % kSlice == 0) co_await loop_.yield();
    if (!spool_->files().contains(number)) continue;  // or no longer
    SpoolFile file = spool_file(number, known);
    file.request = m.request;
    ++done.count;
    (void)s->channel.send(file);
    if (s->channel.congested() && !co_await s->channel.flush({.deadline = loop_.now() + seconds(300)})) co_return;
  }
  if (by_number && done.count == 0) done.outcome = Outcome::not_found;
  (void)s->channel.send(done);
}

}  // namespace pen::qmgr
