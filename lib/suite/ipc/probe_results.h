#pragma once
/// Reports to the program verify what became of its probes: lib/suite/ipc/one_way.h.
#include "lib/suite/ipc/one_way.h"
#include "lib/suite/ipc/verify.h"

namespace pen::ipc {

class ProbeResults : public OneWay<verify::Probed, verify::ToProbed, verify::FromProbed> {
 public:
  static constexpr std::size_t kMost = 5000;  // what is lost is probed for again

  /// path: of verify's socket.
  ProbeResults(async::Loop& loop, std::string path, Report report = {})
      : OneWay(loop, std::move(path), {verify::kProbedName, "results of address probes", kMost}, std::move(report)) {}
};

}  // namespace pen::ipc
