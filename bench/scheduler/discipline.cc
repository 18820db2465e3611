#include "bench/scheduler/discipline.h"

namespace pen::simulation {

std::string short_name(Kind kind) {
  switch (kind) {
    case Kind::first_come:
      return "fcfs";
    case Kind::equal:
      return "equal";
    case Kind::slots:
      return "slots";
    case Kind::penstock:
      break;
  }
  return "penstock";
}

std::string long_name(Kind kind) {
  switch (kind) {
    case Kind::first_come:
      return "first come, first served";
    case Kind::equal:
      return "equal workers for each message";
    case Kind::slots:
      return "queues by domain, slot preemption (as Postfix)";
    case Kind::penstock:
      break;
  }
  return "Penstock";
}

std::unique_ptr<Discipline> make(Kind kind, World& world, const Limits& limits, std::uint64_t seed) {
  switch (kind) {
    case Kind::first_come:
      return make_first_come(world, limits, seed);
    case Kind::equal:
      return make_equal(world, limits, seed);
    case Kind::slots:
      return make_slots(world, limits, seed);
    case Kind::penstock:
      break;
  }
  return make_penstock(world, limits, seed);
}

}  // namespace pen::simulation
