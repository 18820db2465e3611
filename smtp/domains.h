#pragma once
/// Hosts that take recipients of one domain only in a transaction, as large providers do, by what they answer.
#include <vector>

#include "smtp/engine.h"

namespace pen::smtp {

/// Which recipients were put off because the job has recipients in several domains: the reply says so, or some were
/// accepted, and of that one's domain none. They may be taken in a transaction of their own. Empty: none.
std::vector<bool> want_one_domain(const Job& job, const JobDone& done);

}  // namespace pen::smtp
