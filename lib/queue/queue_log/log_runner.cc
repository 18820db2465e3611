#include "lib/queue/queue_log/log_runner.h"

#include <algorithm>

namespace pen::queue_log {

namespace {
constexpr int kRunnerSlice = 256;  // records a runner looks at in one call: tens of microseconds

/// It is noted and passed over; any other error is the disk's.
bool is_gone(const Error& e) { return e.is(QueueLogError::damaged) || e.is(QueueLogError::not_found); }
}  // namespace

void LogRunner::restart_at(const Position& at) {
  reader_.reset();
  first_unsynced_.reset();
  at_ = at;
}

void LogRunner::make_due(WallTime now) {
  if (head_) head_due_ = std::min(head_due_, now);
}

void LogRunner::wrote(const Position& replacement, WallTime now) {
  last_ = replacement;
  if (!first_unsynced_) first_unsynced_ = now;
}

bool LogRunner::owns(const LogReader::Record& record) const {
  if (!log_.shared()) return true;
  const auto view = decode<EnvelopeView>(as_text(record.body));
  if (!view) return true;  // damage, for the next reader to report
  const auto of_version = seconds(view->interval);
  return of_version > interval_.over && of_version <= interval_.upto;
}

Result<Due> LogRunner::next(WallTime now) {
  if (head_) {
    PEN_TRY_ASSIGN(auto due, head(now));
    if (due) return *std::move(due);
  }
  for (int looked = 0; looked < kRunnerSlice;) {
    if (fresh_ != nullptr && at_ >= fresh_->read_to()) {
      PEN_TRY_ASSIGN(auto due, fresh());
      if (due) return *std::move(due);
    }
    const Position limit = fresh_ != nullptr ? std::min(fresh_->read_to(), log_.durable_to) : log_.durable_to;
    if (at_ >= limit) return unsynced(now);
    if (!reader_) {
      reader_limit_ = limit;
      reader_ = std::make_unique<LogReader>(around_.storage, log_.segments(), at_, limit, SegmentReader::Search::whole);
    }
    PEN_TRY_ASSIGN(const auto got, reader_->next());
    ++looked;
    switch (got) {
      case LogReader::Got::more:
        looked += kRunnerSlice / 16;
        break;
      case LogReader::Got::end:
        damage_.note_unfinished(*reader_);
        reader_.reset();
        at_ = reader_limit_;  // what was synced since is read next
        break;
      case LogReader::Got::hole:
        damage_.note_hole(reader_->hole(), log_.id());
        break;
      case LogReader::Got::record: {
        PEN_TRY_ASSIGN(auto due, record(now));
        if (due) return *std::move(due);
        break;
      }
    }
  }
  return Due{{}, {}, true};
}

/// What it found before, if that is still there.
LogRunner::Found LogRunner::head(WallTime now) {
  PEN_TRY_ASSIGN(const bool gone, envelopes_.gone(*head_));
  if (!gone) {
    if (head_due_ > now) {
      // The head's time was computed when the clock showed something else: never wait longer than
      // the interval.
      head_due_ = std::min(head_due_, now + interval_.own);
      return Due{{}, head_due_, false};
    }
    auto stored = envelopes_.read({log_.id(), *head_});
    if (stored) return Due{*std::move(stored), {}, false};
    if (!is_gone(stored.error())) return std::unexpected(std::move(stored).error());
    damage_.note_lost({log_.id(), *head_});
  }
  if (reader_) at_ = std::max(at_, reader_->at());
  head_.reset();
  return std::nullopt;
}

/// New mail, when what lies before it was read. nullopt: there was too much of it, the journal is to be read on.
LogRunner::Found LogRunner::fresh() {
  reader_.reset();
  while (const auto at = fresh_->first()) {
    if (*at >= log_.durable_to) return Due{};
    auto stored = envelopes_.read({kJournal, *at});
    if (stored) return Due{*std::move(stored), {}, false};
    if (!is_gone(stored.error())) return std::unexpected(std::move(stored).error());
    damage_.note_lost({kJournal, *at});
    fresh_->drop_first();
  }
  const auto lost = fresh_->take_lost();
  if (!lost) return Due{};
  at_ = *lost;
  fresh_->set_read_to(log_.end());
  return std::nullopt;
}

/// At the end of what is durable: when what was written since will be due.
Due LogRunner::unsynced(WallTime now) {
  if (fresh_ != nullptr || last_.use == 0 || last_ < log_.durable_to) return {};
  const WallTime due = first_unsynced_ ? log_.due(log_.durable_to, interval_.own, *first_unsynced_, now) : now;
  if (due <= now && !log_.syncing(last_)) log_.sync_wanted = true;
  return {{}, due, false};
}

/// The record that the reader stands at: the next head, if it is a version of this runner that lives.
LogRunner::Found LogRunner::record(WallTime now) {
  const LogReader::Record& record = reader_->record();
  if (record.type != RecordType::envelope || record.garbage || !owns(record)) {
    pass_record();
    return std::nullopt;
  }
  PEN_TRY_ASSIGN(const bool gone, envelopes_.gone(record.position));
  auto body = gone ? std::nullopt : decode<EnvelopeBody>(as_text(record.body));
  if (body && !well_formed(view_of(*body))) body.reset();
  if (!body) {
    if (!gone) damage_.note_malformed(record, log_.id());
    pass_record();
    return std::nullopt;
  }
  at_ = record.position;
  head_ = record.position;
  head_due_ = log_.due(record.position, log_.interval_of(body->interval), body->appended, now);
  if (head_due_ > now) return Due{{}, head_due_, false};
  return Due{envelopes_.stored({log_.id(), record.position}, record.epoch, *std::move(body)), {}, false};
}

}  // namespace pen::queue_log
