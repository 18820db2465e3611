#include "lib/receive/milter/endpoints.h"

#include <fmt/format.h>

namespace pen::milter {

bool Endpoint::may_try(SteadyTime now) {
  if (!down_) return true;
  if (trying_ || now < down_until_) return false;
  trying_ = true;
  return true;
}

void Endpoint::opened(const Negotiation& agreed) {
  down_ = trying_ = false;
  pace_.forget();
  last_ = agreed;
  ++counts.connections;
}

bool Endpoint::failed(SteadyTime now) {
  const bool was_up = !down_;
  ++counts.failures;
  // Sessions that began to connect before the first failure end later: they do not make the pause longer.
  if (was_up || trying_) down_until_ = now + std::max(pace_.next(), kPace.first);
  down_ = true;
  trying_ = false;
  return was_up;
}

bool Endpoint::only_mail() const {
  if (!last_) return false;
  const auto silent = [&](Stage stage) { return !last_->wants(stage) || !last_->replies(stage); };
  return silent(Stage::connect) && silent(Stage::helo);
}

std::vector<std::string> Endpoints::status() const {
  std::vector<std::string> out;
  for (const auto& [name, at] : all_)
    out.push_back(fmt::format("milter {}: {}, {} connections of {}, {} messages, {} failures", name,
                              at.down() ? "down" : "up", at.counts.live, at.counts.connections, at.counts.messages,
                              at.counts.failures));
  return out;
}

}  // namespace pen::milter
