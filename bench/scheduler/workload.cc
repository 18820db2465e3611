#include "bench/scheduler/workload.h"

#include <cmath>

#include "lib/base/check.h"

namespace pen::simulation {

Workload::Workload(const Internet& internet, std::vector<Stream> streams, std::uint64_t seed)
    : internet_(internet), streams_(std::move(streams)) {
  std::uint64_t number = 0;
  for (const Stream& s : streams_) {
    states_.push_back({Random(seed * 1'000'003 + ++number), s.messages, SteadyTime(s.start)});
  }
  find_next();
}

void Workload::find_next() {
  next_ = states_.size();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].left == 0) continue;
    if (next_ == states_.size() || states_[i].next < states_[next_].next) next_ = i;
  }
}

DomainNumber Workload::draw(const Stream& stream, Random& random) const {
  if (stream.to == Stream::To::tarpit) return internet_.tarpit();
  if (stream.to == Stream::To::customer && !internet_.customer().empty())
    return internet_.customer()[random.below(internet_.customer().size())];
  for (int tries = 0; tries < 100'000; ++tries) {
    const DomainNumber d = internet_.draw(random);
    if (stream.to == Stream::To::anybody) return d;
    if (stream.to == Stream::To::ordinary) {
      const HostNumber first = internet_.cluster(internet_.cluster_of(d)).first;
      if (internet_.ordinary(d) && !internet_.customers(first)) return d;
      continue;
    }
    if (internet_.reachable(d) == (stream.to == Stream::To::reachable)) return d;
  }
  PEN_CHECK(false, "the simulated internet has no such domain");
  return 0;
}

Arrival Workload::take() {
  PEN_CHECK(!ended());
  const Stream& stream = streams_[next_];
  State& state = states_[next_];
  Arrival a;
  a.at = state.next;
  a.stream = next_;
  std::uint32_t recipients = stream.recipients;
  if (stream.recipients_most > recipients) {
    const double ratio = static_cast<double>(stream.recipients_most) / recipients;
    recipients = static_cast<std::uint32_t>(recipients * std::pow(ratio, state.random.unit()));
  }
  a.domains.reserve(recipients);
  for (std::uint32_t i = 0; i < recipients; ++i) a.domains.push_back(draw(stream, state.random));
  --state.left;
  if (stream.rate > 0) {
    const double wait = -std::log(1.0 - state.random.unit()) / stream.rate;
    state.next += microseconds(static_cast<std::int64_t>(wait * 1e6) + 1);
  }
  find_next();
  return a;
}

}  // namespace pen::simulation
