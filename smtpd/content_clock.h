#pragma once
/// How long a client may take for the content of one DATA or BDAT.
///
/// Use:     ContentClock clock(settings, loop);
///          auto part = co_await read(clock.until(until()));  clock.came(bytes);
/// Rule:    the client has smtpd_timeout for the whole content; every smtpd_min_data_rate bytes add a second, up to
///          smtpd_timeout. Only time spent waiting for the client counts. Without smtpd_per_request_deadline each
///          read has the whole time anew.
/// Source:  postconf(5), smtpd_per_request_deadline and smtpd_min_data_rate.
#include <algorithm>

#include "lib/base/async/loop.h"
#include "lib/config/settings.h"

namespace pen::smtpd {

class ContentClock {
 public:
  ContentClock(const config::Settings& s, const async::Loop& loop)
      : loop_(loop),
        whole_(s.smtpd_timeout),
        left_(whole_),
        rate_(static_cast<std::uint64_t>(s.smtpd_min_data_rate)),
        runs_(s.smtpd_per_request_deadline) {}

  /// The deadline of the read that begins now.
  async::Until until(async::Until usual) {
    began_ = loop_.now();
    usual.deadline = began_ + left_;
    return usual;
  }
  /// Counts the bytes of a read. Called before they are processed, because that time is not the client's.
  void came(std::size_t bytes) {
    if (!runs_) return;
    const std::chrono::nanoseconds gained{std::min<std::uint64_t>(bytes, kMost) * kSecond / rate_};
    left_ = std::min(whole_, left_ - (loop_.now() - began_) + gained);
  }

 private:
  static constexpr std::uint64_t kMost = 1U << 30;  // nanoseconds for more would not fit
  static constexpr std::uint64_t kSecond = 1'000'000'000;
  const async::Loop& loop_;
  std::chrono::nanoseconds whole_, left_;
  std::uint64_t rate_;
  bool runs_;
  SteadyTime began_{};
};

}  // namespace pen::smtpd
