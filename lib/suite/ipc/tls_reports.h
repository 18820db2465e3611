#pragma once
/// Reports to tlsrpt how TLS with other hosts went (RFC 8460): lib/suite/ipc/one_way.h.
#include "lib/suite/ipc/one_way.h"
#include "lib/suite/ipc/tls_report.h"

namespace pen::ipc {

class TlsReports : public OneWay<tls_report::Attempt, tls_report::ToTlsrpt, tls_report::FromTlsrpt> {
 public:
  static constexpr std::size_t kMost = 1000;

  /// path: of tlsrpt's socket.
  TlsReports(async::Loop& loop, std::string path, Report report = {})
      : OneWay(loop, std::move(path), {tls_report::kName, "results of TLS", kMost}, std::move(report)) {}
};

}  // namespace pen::ipc
