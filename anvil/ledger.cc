#include "anvil/ledger.h"

#include <algorithm>

namespace pen::anvil {

using namespace ipc::sessions;

Ledger::Ledger(sessions::Classes classes) : classes_(std::move(classes)), states_(classes_.list().size()) {}

Ledger::Holder Ledger::begin(const Begin& begin) {
  const Holder holder = next_holder_++;
  if (holder == 1 && begin.again) settle_until_ = now_ + kSettleTime;
  holders_[holder].listens = begin.listens;
  if (begin.listens && all_full_) actions_.push_back({holder, AllFull{true}});
  return holder;
}

void Ledger::end(Holder holder) {
  const auto at = holders_.find(holder);
  if (at == holders_.end()) return;
  const auto leases = std::move(at->second.leases);
  holders_.erase(at);
  std::erase_if(unsettled_, [&](const auto& u) { return u.first == holder; });
  std::set<std::uint32_t> touched;
  for (const auto& [number, lease] : leases) {
    touched.insert(lease.in_class);
    if (!lease.pending) uncount(lease.in_class, holder, lease.direction);
  }
  for (auto it = asks_.begin(); it != asks_.end();) {
    if (it->second.holder != holder) {
      ++it;
      continue;
    }
    ClassState& s = states_[it->second.in_class];
    s.promised = 0;
    for (Pending& p : s.pending) {
      if (p.ask == it->first) p.ask = 0;
    }
    if (standing_ask_ == it->first) standing_ask_ = 0;
    touched.insert(it->second.in_class);
    it = asks_.erase(it);
  }
  for (std::uint32_t c = 0; c < states_.size(); ++c) {
    states_[c].refused_out.erase(holder);
    if (states_[c].reserved_for != holder) continue;
    states_[c].reserved_for = 0;
    note(c);
    touched.insert(c);
  }
  for (const std::uint32_t c : touched) {
    std::erase_if(states_[c].pending, [&](const Pending& p) { return p.holder == holder; });
    fell(c);
    ask_again(c);
  }
  note_all_full();
}

void Ledger::count(std::uint32_t c, Holder holder, Direction direction) {
  ClassState& s = states_[c];
  if (direction == Direction::incoming) {
    ++s.incoming;
  } else {
    ++s.outgoing;
    ++s.out[holder];
  }
  note(c);
}

void Ledger::uncount(std::uint32_t c, Holder holder, Direction direction) {
  ClassState& s = states_[c];
  if (direction == Direction::incoming) {
    --s.incoming;
  } else {
    --s.outgoing;
    if (s.promised > 0) --s.promised;
    const auto own = s.out.find(holder);
    if (--own->second == 0) s.out.erase(own);
  }
  note(c);
}

void Ledger::note(std::uint32_t c) {
  ClassState& s = states_[c];
  const bool full = !may_enter(c);
  if (full == s.was_full) return;
  s.was_full = full;
  full_ = full ? full_ + 1 : full_ - 1;
}

void Ledger::note_all_full() {
  // A client that belongs to no class is never refused: then smtpd must accept, however full the classes are.
  const bool full = classes_.catches_all() && full_ == states_.size();
  if (full == all_full_) return;
  all_full_ = full;
  for (const auto& [holder, state] : holders_) {
    if (state.listens) actions_.push_back({holder, AllFull{full}});
  }
  if (!full || standing_ask_ != 0) return;
  // No client can ask while smtpd does not accept connections: the ledger asks for an idle connection itself.
  for (std::uint32_t c = 0; c < states_.size() && standing_ask_ == 0; ++c) standing_ask_ = ask_for_idle(c);
}

void Ledger::answer(Holder holder, std::uint64_t lease, bool granted, std::uint32_t c, Direction direction) {
  const sessions::Class& limit = limits(c);
  actions_.push_back(
      {holder, Taken{lease, granted, limit.mask, direction == Direction::incoming ? limit.refuse : limit.total}});
}

std::uint64_t Ledger::ask_for_idle(std::uint32_t c) {
  const ClassState& s = states_[c];
  if (s.out.empty() || s.incoming >= limits(c).refuse) return 0;
  const Holder holder = s.out.begin()->first;
  const std::uint64_t ask = next_ask_++;
  asks_[ask] = {c, holder};
  actions_.push_back({holder, Wanted{ask, limits(c).mask}});
  return ask;
}

void Ledger::refuse(std::uint32_t c, const Pending& p) {
  ++states_[c].refused;
  holders_.at(p.holder).leases.erase(p.lease);
  answer(p.holder, p.lease, false, c, Direction::incoming);
}

bool Ledger::take(Holder holder, const Take& asked) {
  if (now_ >= settle_until_ || asked.held) return decide(holder, asked);
  unsettled_.emplace_back(holder, asked);
  return unsettled_.size() <= kMaxLeases;
}

bool Ledger::decide(Holder holder, const Take& asked) {
  HolderState& h = holders_.at(holder);
  if (h.leases.contains(asked.lease) || h.leases.size() >= kMaxLeases) return false;
  const auto found = classes_.find(asked.name, asked.address);
  if (!found) {  // the holder has other settings: there is no such class
    if (!asked.held) actions_.push_back({holder, Taken{asked.lease, true, {}, 0}});
    return true;
  }
  const std::uint32_t c = *found;
  ClassState& s = states_[c];
  const auto enter = [&] {
    h.leases[asked.lease] = {c, asked.direction, false};
    count(c, holder, asked.direction);
  };
  if (asked.held) {
    enter();
  } else if (asked.direction == Direction::outgoing) {
    if (s.reserved_for == holder) s.reserved_for = 0;
    const bool granted = s.count() + (s.reserved_for != 0 ? 1 : 0) < limits(c).total;
    if (granted)
      enter();
    else
      s.refused_out.insert(holder);
    note(c);
    answer(holder, asked.lease, granted, c, asked.direction);
  } else if (s.pending.empty() && may_enter(c)) {
    enter();
    answer(holder, asked.lease, true, c, asked.direction);
  } else if (const std::uint64_t ask = ask_for_idle(c); ask != 0) {
    h.leases[asked.lease] = {c, asked.direction, true};
    s.pending.push_back({holder, asked.lease, ask, now_ + kYieldTime});
  } else {
    ++s.refused;
    answer(holder, asked.lease, false, c, asked.direction);
  }
  note_all_full();
  return true;
}

void Ledger::release(Holder holder, std::uint64_t number) {
  auto& leases = holders_.at(holder).leases;
  const auto at = leases.find(number);
  if (at == leases.end()) {
    std::erase_if(unsettled_, [&](const auto& u) { return u.first == holder && u.second.lease == number; });
    return;
  }
  const Lease lease = at->second;
  leases.erase(at);
  if (lease.pending) {
    std::erase_if(states_[lease.in_class].pending,
                  [&](const Pending& p) { return p.holder == holder && p.lease == number; });
    return;
  }
  uncount(lease.in_class, holder, lease.direction);
  fell(lease.in_class);
  ask_again(lease.in_class);
  note_all_full();
}

void Ledger::fell(std::uint32_t c) {
  ClassState& s = states_[c];
  while (!s.pending.empty() && may_enter(c)) {
    const Pending p = s.pending.front();
    s.pending.pop_front();
    holders_.at(p.holder).leases.at(p.lease).pending = false;
    count(c, p.holder, Direction::incoming);
    answer(p.holder, p.lease, true, c, Direction::incoming);
  }
  if (s.count() >= limits(c).total) return;
  if (s.refused_out.empty()) return;
  s.reserved_last = !s.reserved_last;
  if (s.reserved_last) {
    s.reserved_for = *s.refused_out.begin();
    s.reserved_until = now_ + kReserved;
    note(c);
  }
  for (const Holder holder : std::exchange(s.refused_out, {})) actions_.push_back({holder, Room{limits(c).mask}});
}

void Ledger::ask_again(std::uint32_t c) {
  ClassState& s = states_[c];
  while (!s.pending.empty() && s.pending.front().ask == 0 && s.promised == 0) {
    const std::uint64_t ask = ask_for_idle(c);
    if (ask != 0) {
      s.pending.front().ask = ask;
      return;
    }
    const Pending p = s.pending.front();
    s.pending.pop_front();
    refuse(c, p);
  }
}

void Ledger::yielded(Holder holder, const Yielded& y) {
  const auto at = asks_.find(y.ask);
  if (at == asks_.end() || at->second.holder != holder) return;
  const std::uint32_t c = at->second.in_class;
  asks_.erase(at);
  if (standing_ask_ == y.ask) standing_ask_ = 0;
  ClassState& s = states_[c];
  if (y.closing) ++s.promised;
  const auto p = std::ranges::find(s.pending, y.ask, &Pending::ask);
  if (p == s.pending.end()) return;  // it was admitted or went away
  if (y.closing) {
    p->ask = 0;
  } else {
    const Pending refused = *p;
    s.pending.erase(p);
    refuse(c, refused);
    ask_again(c);
  }
}

void Ledger::tick() {
  if (now_ >= settle_until_) {
    // Using a number twice is the holder's mistake, and its loss.
    for (const auto& [holder, asked] : std::exchange(unsettled_, {})) (void)decide(holder, asked);
  }
  for (std::uint32_t c = 0; c < states_.size(); ++c) {
    ClassState& s = states_[c];
    while (!s.pending.empty() && s.pending.front().deadline <= now_) {
      const Pending p = s.pending.front();
      s.pending.pop_front();
      refuse(c, p);
    }
    if (s.reserved_for != 0 && s.reserved_until <= now_) {  // the holder did not need the place
      s.reserved_for = 0;
      note(c);
      fell(c);
    }
  }
  note_all_full();
}

SteadyTime Ledger::next_wake() const {
  SteadyTime next = unsettled_.empty() ? kNever : settle_until_;
  for (const ClassState& s : states_) {
    if (!s.pending.empty()) next = std::min(next, s.pending.front().deadline);
    if (s.reserved_for != 0) next = std::min(next, s.reserved_until);
  }
  return next;
}

Status Ledger::status() const {
  Status out;
  for (std::uint32_t c = 0; c < states_.size(); ++c) {
    const ClassState& s = states_[c];
    out.classes.push_back(
        {limits(c).mask, limits(c).total, limits(c).refuse, s.incoming, s.outgoing, s.refused, !s.refused_out.empty()});
  }
  out.holders = holders_.size();
  return out;
}

}  // namespace pen::anvil
