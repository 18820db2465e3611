#pragma once
/// What would keep services from starting, as their programs say it themselves (lib/suite/service/look.h).
///
/// Use:     for (const auto& fault : service_faults(config, plan, programs)) … fault.text …
/// How:     each program of the plan is run with --look and the words that master would give it, and ends at once.
///          After an error that names a setting, it is run again with that setting at its default, so that all are
///          found.
/// Bounds:  kPatience for a program; kMostFaults for a service.
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/service/plan.h"

namespace pen::tools {

struct ServiceFault {
  std::string service;  // "smtp/unix"
  std::string text;     // what its program ends with
  bool used = true;     // false: no mail comes for it
};
/// programs: their directory.
std::vector<ServiceFault> service_faults(const config::Config& config, const service::Plan& plan,
                                         const std::string& programs);

/// The setting that an error is about: the first word of it that is set. nullptr: there is none.
const config::Row* setting_named_by(const config::Config& config, std::string_view error);

}  // namespace pen::tools
