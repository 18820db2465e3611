#pragma once
/// Tells tlsrpt how TLS with other hosts went (RFC 8460), without ever waiting for it.
///
/// Use:     auto reports = std::make_shared<TlsReports>(loop, path);
///          loop.spawn("tls reports", TlsReports::keep_connected(reports));
///          reports->tell(attempt);
/// Bounds:  kMost attempts wait for a connection; what comes on top, or while tlsrpt does not read, is counted, logged and
///          gone: a report is never a reason to hold mail.
/// Thread:  the loop's.
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/sync.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/tls_report.h"

namespace pen::ipc {

class TlsReports {
 public:
  static constexpr std::size_t kMost = 1000;

  /// path: of tlsrpt's socket.
  TlsReports(async::Loop& loop, std::string path)
      : loop_(loop), path_(std::move(path)), wanted_(loop) {}
  void tell(tls_report::Attempt attempt);
  /// As long as the process runs; connects when there is something to tell.
  static async::Task<void> keep_connected(std::shared_ptr<TlsReports> self);
  std::uint64_t told() const { return told_; }
  std::uint64_t lost() const { return lost_; }

 private:
  using Channel = ipc::Channel<tls_report::FromTlsrpt, tls_report::ToTlsrpt>;
  bool send(const tls_report::Attempt& attempt);
  void lose(std::uint64_t n);

  async::Loop& loop_;
  std::string path_;
  async::Event wanted_;
  std::optional<Channel> channel_;
  std::deque<tls_report::Attempt> waiting_;
  std::uint64_t told_ = 0, lost_ = 0;
  SteadyTime complained_{};
};

}  // namespace pen::ipc
