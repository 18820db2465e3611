#include "verify/verifier.h"

#include <algorithm>

namespace pen::verify {

Outcome outcome_of(const std::vector<mail::DeliveryStatus>& results) {
  const mail::DeliveryStatus* best = nullptr;
  const auto rank = [](mail::Action action) {
    if (action == mail::Action::failed) return 0;
    // Of an address that aliases replace the other results tell.
    if (action == mail::Action::expanded) return -1;
    return action == mail::Action::deferred ? 1 : 2;
  };
  for (const auto& r : results)
    if (best == nullptr || rank(r.action) > rank(best->action)) best = &r;
  if (best == nullptr) return {State::deferred, "no result"};
  const int found = rank(best->action);
  return {found == 2 ? State::good : found == 0 ? State::bad : State::deferred, best->text};
}

Verifier::Asked Verifier::ask(ClientNumber client, std::uint64_t request, const std::string& address, WallTime now) {
  const std::string key = Cache::key_of(address);
  const auto known = cache_.find(key, now);
  const auto under_way = probes_.find(key);
  if (known) {
    const bool probe = known->refresh && under_way == probes_.end() && probes_.size() < pending_;
    if (probe) {
      cache_.probed(key, now);
      probes_[key].since = unix_seconds(now);
    }
    return {{request, known->state, known->text}, probe};
  }
  if (under_way == probes_.end() && probes_.size() >= pending_)
    return {{request, State::deferred, "Too many address verification probes under way"}, false};
  Probe& probe = probes_[key];
  if (under_way == probes_.end()) probe.since = unix_seconds(now);
  probe.waiting[client] = request;
  return {{request, State::probing, "Address verification in progress"}, under_way == probes_.end()};
}

std::vector<Verifier::Answer> Verifier::end(const std::string& key, State state, const std::string& text) {
  std::vector<Answer> out;
  const auto at = probes_.find(key);
  if (at == probes_.end()) return out;
  for (const auto& [client, request] : at->second.waiting) out.push_back({client, {request, state, text}});
  probes_.erase(at);
  return out;
}

std::vector<Verifier::Answer> Verifier::ended(const std::string& address, State state, std::string_view text,
                                              WallTime now) {
  const std::string key = Cache::key_of(address);
  const auto holds = cache_.result(key, state, text, now);
  return end(key, holds.state, holds.text);
}

bool Verifier::answered_elsewhere(const std::string& address, WallTime now, std::vector<Answer>& tell) {
  const std::string key = Cache::key_of(address);
  const auto known = cache_.find(key, now);
  if (!known || known->refresh) return false;
  tell = end(key, known->state, known->text);
  return true;
}

std::vector<Verifier::Answer> Verifier::not_sent(const std::string& address, std::string_view why) {
  const std::string key = Cache::key_of(address);
  return end(key, State::deferred, std::string(why.substr(0, ipc::verify::kMostText)));
}

std::vector<Verifier::Answer> Verifier::tick(WallTime wall) {
  const std::int64_t now = unix_seconds(wall);
  std::vector<std::string> lost;
  for (auto& [key, probe] : probes_) {
    probe.since = std::min(probe.since, now);  // the clock was set back
    if (now - probe.since > Cache::kProbeTime.count()) lost.push_back(key);
  }
  std::vector<Answer> out;
  for (const auto& key : lost)
    for (auto& answer : end(key, State::deferred, "The address probe had no result")) out.push_back(std::move(answer));
  return out;
}

void Verifier::gone(ClientNumber client) {
  for (auto& [key, probe] : probes_) probe.waiting.erase(client);
}

}  // namespace pen::verify
