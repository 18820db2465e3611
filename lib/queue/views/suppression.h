#pragma once
/// An entry of the suppression list as JSON, the same from pensuppress and penapi.
#include <nlohmann/json.hpp>

#include "lib/suite/ipc/suppression.h"

namespace pen::views {

nlohmann::ordered_json to_json(const ipc::suppression::Entry& entry);

}  // namespace pen::views
