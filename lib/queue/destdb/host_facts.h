#pragma once
/// The facts of a host, whatever source its connections come from: what it offers, what broke with it, how far away and
/// how quick it is. The others (failures, ceilings, deferrals) are of a source as well: they hang on its reputation.
///
/// Pure; any thread.
#include "lib/queue/destdb/facts.h"

namespace pen::destdb {

inline void copy_host_facts(const Facts& from, Facts& into) {
  into.pipelining = from.pipelining;
  into.chunking = from.chunking;
  into.starttls = from.starttls;
  into.size_limit = from.size_limit;
  into.connect_time = from.connect_time;
  into.round_trip = from.round_trip;
  into.service_time = from.service_time;
  into.measured = from.measured;
  into.step_by_step_until = from.step_by_step_until;
  into.clear_text_until = from.clear_text_until;
  into.one_domain_until = from.one_domain_until;
}

}  // namespace pen::destdb
