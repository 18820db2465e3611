#include "qmgr/earlier_mail.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/queue_log/scan.h"

namespace pen::qmgr {

namespace {
constexpr std::size_t kSlice = 50;  // entries that are found at a time
constexpr milliseconds kAgain{50};  // for what is on its way to the disk
constexpr milliseconds kLongestPause{1000};
}  // namespace

bool EarlierMail::is_new(std::string_view queue_id) const {
  const auto made = mail::queue_id_time(queue_id);
  if (!made) return false;
  const WallTime now = loop_.clock().wall_now(), known = manager_.log().known_since();
  // A clock that was set back says little, for some time: then what was made just now is new.
  return *made >= (known > now ? now - kAhead : known) && *made < now + kAhead;
}

void EarlierMail::look(const mail::Envelope& envelope, Then then) {
  waiting_.push_back({.queue_id = envelope.queue_id, .arrived = envelope.arrival, .then = std::move(then)});
  if (!std::exchange(running_, true)) loop_.spawn("earlier mail of an id", run(this));
}

void EarlierMail::compare(Waiting& one, const queue_log::Listed& there) const {
  // Its size may be another one: pickup makes a message anew of its drop file, with new signatures.
  const bool same = there.arrived == one.arrived;
  if (one.found != Found::another) one.found = same ? Found::same : Found::another;
  one.durable = one.durable && manager_.log().runners().durable(there.place);
}

async::Task<void> EarlierMail::search(std::deque<Waiting>* some) {
  std::vector<std::string> ids;
  for (const Waiting& one : *some) ids.push_back(one.queue_id);
  const auto scan = manager_.find_stored(std::move(ids), queue_log::InTransit::shown);
  while (!scan->done()) {
    const auto listed = scan->step(kSlice);
    if (!listed) {
      log::warning("the queue cannot be searched for messages that are handed in: {}", listed.error().message());
      for (Waiting& one : *some) one.found = Found::unknown;
      co_return;
    }
    for (const auto& there : *listed)
      for (Waiting& one : *some)
        if (one.queue_id == there.queue_id) compare(one, there);
    co_await loop_.next_turn();
  }
}

async::Task<void> EarlierMail::run(EarlierMail* self) {
  while (!self->waiting_.empty()) {
    std::deque<Waiting> some;
    while (!self->waiting_.empty() && some.size() < kAtOnce) {
      some.push_back(std::move(self->waiting_.front()));
      self->waiting_.pop_front();
    }
    const SteadyTime began = self->loop_.now();
    co_await self->search(&some);
    bool again = false;
    for (Waiting& one : some) {
      if (one.found == Found::same && !one.durable) {
        again = true;
        self->waiting_.push_back(
            {.queue_id = std::move(one.queue_id), .arrived = one.arrived, .then = std::move(one.then)});
      } else {
        one.then(one.found);
      }
    }
    if (self->waiting_.empty()) break;
    const SteadyTime::duration took = self->loop_.now() - began;
    const SteadyTime::duration pause = std::clamp<SteadyTime::duration>(
        took, again ? SteadyTime::duration(kAgain) : SteadyTime::duration(0), kLongestPause);
    if (pause.count() > 0) (void)co_await self->loop_.sleep(pause);
  }
  self->running_ = false;
}

}  // namespace pen::qmgr
