#include "smtpd/policy_servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"

namespace pen::smtpd {
namespace {

// A server in trouble makes every message fail: the log need not have them all.
constexpr seconds kWarnEvery{1};

/// A server that was started anew, or is about to be: worth a line only if the next try fails too.
bool usual(const Error& error) {
  return error.is_errno(EPIPE) || error.is_errno(ECONNRESET) || error.is(async::WaitError::closed) ||
         error.is(PolicyServerError::unreachable) || error.is(PolicyServerError::down);
}

}  // namespace

std::shared_ptr<PolicyServers::Kept> PolicyServers::endpoint(const std::shared_ptr<const PolicyService>& service) {
  auto found = endpoints_.find(service->text);
  if (found == endpoints_.end()) {
    if (endpoints_.size() >= kEndpoints) {
      auto oldest = endpoints_.end();
      for (auto at = endpoints_.begin(); at != endpoints_.end(); ++at)
        if (at->second.use_count() == 1 && (oldest == endpoints_.end() || at->second->used < oldest->second->used))
          oldest = at;
      if (oldest == endpoints_.end()) return nullptr;
      endpoints_.erase(oldest);
    }
    found = endpoints_.emplace(service->text, std::shared_ptr<Kept>(new Kept{.endpoint{loop_, names_, service}})).first;
  }
  found->second->used = loop_.now();
  return found->second;
}

void PolicyServers::warn(Kept& kept, const std::string& why) const {
  if (kept.warned != SteadyTime::min() && loop_.now() < kept.warned + kWarnEvery) return;
  kept.warned = loop_.now();
  log::warning("problem talking to server {}: {}", kept.endpoint.service().address.text(), why);
}

async::Task<std::optional<std::string>> PolicyServers::ask(std::shared_ptr<const PolicyService> service,
                                                           std::uint64_t transaction, PolicyEndpoint::Request request,
                                                           bool utf8) {
  const std::shared_ptr<Kept> kept = endpoint(service);
  if (!kept) {
    log::warning("more than {} policy services are in use: {} is not asked", kEndpoints, service->address.text());
    co_return std::nullopt;
  }
  for (int tries = 1;; ++tries) {
    auto action = co_await kept->endpoint.attempt(transaction, request, utf8);
    if (action) co_return *std::move(action);
    const bool last = tries >= service->try_limit;
    if (last || !usual(action.error())) warn(*kept, action.error().message());
    if (last) co_return std::nullopt;
    (void)co_await loop_.sleep(service->retry_delay);
  }
}

std::vector<std::string> PolicyServers::status() const {
  std::vector<std::string> lines;
  for (const auto& [name, kept] : endpoints_) {
    const auto& c = kept->endpoint.counts();
    const auto& endpoint = kept->endpoint;
    lines.push_back(fmt::format(
        "policy service {}: {}, requests {}, failed {}, connections {} of {} tried ({} open), waiting {} (at most {}), "
        "slowest answer {} ms",
        endpoint.service().address.text(), endpoint.is_down() ? "down: " + endpoint.last_error() : "up", c.requests,
        c.failed, c.connections, c.connects, c.open, c.waiting, c.most_waiting,
        std::chrono::duration_cast<milliseconds>(c.slowest).count()));
  }
  return lines;
}

}  // namespace pen::smtpd
