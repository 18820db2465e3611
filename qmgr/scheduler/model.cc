#include "qmgr/scheduler/model.h"

namespace pen::qmgr::scheduler {

Model::Model(Options o, Routes::LimitsOf limits_of, destdb::Table& d, Random& r)
    : options(std::move(o)),
      table(d),
      random(r),
      routes(options, std::move(limits_of), table, r.next(),
             {suspensions, session_classes, host_order, rate_delay, shaping}) {}

void Model::tick() {
  while (Job* j = forming.front()) {
    if (j->formed + options.forming_time > clock.now) break;
    formed(*j);
  }
  while (Cluster* c = pool.take_due()) look_again(*c);
  end_pauses();
  shaping.wake_due();
  for (auto& [name, t] : routes.transports()) {
    if (t->look_at_probes <= clock.now) abandon_probes(*t);
    give_up_solo(*t);
    free_from_stuck(*t);
    while (Connection* c = t->idle.front()) {
      if (c->idle_since + t->limits.idle_age > clock.now) break;
      retire(*c);
    }
    while (Connection* c = t->by_age.front()) {
      if (c->opened_at + t->limits.max_age > clock.now) break;
      retire(*c);
    }
  }
  settle();
}

void Model::settle() {
  schedule_gone_on();
  do {
    retire_spent();
    pump_workers();
    serve_classes();
    open_gates();
    while (Cluster* c = pool.take_left()) unblock(*c);
    give_up_empty();
  } while (ceilings.any_spent() || !to_serve.empty() || session_classes.any_dirty() || shaping.any_dirty());
  pump_routing();
}

}  // namespace pen::qmgr::scheduler
