#pragma once
/// penstock doctor: one command that looks at everything a mail system depends on. docs/doctor.md.
///
/// Use:     return Doctor(config_directory, {.json = true}).run();
/// Parts:   doctor_names.h asks DNS, doctor_probes.h looks at host and network, doctor_judge.h decides what the facts
///          mean, check.h looks at the configuration. Each area runs in a thread of its own.
/// Bounds:  every probe has a time limit; the whole takes kLongest at most. What does not answer by then is a finding.
/// Changes: nothing but some small files beside the queue, which it writes, syncs and removes to time the disk.
/// Errors:  run() returns EX_OK, or EX_CONFIG if there is a finding of level error, as penstock check does.
#include <string>

#include "lib/base/time.h"
#include "lib/config/config.h"
#include "tools/doctor_finding.h"

namespace pen::tools {

class Doctor {
 public:
  static constexpr seconds kLongest{60};
  struct Options {
    bool json = false;
    bool network = true;
    std::string probe;  // a host: its port 25 is tried
  };
  Doctor(std::string directory, Options options) : directory_(std::move(directory)), options_(std::move(options)) {}
  int run();

 private:
  std::string directory_;
  Options options_;
};

}  // namespace pen::tools
