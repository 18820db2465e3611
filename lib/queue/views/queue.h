#pragma once
/// A message in the queue as JSON, with the fields of postqueue -j: for penqueue -j and penapi.
///
/// Pure; any thread.
#include <nlohmann/json_fwd.hpp>

#include "lib/suite/ipc/queue.h"

namespace pen::views {

nlohmann::ordered_json to_json(const ipc::queue::Entry& e);

}  // namespace pen::views
