#include "bench/scheduler/sessions.h"

#include <cmath>

#include "lib/base/check.h"

namespace pen::simulation {

using namespace ipc::sessions;

Sessions::Sessions(std::shared_ptr<const sessions::Classes> classes, std::vector<Callers> callers, std::uint64_t seed,
                   Events& events, Listener& listener)
    : classes_(std::move(classes)),
      callers_(std::move(callers)),
      random_(seed),
      events_(events),
      listener_(listener),
      ledger_(*classes_),
      seen_(classes_->list().size()),
      full_(classes_->list().size()) {
  ledger_.set_time(SteadyTime{});
  qmgr_ = ledger_.begin({});
  clients_ = ledger_.begin({});
  for (std::size_t kind = 0; kind < callers_.size(); ++kind) next_call(SteadyTime{}, kind);
}

void Sessions::take(SteadyTime now, ConnectionNumber connection, const std::string& host, const std::string& address) {
  ledger_.set_time(now);
  asked_.insert(connection);
  PEN_CHECK(ledger_.take(qmgr_, {connection, Direction::outgoing, host, address, false}));
  pump_at(now);
}

void Sessions::release(SteadyTime now, ConnectionNumber connection) {
  if (asked_.erase(connection) + held_.erase(connection) == 0) return;
  ledger_.set_time(now);
  ledger_.release(qmgr_, connection);
  pump_at(now);
}

void Sessions::happened(SteadyTime now, const Event& event) {
  ledger_.set_time(now);
  if (event.kind == Event::Kind::call) call(now, event.a);
  if (event.kind == Event::Kind::hang_up) ledger_.release(clients_, event.a);
  carry_out(now);
}

void Sessions::next_call(SteadyTime now, std::size_t kind) {
  const Callers& c = callers_[kind];
  const double wait = -std::log(1.0 - random_.unit()) / c.rate;
  const SteadyTime at = now + microseconds(static_cast<std::int64_t>(wait * 1e6) + 1);
  if (at < SteadyTime(c.until)) events_.add(at, Event::Kind::call, kind);
}

void Sessions::call(SteadyTime now, std::size_t kind) {
  const Callers& c = callers_[kind];
  kind_of_.push_back(kind);
  PEN_CHECK(ledger_.take(clients_, {kind_of_.size(), Direction::incoming, c.host, c.address, false}));
  next_call(now, kind);
}

std::uint32_t Sessions::number_of(const std::string& mask) const {
  for (std::uint32_t n = 0; n < classes_->list().size(); ++n)
    if (classes_->list()[n].mask == mask) return n;
  PEN_CHECK(false, "the count names a class that is not there");
  return 0;
}

void Sessions::carry_out(SteadyTime now) {
  ledger_.tick();
  for (auto sends = ledger_.take_actions(); !sends.empty(); sends = ledger_.take_actions()) {
    for (const auto& send : sends) {
      if (const auto* taken = std::get_if<Taken>(&send.message)) {
        if (send.to == clients_) {
          Seen& seen = seen_[number_of(taken->mask)];
          ++(taken->granted ? seen.calls_taken : seen.calls_refused);
          if (taken->granted)
            events_.add(now + callers_[kind_of_[taken->lease - 1]].stay, Event::Kind::hang_up, taken->lease);
        } else if (asked_.erase(taken->lease) > 0) {  // otherwise the connection was given up meanwhile
          if (taken->granted) held_.insert(taken->lease);
          listener_.lease_answered(taken->lease, taken->granted);
        }
      } else if (const auto* room = std::get_if<Room>(&send.message)) {
        listener_.room(number_of(room->mask));
      } else if (const auto* wanted = std::get_if<Wanted>(&send.message)) {
        const bool closing = listener_.yield(number_of(wanted->mask));
        ledger_.yielded(qmgr_, {wanted->ask, closing});
      }
    }
  }
  note(now);
  if (const SteadyTime wake = ledger_.next_wake(); wake != kNever) pump_at(wake);
}

void Sessions::pump_at(SteadyTime at) { events_.add(at, Event::Kind::leases); }

void Sessions::note(SteadyTime now) {
  const double since = std::chrono::duration<double>(now - noted_).count();
  noted_ = now;
  const Status status = ledger_.status();
  for (std::size_t n = 0; n < seen_.size(); ++n) {
    const ClassStatus& s = status.classes[n];
    if (full_[n]) seen_[n].full += since;
    full_[n] = s.incoming + s.outgoing >= s.total;
    seen_[n].most = std::max(seen_[n].most, s.incoming + s.outgoing);
    seen_[n].most_outgoing = std::max(seen_[n].most_outgoing, s.outgoing);
  }
}

}  // namespace pen::simulation
