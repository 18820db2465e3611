#pragma once
/// ETRN: asks the queue manager to try all deferred mail for a domain now, at a pace that no stranger can hasten.
///
/// Use:     SiteFlush flush(loop, flush_by_qmgr(loop, queue_path("public/qmgr")));
///          if (!flush.ask("customer.example")) … 458 …
/// Pace:    one domain at a time. After each there is a pause of kPause, and of kShare times what the look through the
///          queue has taken, so that ETRN gets a small part of the queue manager. A domain comes again kSame after its
///          last flush at the earliest; a client that asks sooner asks for that one.
/// Bounds:  kMost domains wait.
/// Ends:    with the process: what waits is forgotten, for mail is tried again at its time in any case.
/// Thread:  the loop's.
/// Source:  RFC 1985; Postfix ETRN_README.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lib/base/async/sync.h"

namespace pen::smtpd {

class SiteFlush {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr seconds kPause{5}, kSame{60};
  static constexpr int kShare = 4;

  /// Returns how many messages are tried.
  using Flush = std::function<async::Task<Result<std::uint64_t>>(std::string site)>;
  SiteFlush(async::Loop& loop, Flush flush) : loop_(loop), flush_(std::move(flush)), gate_(loop) {}
  SiteFlush(const SiteFlush&) = delete;
  SiteFlush& operator=(const SiteFlush&) = delete;

  /// site: in lower case. False: too many domains wait.
  bool ask(const std::string& site);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  async::Task<void> run();
  static async::Task<void> run_all(SiteFlush* self) { return self->run(); }

  async::Loop& loop_;
  Flush flush_;
  std::map<std::string, SteadyTime> waiting_, done_;  // when its turn is at the earliest; when it was flushed
  bool running_ = false;
  async::Gate gate_;  // last: its task uses the rest
};

/// A Flush over the queue manager's socket, a connection for each.
SiteFlush::Flush flush_by_qmgr(async::Loop& loop, std::string path);

}  // namespace pen::smtpd
