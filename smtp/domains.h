#pragma once
/// Finds hosts that take recipients of only one domain in a transaction, as some large providers do, by their replies.
#include <vector>

#include "smtp/engine.h"

namespace pen::smtp {

/// Which recipients were put off because the job has recipients in several domains: the reply says so, or recipients of
/// other domains were accepted and none of theirs. A transaction of their own may succeed. Empty: none.
std::vector<bool> want_one_domain(const Job& job, const JobDone& done);

}  // namespace pen::smtp
