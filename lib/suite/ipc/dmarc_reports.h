#pragma once
/// Reports to dmarcrpt what DMARC said of messages (RFC 9990): lib/suite/ipc/one_way.h.
#include "lib/suite/ipc/dmarc_report.h"
#include "lib/suite/ipc/one_way.h"

namespace pen::ipc {

class DmarcReports : public OneWay<dmarc_report::Result, dmarc_report::ToDmarcrpt, dmarc_report::FromDmarcrpt> {
 public:
  static constexpr std::size_t kMost = 1000;

  /// path: of dmarcrpt's socket.
  DmarcReports(async::Loop& loop, std::string path, Report report = {})
      : OneWay(loop, std::move(path), {dmarc_report::kName, "results of DMARC", kMost}, std::move(report)) {}
};

}  // namespace pen::ipc
