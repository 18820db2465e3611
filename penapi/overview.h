#pragma once
/// What the status page shows first, as one JSON object: /api/v1/overview and each message of /api/v1/stream.
/// Pure, but for the disks that it looks at.
#include <nlohmann/json_fwd.hpp>

#include "penapi/history.h"
#include "penapi/server.h"

namespace pen::api {

Reading reading_of(const metrics::Sums& sums, const Seen& seen);
nlohmann::ordered_json overview(Server& server, const Seen& seen);

}  // namespace pen::api
