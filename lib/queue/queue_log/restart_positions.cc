#include "lib/queue/queue_log/restart_positions.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

bool RestartPositions::settles() const {
  // The save has the marks of what was sent again while recovery read: those must be durable first.
  return settle_after_ && (settle_after_->use == 0 || *settle_after_ < logs_.journal().durable_to ||
                           broken(Breakage::settle_before_copies_are_marked));
}

bool RestartPositions::due() const {
  if (saving_ || (holds_ != 0 && !pool_.starved())) return false;
  const std::uint64_t since = around_.grown - grown_;
  return asked_ || since >= around_.options.save_every ||
         (pool_.free() <= pool_.reserve() && since >= around_.options.segment_size / 4);
}

Position RestartPositions::suffix_start() const {
  const Log& journal = logs_.journal();
  Position start = journal.end();
  if (broken(Breakage::suffix_too_late)) return start;
  // No receiver knows yet that what this commit writes is durable: a receiver may send it again after a crash, and then
  // it must be known.
  if (!broken(Breakage::forget_the_unanswered)) start = std::min(start, journal.durable_to);
  if (const auto open = work_.first_start()) start = std::min(start, *open);
  // A mark that is not on the disk yet is found again by the record that justifies it. Those records rise.
  if (const auto reason = marks_.first_reason()) start = std::min(start, *reason);
  return start;
}

Position RestartPositions::runners_at(const Log& log) const {
  if (log.id() == kJournal) return fresh_.needed_from(runners_[kJournal].at(), log.end());
  return runners_.all_at(log);
}

/// It is sealed like any other: the log may go on before the save is on the disk, and a restart by the positions before
/// it must not miss anything here.
void RestartPositions::close_if_empty(Log& log) {
  if (pool_.has_space() || log.id() == kJournal || !log.open() || log.uses().size() != 1) return;
  const Position end = log.end();
  if (log.durable_to != end || !log.moving.empty() || log.pending() != 0 || pool_.in_use().at(end.use).pins != 0)
    return;
  bool at_end = true;
  runners_.each(log, [&](const LogRunner& runner) { at_end = at_end && runner.at_end(end); });
  if (!at_end) return;
  log.seal();
  runners_.each(log, [&](LogRunner& runner) { runner.restart_at({end.use + 1, 0}); });
}

/// Takes out of use what nothing needs any more once the positions of this moment are saved; marks into it are dropped.
std::vector<Slot> RestartPositions::condemn(std::vector<PendingMark>& taken) {
  std::vector<Slot> given_back;
  const Position suffix = suffix_start();
  std::set<SegmentUse> uses;
  for (Log& log : logs_) {
    const Position runner = runners_at(log);
    while (!log.uses().empty() && !(log.open() && log.uses().size() == 1)) {
      const SegmentUse use = log.uses().front();
      if (pool_.in_use().at(use).pins != 0 || use >= runner.use) break;
      if (log.id() == kJournal && use >= suffix.use) break;
      if (const auto slot = pool_.retire(use)) given_back.push_back(*slot);
      uses.insert(use);
      log.drop_oldest();
    }
  }
  marks_.drop(uses);
  marks_.drop(taken, uses);
  const auto condemned = pool_.retire_condemned();
  given_back.insert(given_back.end(), condemned.begin(), condemned.end());
  if (broken(Breakage::recycle_before_save)) {
    pool_.give_back(given_back, true);
    given_back.clear();
  }
  return given_back;
}

void RestartPositions::recycle_at_once() {
  std::vector<PendingMark> none;
  (void)condemn(none);
}

SavedPositions RestartPositions::now() const {
  SavedPositions p;
  p.sequence = sequence_;
  p.epoch = around_.epoch;
  p.next_use = pool_.next_use();
  p.segment_size = around_.options.segment_size;
  p.suffix = suffix_start();
  for (const Log& log : logs_) {
    SavedLog saved;
    saved.interval = log.disk_interval();
    saved.runner = runners_at(log);
    saved.end = log.end();
    if (!log.moving.empty() && !broken(Breakage::move_without_hold_back))
      saved.end = std::min(saved.end, log.moving.front().replacement);
    saved.oldest = log.uses().empty() ? p.next_use : log.uses().front();
    if (log.uses().empty()) saved.end = {p.next_use, 0};
    p.logs.push_back(saved);
    if (!log.shared()) continue;
    runners_.each(log, [&](const LogRunner& runner) {
      p.runners.push_back({static_cast<std::uint64_t>(runner.interval().count()), runner.at()});
    });
  }
  for (const Slot slot : pool_.damaged().all())
    if (p.damaged.size() < 1000) p.damaged.push_back(slot);
  for (const auto& [use, segment] : pool_.in_use()) {
    if (p.segments.size() == 10000) break;  // what fits the file; only the check for lost segments needs it
    p.segments.push_back({use, segment.header.slot});
  }
  return p;
}

void RestartPositions::begin(std::vector<PendingMark>& garbage) {
  saving_.emplace();
  saving_->condemned = condemn(garbage);
  ++sequence_;
  saving_->positions = encode_positions(now());
  PEN_CHECK(saving_->positions.size() <= kPositionsCopy);
  // Positions that need them no more, and say that they are damaged, are on the disk first.
  saving_->aside = pool_.damaged().take_aside();
  settle_after_.reset();
  asked_ = false;
  grown_ = around_.grown;
}

void RestartPositions::wait_for_journal() {
  Log& journal = logs_.journal();
  saving_->journal_end = journal.end();
  journal.sync_wanted = !journal.synced_soon(saving_->journal_end);
}

bool RestartPositions::ready() const {
  if (!saving_ || !saving_->others_synced) return false;
  return logs_.journal().durable_to >= saving_->journal_end || broken(Breakage::positions_before_journal);
}

void RestartPositions::write(std::vector<BatchStep>& steps) const {
  const std::uint64_t copy = broken(Breakage::positions_in_one_place) ? 0 : sequence_ % 2 * kPositionsCopy;
  steps.push_back({BatchStep::Kind::write, kPositionsSlot, copy, saving_->positions, false});
  steps.push_back({BatchStep::Kind::sync, kPositionsSlot, 0, {}, false});
  ++around_.figures.syncs;
  for (const Slot slot : saving_->aside) steps.push_back({BatchStep::Kind::set_aside, slot, 0, {}, false});
}

void RestartPositions::saved() {
  ++around_.figures.positions_saved;
  pool_.give_back(saving_->condemned);
  saving_.reset();
}

}  // namespace pen::queue_log
