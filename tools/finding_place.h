#pragma once
/// Where the configuration says what a sentence is about, for findings of programs and libraries, which know no files.
///
/// Use:     if (const auto at = finding_place(config, "service smtp/inet will not start: …")) … at->line …
/// How:     "service NAME" in the sentence is a line of master.cf. The setting is the first word that is set, there or
///          in main.cf; else one with the sentence's first path or restriction in its value. Without any the service's
///          own line is the place.
/// Pure; any thread.
#include <optional>
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace pen::tools {

struct FindingPlace {
  std::string setting;  // empty: a service is the place
  config::Place place;
};
std::optional<FindingPlace> finding_place(const config::Config& config, std::string_view sentence);

}  // namespace pen::tools
