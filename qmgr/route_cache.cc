#include "qmgr/route_cache.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::qmgr {

std::string_view RouteCache::domain_of(std::string_view recipient) {
  const auto at = recipient.rfind('@');
  if (at == std::string_view::npos || at == 0 || at + 1 == recipient.size()) return {};
  // What a local part may hide (user%host, host!user, "user@host") is trivial-rewrite's to see.
  const std::string_view local = recipient.substr(0, at);
  const bool plain = std::all_of(local.begin(), local.end(), [](char c) {
    return ascii_alnum(c) || c == '.' || c == '-' || c == '_' || c == '+' || c == '=';
  });
  if (!plain) return {};
  folded_ = to_lower(recipient.substr(at + 1));
  return folded_;
}

const ipc::route::Resolved* RouteCache::find(std::string_view recipient, SteadyTime now) {
  const std::string_view domain = domain_of(recipient);
  if (domain.empty()) return nullptr;
  const auto it = routes_.find(domain);
  if (it == routes_.end()) return nullptr;
  Route& route = it->second;
  const auto left = std::chrono::floor<seconds>(route.until - now);
  if (left < seconds(1)) {
    routes_.erase(it);
    return nullptr;
  }
  route.answer.valid_for = left;
  route.answer.recipient = recipient;
  return &route.answer;
}

void RouteCache::add(std::string_view recipient, const ipc::route::Resolved& answer, SteadyTime now) {
  // An address that was completed or rewritten says nothing about how the next one would be.
  if (!answer.for_domain || answer.recipient != recipient) return;
  const std::string_view domain = domain_of(recipient);
  if (domain.empty()) return;
  if (routes_.size() >= kMost) routes_.clear();
  routes_.insert_or_assign(std::string(domain), Route{answer, now + std::min(answer.valid_for, kLongest)});
}

}  // namespace pen::qmgr
