#include "lib/ipc/tls_reports.h"

#include <algorithm>

#include "lib/base/log.h"

namespace pen::ipc {

bool TlsReports::send(const tls_report::Attempt& attempt) {
  if (!channel_ || !channel_->is_open() || channel_->congested() || !channel_->send(attempt))
    return false;
  ++told_;
  return true;
}

void TlsReports::lose(std::uint64_t n) {
  lost_ += n;
  const SteadyTime now = loop_.now();
  if (complained_ != SteadyTime{} && now < complained_ + seconds(60)) return;
  complained_ = now;
  log::warning("{}: not reading: {} results of TLS with other hosts are lost for reports so far",
               path_, lost_);
}

void TlsReports::tell(tls_report::Attempt attempt) {
  if (waiting_.empty() && send(attempt)) return;
  if (waiting_.size() >= kMost) return lose(1);
  waiting_.push_back(std::move(attempt));
  wanted_.set();
}

async::Task<void> TlsReports::keep_connected(std::shared_ptr<TlsReports> self) {
  constexpr seconds kFirst{1}, kLongest{60};
  seconds wait = kFirst;
  bool complained = false;
  for (;;) {
    (void)co_await self->wanted_.wait();
    self->wanted_.reset();
    auto channel = co_await ipc::connect_channel<tls_report::FromTlsrpt, tls_report::ToTlsrpt>(
        self->loop_, self->path_, tls_report::kName, {.deadline = self->loop_.now() + seconds(30)});
    if (channel) {
      complained = false;
      wait = kFirst;
      self->channel_.emplace(*std::move(channel));
      while (!self->waiting_.empty()) {
        if (!self->send(self->waiting_.front())) break;
        self->waiting_.pop_front();
      }
      // What did not fit at once goes: more than this is never kept behind.
      if (!self->waiting_.empty()) self->lose(self->waiting_.size());
      self->waiting_.clear();
      (void)co_await self->channel_->receive();  // nothing is ever said to us: it is the end
      self->channel_.reset();
    } else if (!std::exchange(complained, true)) {
      log::warning("connect to {}: {}: results of TLS are not reported for now", self->path_,
                   channel.error().message());
    }
    (void)co_await self->loop_.sleep(wait);
    wait = std::min(wait * 2, kLongest);
    if (!self->waiting_.empty()) self->wanted_.set();
  }
}

}  // namespace pen::ipc
