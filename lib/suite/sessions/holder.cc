#include "lib/suite/sessions/holder.h"

#include <algorithm>

namespace pen::sessions {

using namespace ipc::sessions;

Holder::Holder(async::Loop& loop, std::string path, std::shared_ptr<const Classes> classes, Events events,
               Options options)
    : loop_(loop),
      classes_(std::move(classes)),
      events_(std::move(events)),
      options_(options),
      own_(classes_->list().size()),
      link_(loop,
            {.path = std::move(path),
             .conversation = kName,
             .meanwhile = "session_classes limits what this process itself holds",
             .report = events_.report},
            *this) {
  away(loop.now());
}

bool Holder::may_by_itself(std::uint32_t in_class, Direction direction) const {
  const Class& c = classes_->list()[in_class];
  return own_[in_class] < (direction == Direction::incoming ? c.refuse : c.total);
}

Holder::Lease Holder::take(Direction direction, std::uint32_t in_class, std::string name, std::string address,
                           Answer answer) {
  const Lease lease = next_++;
  Held& held = leases_[lease];
  held.in_class = in_class;
  held.direction = direction;
  held.asked = true;
  held.asked_at = loop_.now();
  held.name = std::move(name);
  held.address = std::move(address);
  held.answer = std::move(answer);
  if (connected()) {
    ask(lease, held);
  } else if (loop_.now() >= away_since_ + patience(direction)) {
    decide(lease, may_by_itself(in_class, direction));
  }
  return lease;
}

void Holder::ask(Lease lease, const Held& held) {
  send(Take{lease, held.direction, held.name, held.address, false});
  if (!watch_) watch(loop_.now() + options_.answer_time);
}

void Holder::watch(SteadyTime at) {
  watch_ = loop_.call_at(at, [this] {
    watch_.reset();
    SteadyTime oldest = kNever;
    for (const auto& [lease, held] : leases_) {
      if (held.asked && !held.decided) oldest = std::min(oldest, held.asked_at);
    }
    if (oldest == kNever) return;
    if (oldest + options_.answer_time <= loop_.now()) {
      link_.give_up(Error(ipc::IpcError::no_answer));
    } else {
      watch(oldest + options_.answer_time);
    }
  });
}

void Holder::count(Held& held) {
  if (!std::exchange(held.counted, true)) ++own_[held.in_class];
}

void Holder::decide(Lease lease, bool granted) {
  Held& held = leases_.at(lease);
  held.decided = true;
  if (granted) count(held);
  loop_.post([self = weak_from_this(), lease, granted] {
    if (const auto h = self.lock()) h->give(lease, granted, {});
  });
}

void Holder::give(Lease lease, bool granted, const std::string& mask) {
  const auto at = leases_.find(lease);
  if (at == leases_.end() || !at->second.asked) return;  // given up meanwhile
  Held& held = at->second;
  held.asked = false;
  const Answer answer = std::move(held.answer);
  if (granted) {
    count(held);
    // anvil came back meanwhile, and got a report of those that were held by then.
    if (held.decided) send(Take{lease, held.direction, held.name, held.address, true});
  } else {
    const std::uint32_t c = held.in_class;
    const bool outgoing = held.direction == Direction::outgoing;
    const bool ask_anew = held.decided && connected();
    leases_.erase(at);
    if (outgoing) refused_[c] = mask;
    if (outgoing && ask_anew) tell_room(c);
  }
  answer(granted);
}

void Holder::release(Lease lease) {
  const auto at = leases_.find(lease);
  if (at == leases_.end()) return;
  const std::uint32_t c = at->second.in_class;
  if (at->second.counted) --own_[c];
  leases_.erase(at);
  send(Release{lease});
  if (!connected() && refused_.contains(c) && may_by_itself(c, Direction::outgoing)) tell_room(c);
}

void Holder::tell_room(std::uint32_t in_class) {
  refused_.erase(in_class);
  loop_.post([self = weak_from_this(), in_class] {
    if (const auto h = self.lock(); h && h->events_.room) h->events_.room(in_class);
  });
}

void Holder::on_connected() {
  client_patience_.reset();
  mail_patience_.reset();
  send(Begin{static_cast<bool>(events_.all_full), std::exchange(again_, true)});
  std::vector<Lease> asked;
  for (const auto& [lease, held] : leases_) {
    if (!held.asked)
      send(Take{lease, held.direction, held.name, held.address, true});
    else if (!held.decided)
      asked.push_back(lease);
  }
  std::ranges::sort(asked);
  for (const Lease lease : asked) {
    Held& held = leases_.at(lease);
    held.asked_at = loop_.now();
    ask(lease, held);
  }
  while (!refused_.empty()) tell_room(refused_.begin()->first);
}

void Holder::on_message(Link::Channel::Received& received) {
  std::visit([this](const auto& m) { take(m); }, received.message);
}

void Holder::on_lost(const Error& why) {
  const bool hung = why.is(ipc::IpcError::no_answer);
  watch_.reset();
  if (std::exchange(full_, false) && events_.all_full) events_.all_full(false);
  away(hung ? loop_.now() - std::max(options_.client_patience, options_.mail_patience) : loop_.now());
}

void Holder::away(SteadyTime since) {
  away_since_ = since;
  client_patience_ = loop_.call_at(since + options_.client_patience, [this] { decide_waiting(Direction::incoming); });
  mail_patience_ = loop_.call_at(since + options_.mail_patience, [this] {
    decide_waiting(Direction::outgoing);
    while (!refused_.empty()) tell_room(refused_.begin()->first);
  });
}

void Holder::decide_waiting(Direction direction) {
  std::vector<Lease> asked;
  for (const auto& [lease, held] : leases_) {
    if (held.asked && !held.decided && held.direction == direction) asked.push_back(lease);
  }
  std::ranges::sort(asked);
  for (const Lease lease : asked) decide(lease, may_by_itself(leases_.at(lease).in_class, direction));
}

void Holder::take(const Taken& m) { give(m.lease, m.granted, m.mask); }

void Holder::take(const Room& m) {
  std::vector<std::uint32_t> in;
  for (const auto& [c, mask] : refused_) {
    if (mask == m.mask) in.push_back(c);
  }
  for (const std::uint32_t c : in) tell_room(c);
}

void Holder::take(const Wanted& m) {
  const auto& list = classes_->list();
  const auto at = std::ranges::find(list, m.mask, &Class::mask);
  const bool closing =
      at != list.end() && events_.wanted && events_.wanted(static_cast<std::uint32_t>(at - list.begin()));
  send(Yielded{m.ask, closing});
}

void Holder::take(const AllFull& m) {
  full_ = m.full;
  if (events_.all_full) events_.all_full(m.full);
}

async::Task<Holder::Entry> Holder::enter(std::string name, std::string address, async::Until until) {
  Entry entry;
  const auto in_class = classes_->find(name, address);
  if (!in_class) co_return entry;
  struct Waiting {
    explicit Waiting(async::Loop& loop) : answered(loop) {}
    async::Event answered;
    bool granted = true;
  };
  auto waiting = std::make_shared<Waiting>(loop_);
  const Lease lease =
      take(Direction::incoming, *in_class, std::move(name), std::move(address), [waiting](bool granted) {
        waiting->granted = granted;
        waiting->answered.set();
      });
  entry.place = Place(shared_from_this(), lease);
  (void)co_await waiting->answered.wait(until);
  entry.granted = waiting->granted;
  if (!entry.granted) {
    entry.place = {};
    entry.refused_by = &classes_->list()[*in_class];
  }
  co_return entry;
}

}  // namespace pen::sessions
