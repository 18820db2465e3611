#include "lib/queue/queue_log/testing/replicated_pair.h"

#include <algorithm>
#include <cerrno>

#include "lib/base/check.h"

namespace pen::testing {

ReplicatedPair::ReplicatedPair(Random random, Mistake mistake) : random_(random), mistake_(mistake) { watch(); }

void ReplicatedPair::watch() {
  for (const Host host : {0U, 1U})
    disks_[host].before_operation = [this](const FaultStorage& /*now*/) {
      if (!at_each_operation) return;
      if (may_start(primary_)) at_each_operation(disks_[primary_]);
      if (may_start(1 - primary_)) at_each_operation(other_without_link());
    };
}

bool ReplicatedPair::may_start(Host host) const {
  if (mistake_ == Mistake::starts_a_copy && copying_) return true;
  return !alone_ || *alone_ == host;
}

FaultStorage ReplicatedPair::other_without_link() const {
  FaultStorage other = disks_[1 - primary_].cut(FaultStorage::Cut::kill, random_);
  const bool in_order = random_.chance(0.5);
  const auto first = random_.below(on_the_way_.size() + 1);
  for (std::size_t i = 0; i < on_the_way_.size(); ++i)
    if (in_order ? i < first : random_.chance(0.5))
      PEN_CHECK(other.write(on_the_way_[i].slot, on_the_way_[i].offset, as_bytes(on_the_way_[i].bytes)).has_value());
  return other;
}

void ReplicatedPair::arrive(std::size_t count) {
  for (; count > 0 && !on_the_way_.empty(); --count) {
    const Write& next = on_the_way_.front();
    PEN_CHECK(there().write(next.slot, next.offset, as_bytes(next.bytes)).has_value());
    on_the_way_.pop_front();
  }
}

Result<void> ReplicatedPair::together_or_alone() {
  if (linked_ || alone_ == primary_ || mistake_ == Mistake::asks_nobody) return {};
  if (arbiter_away) failed_ = true;
  if (failed_) return fail_errno("the other host is gone, and nobody can be asked who goes on", EROFS);
  alone_ = primary_;
  return {};
}

Result<std::vector<ReplicatedPair::SlotInfo>> ReplicatedPair::list() { return here().list(); }

Result<void> ReplicatedPair::read(Slot slot, std::uint64_t offset, MutableBytes into) {
  return here().read(slot, offset, into);
}

Result<void> ReplicatedPair::drop_cache(Slot slot) { return here().drop_cache(slot); }

Result<void> ReplicatedPair::write(Slot slot, std::uint64_t offset, Bytes bytes) {
  PEN_TRY(together_or_alone());
  const auto send = [&] {
    if (mirrored(slot)) on_the_way_.push_back({slot, offset, std::string(as_text(bytes))});
  };
  // Which of the two has it first is nobody's to say.
  const bool sent_first = random_.chance(0.5);
  if (sent_first) {
    send();
    arrive(random_.below(on_the_way_.size() + 1));
  }
  PEN_TRY(here().write(slot, offset, bytes));
  if (!sent_first) send();
  arrive(random_.below(on_the_way_.size() + 1));
  return {};
}

Result<void> ReplicatedPair::sync(Slot slot) {
  PEN_TRY(together_or_alone());
  const bool other = mirrored(slot) && mistake_ != Mistake::answers_early;
  const bool here_first = random_.chance(0.5);
  if (here_first) PEN_TRY(here().sync(slot));
  if (other) {
    arrive(on_the_way_.size());
    PEN_TRY(there().sync(slot));
  }
  if (!here_first) PEN_TRY(here().sync(slot));
  return {};
}

Result<void> ReplicatedPair::allocate(Slot slot, std::uint64_t size) {
  PEN_TRY(together_or_alone());
  PEN_TRY(here().allocate(slot, size));
  if (copying_) return {};  // its turn comes
  if (linked_) PEN_TRY(there().allocate(slot, size));
  return {};
}

Result<void> ReplicatedPair::set_aside(Slot slot) {
  PEN_TRY(together_or_alone());
  PEN_TRY(here().set_aside(slot));
  if (!mirrored(slot)) return {};
  arrive(on_the_way_.size());
  copied_.erase(slot);
  return there().set_aside(slot);
}

void ReplicatedPair::lose_link() {
  if (!linked_) return;
  auto hook = std::move(there().before_operation);
  there() = other_without_link();
  there().before_operation = std::move(hook);
  on_the_way_.clear();
  linked_ = copying_ = false;
  copied_.clear();
}

void ReplicatedPair::mend_link() {
  if (linked_ || !alone_) return;
  auto hook = std::move(there().before_operation);
  there() = FaultStorage();
  there().before_operation = std::move(hook);
  linked_ = copying_ = true;
}

void ReplicatedPair::copy_some() {
  if (!copying_) return;
  const auto slots = *here().list();
  const auto next =
      std::find_if(slots.begin(), slots.end(), [this](const auto& s) { return !copied_.contains(s.slot); });
  if (next != slots.end()) {
    constexpr std::size_t kPiece = 4096;
    const std::string content = here().content(next->slot);
    PEN_CHECK(there().allocate(next->slot, content.size()).has_value());
    for (std::size_t at = 0; at < content.size(); at += kPiece)
      PEN_CHECK(there().write(next->slot, at, as_bytes(std::string_view(content).substr(at, kPiece))).has_value());
    copied_.insert(next->slot);
    return;
  }
  arrive(on_the_way_.size());
  for (const auto& slot : slots) PEN_CHECK(there().sync(slot.slot).has_value());
  copying_ = false;
  copied_.clear();
  alone_.reset();
}

void ReplicatedPair::restart(Host host, FaultStorage::Cut how, FaultStorage::Cut other) {
  PEN_CHECK(may_start(host));
  lose_link();
  primary_ = host;
  here() = here().cut(how, random_);
  there() = there().cut(other, random_);
  failed_ = arbiter_away = false;
  alone_ = primary_;
  watch();
}

}  // namespace pen::testing
