#include "smtpd/site_flush.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/suite/ipc/ask_once.h"
#include "lib/suite/ipc/queue.h"

namespace pen::smtpd {
namespace {

// A look through a large queue takes its time.
constexpr seconds kPatience{600};

async::Task<Result<std::uint64_t>> order_flush(async::Loop& loop, std::string path, std::string site) {
  namespace queue = ipc::queue;
  queue::Act act;
  act.request = 1;
  act.verb = queue::Verb::flush;
  act.site = std::move(site);
  const auto done = co_await (ipc::ask_once<queue::FromQmgr, queue::ToQmgr, queue::Done>(
      loop, std::move(path), queue::kName, std::move(act), {.until = {.deadline = loop.now() + kPatience}}));
  if (!done) co_return std::unexpected(done.error());
  if (done->outcome == queue::Outcome::ok || done->outcome == queue::Outcome::not_found) co_return done->count;
  co_return fail_errno(done->text, EIO);
}

}  // namespace

SiteFlush::Flush flush_by_qmgr(async::Loop& loop, std::string path) {
  return [&loop, path = std::move(path)](std::string site) { return order_flush(loop, path, std::move(site)); };
}

bool SiteFlush::ask(const std::string& site) {
  if (waiting_.contains(site)) return true;
  if (waiting_.size() >= kMost) return false;
  const auto last = done_.find(site);
  waiting_.emplace(site, last == done_.end() ? loop_.now() : std::max(loop_.now(), last->second + kSame));
  if (!std::exchange(running_, true)) gate_.spawn("flush sites", run_all(this));
  return true;
}

async::Task<void> SiteFlush::run() {
  while (!waiting_.empty()) {
    const auto next = std::ranges::min_element(waiting_, {}, [](const auto& entry) { return entry.second; });
    if (next->second > loop_.now()) {
      // Another domain with a sooner turn may come meanwhile.
      const auto wait = std::min<std::chrono::nanoseconds>(next->second - loop_.now(), kPause);
      (void)co_await loop_.sleep(wait);
      continue;
    }
    const std::string site = next->first;
    waiting_.erase(next);
    const SteadyTime began = loop_.now();
    done_[site] = began;
    const auto count = co_await flush_(site);
    if (count)
      log::info("ETRN {}: {} messages are tried", site, *count);
    else
      log::warning("ETRN {}: unable to talk to the queue manager: {}", site, count.error().message());
    std::erase_if(done_, [this](const auto& entry) { return entry.second + kSame <= loop_.now(); });
    (void)co_await loop_.sleep(std::max<std::chrono::nanoseconds>(kPause, kShare * (loop_.now() - began)));
  }
  running_ = false;
}

}  // namespace pen::smtpd
