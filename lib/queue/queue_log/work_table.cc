#include "lib/queue/queue_log/work_table.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/queue_log/breakage.h"

namespace pen::queue_log {

namespace {
// The working suffix may be this many times what renewing all messages being worked on would write. Less, and renewing
// would take more of what is written than mail does; at 1 it would never end.
constexpr std::uint64_t kSuffixShare = 3;
}  // namespace

WorkTable::WorkTable(Surroundings& around, SegmentPool& pool, Logs& logs, GarbageMarks& marks)
    : around_(around), pool_(pool), logs_(logs), marks_(marks) {
  table_.reserve(around.options.expected_working);
}

const Working* WorkTable::find(std::string_view queue_id) const {
  if (table_.empty()) return nullptr;  // spares the hash
  const auto it = table_.find(queue_id);
  return it == table_.end() ? nullptr : &it->second;
}

Result<WorkTable::Entry> WorkTable::entry(std::string_view queue_id) {
  if (around_.failed) return fail(QueueLogError::io_error);
  const auto it = table_.find(queue_id);
  if (it == table_.end() || it->second.moving) return fail(QueueLogError::not_found, std::string(queue_id));
  return it;
}

void WorkTable::open(std::string_view queue_id, const Working& work) {
  table_.emplace(queue_id, work);
  starts_.emplace(work.start, queue_id);
  pool_.promise(work.bytes);
  if (!broken(Breakage::unpinned_envelope)) pool_.pin(work.envelope.position.use);
  marks_.add(work.envelope.position, work.start, true);
}

void WorkTable::reopen(Entry entry, const Working& work) {
  close_start(entry->second);
  entry->second = work;
  starts_.emplace(work.start, entry->first);
  pool_.promise(work.bytes);
  if (!broken(Breakage::unpinned_envelope)) pool_.pin(work.envelope.position.use);
  marks_.add(work.envelope.position, work.start, true);
}

void WorkTable::close_start(const Working& work) {
  starts_.erase(work.start);
  pool_.keep_promise(work.bytes);
  marks_.closed(work.start);
  if (!broken(Breakage::unpinned_envelope)) pool_.unpin(work.envelope.position.use);
}

void WorkTable::close(Entry entry) {
  close_start(entry->second);
  table_.erase(entry);
}

// --- on the way to another log ---

void WorkTable::move(Entry entry, Log& into, const Position& replacement) {
  entry->second.moving = true;
  into.moving.push_back({entry->first, replacement});
}

void WorkTable::move_held(std::string_view queue_id, std::uint32_t generation, const Position& from,
                          const Position& to) {
  Log& hold = logs_[kHold];
  pool_.pin(from.use);
  table_.emplace(queue_id, Working{generation, {kHold, from}, Position{}, true, 0});
  hold.moving.push_back({std::string(queue_id), to});
  hold.sync_wanted = true;
}

Result<void> WorkTable::settle_moves(Log& log) {
  while (!log.moving.empty() &&
         (log.moving.front().replacement < log.durable_to || broken(Breakage::moved_before_sync))) {
    const auto work = table_.find(log.moving.front().queue_id);
    PEN_CHECK(work != table_.end());
    if (work->second.start.use == 0) {
      marks_.add(work->second.envelope.position, {});  // move_held()
      logs_[kHold].thinned = true;
    } else {
      const FinishBody body{work->first, work->second.generation, true};
      const auto at = logs_.journal().put(RecordType::finish, body);
      if (!at) {
        if (at.error().is(QueueLogError::no_space)) return {};  // the START stays open; tried again later
        return std::unexpected(at.error());
      }
    }
    close(work);
    log.moving.pop_front();
  }
  return {};
}

bool WorkTable::on_its_way(std::string_view queue_id, const Position& version) const {
  const Working* work = find(queue_id);
  if (work == nullptr) return false;
  if (work->envelope.position == version) return true;
  return work->moving && std::ranges::any_of(logs_, [&](const Log& log) {
           return std::ranges::any_of(
               log.moving, [&](const Moving& m) { return m.replacement == version && m.queue_id == queue_id; });
         });
}

// --- behind the head ---

std::optional<Position> WorkTable::first_start() const {
  return starts_.empty() ? std::nullopt : std::optional(starts_.begin()->first);
}

std::optional<std::string> WorkTable::stale() {
  const Log& journal = logs_.journal();
  const Position end = journal.end();
  const std::uint64_t limit =
      std::max<std::uint64_t>(around_.options.suffix_limit, kSuffixShare * renewed_size_ * starts_.size());
  for (const auto& [at, id] : starts_) {
    const auto& uses = journal.uses();
    const auto first = std::lower_bound(uses.begin(), uses.end(), at.use);
    const auto between = static_cast<std::uint64_t>(uses.end() - first) - 1;
    if (between * around_.options.segment_size + end.offset - at.offset <= limit) break;
    if (!find(id)->moving) return id;
    for (Log& log : logs_)
      if (!log.moving.empty()) log.sync_wanted = true;  // its FINISH waits for that
  }
  return std::nullopt;
}

}  // namespace pen::queue_log
