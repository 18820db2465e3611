/// Jobs that run with no other of their transport in hand: those that were in hand when their program died repeatedly.
#include <algorithm>

#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

namespace {
// How long everything else waits for limits that keep a job that runs alone from its connection.
constexpr seconds kSoloPatience{10};
}  // namespace

void Model::run_alone(Transport& t) {
  if (t.solo == nullptr) {
    if (t.in_hand > 0) return;
    t.solo = t.alone.front();
    t.alone.pop_front();
  } else if (t.solo->place == Job::Place::pooled) {
    pool.take(*t.solo);
  } else {
    return;
  }
  Job& j = *t.solo;
  if (t.solo_until == kNever)
    t.solo_until =
        clock.now + std::max<microseconds>(kSoloPatience,
                                           std::max(t.limits.rate_delay, t.limits.transport_rate_delay) + seconds(1));
  j.place = Job::Place::forming;
  schedule(j, true);
  if (t.solo != &j || j.place != Job::Place::pooled) return;
  // The other jobs of its cluster would look in vain as well.
  j.route->cluster->left.unlink();
  free_leases_for(j);
}

void Model::free_leases_for(const Job& solo) {
  const Transport& t = *solo.route->cluster->transport;
  const auto wanted = [&](const SessionClass* s) {
    if (s == nullptr || !s->full) return false;
    const auto& levels = solo.route->cluster->levels;
    return std::any_of(levels.begin(), levels.end(), [s](const auto& level) {
      return std::any_of(level.begin(), level.end(), [s](const auto& m) { return m->destination->session_class == s; });
    });
  };
  std::vector<ConnectionNumber> holders;
  t.all.for_each([&](const Connection& c) {
    if (c.state != Connection::State::retiring && wanted(c.destination->session_class)) holders.push_back(c.number);
  });
  for (const ConnectionNumber number : holders) {
    if (t.solo != &solo) return;  // its last host has gone with a connection, and it is deferred
    if (const auto c = connections.find(number); c != connections.end()) retire(*c->second);
  }
}

void Model::give_up_solo(Transport& t) {
  if (t.solo_until > clock.now) return;
  t.solo_until = kNever;
  // While nothing may move, its own limits are not the reason that it waits.
  Job* const j = t.solo;
  if (j == nullptr || !t.up || draining) return;
  const bool stands = j->place == Job::Place::pooled ||
                      (j->place == Job::Place::backlog && j->connection->state == Connection::State::open);
  if (stands)
    defer(*j,
          {mail::Action::deferred,
           "4.4.5",
           "it is to be delivered alone, and no connection was to be had for it",
           {},
           {}},
          "none");
}

bool Model::make_room_for_solo(Transport& t) {
  PEN_CHECK(t.in_hand == 0, "a job runs beside one that runs alone");
  Connection* oldest = nullptr;
  t.all.for_each([&](Connection& c) {
    if (oldest == nullptr && c.state != Connection::State::retiring) oldest = &c;
  });
  if (oldest == nullptr) return false;  // one that retires is about to go
  retire(*oldest);
  return true;
}

void Model::alone_ended(Transport& t) {
  if (t.solo == nullptr) t.solo_until = kNever;
  to_serve.mark(t);
  if (!t.exclusive()) t.resumes = true;
}

void Model::resume(Transport& t) {
  if (!t.resumes) return;
  t.resumes = false;
  std::vector<Connection*> all;
  t.all.for_each([&](Connection& c) { all.push_back(&c); });
  for (Connection* c : all) hand_out(*c);
  for (Connection* c : all) {  // a connection may have taken another's jobs
    if (c->jobs() == 0) set_idle(*c);
  }
}

}  // namespace pen::qmgr::scheduler
