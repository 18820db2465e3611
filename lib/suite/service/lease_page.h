#pragma once
/// Until when this host may write to the queue: one number in memory that master keeps and qmgr reads before each
/// write.
///
/// Use:     master:  PEN_TRY_ASSIGN(auto page, LeasePage::create());  page.hold_until(boot_now() + …);
///          qmgr:    PEN_TRY_ASSIGN(auto page, LeasePage::open(fd));  if (!page.holds()) … no write, no answer
/// Clock:   CLOCK_BOOTTIME: it goes on while the host sleeps, and while a process is stopped.
/// Thread:  any.
#include <atomic>
#include <cstdint>
#include <utility>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::service {

/// Nanoseconds since the start of this host, sleep included.
std::chrono::nanoseconds boot_now();

class LeasePage {
 public:
  static Result<LeasePage> create();
  static Result<LeasePage> open(Fd fd);
  LeasePage(LeasePage&& o) noexcept : fd_(std::move(o.fd_)), until_(std::exchange(o.until_, nullptr)) {}
  LeasePage& operator=(LeasePage&&) = delete;
  ~LeasePage();

  void hold_until(std::chrono::nanoseconds boot_time) const { until_->store(boot_time.count()); }
  std::chrono::nanoseconds until() const { return std::chrono::nanoseconds(until_->load()); }
  bool holds() const { return boot_now() < until(); }
  int fd() const { return fd_.get(); }

 private:
  LeasePage(Fd fd, std::atomic<std::int64_t>* until) : fd_(std::move(fd)), until_(until) {}
  static Result<LeasePage> map(Fd fd);
  Fd fd_;
  std::atomic<std::int64_t>* until_;
};

}  // namespace pen::service
