#include "anvil/suppression_store.h"

#include <map>

#include "lib/base/text.h"

namespace pen::anvil {
namespace {

using State = SuppressionRecord::State;
namespace messages = ipc::suppression;

constexpr std::size_t kBytesOfOne = 1024;  // of the file, generously: LMDB writes pages anew
constexpr std::size_t kLeastMap = std::size_t{64} << 20;
constexpr std::size_t kLookedForRoom = 200;
constexpr seconds kRemovalHeld{30 * 86'400};

std::string behind(std::string_view key) {
  std::string next(key);
  if (!next.empty()) next += '\0';
  return next;
}

}  // namespace

/// The changes of one transaction, and what they make of the counts.
class SuppressionStore::Batch {
 public:
  Batch(SuppressionStore& store, const SuppressionRules& rules, WallTime now)
      : store_(store), rules_(rules), now_(now), counts_{store.listed_, store.watched_, store.strangers_} {}

  Result<Outcome> take(const messages::Failure& failure) {
    Outcome out{.key = suppression_key(failure.tenant, failure.address)};
    if (out.key.empty()) return out;
    PEN_TRY_ASSIGN(const auto known, stored(out.key));
    out.known = known && known->listed(now_);
    auto verdict = judged_after(known, failure, rules_, now_);
    if (!verdict.changed) return out;
    if (verdict.added && no_room(out, known, verdict.record)) return out;
    if (verdict.record.state == State::watched && !known) PEN_TRY(make_room());
    out.added = verdict.added;
    put(out, known, std::move(verdict.record));
    return out;
  }

  Result<Outcome> take(const messages::Add& add) {
    const messages::Entry& e = add.entry;
    Outcome out{.key = suppression_key(e.tenant, e.address)};
    if (out.key.empty()) {
      out.error = "no address, or too long";
      return out;
    }
    if (!messages::is_reason(e.reason)) {
      out.error = "there is no such reason";
      return out;
    }
    if (e.expires != 0 && e.expires <= unix_seconds(now_)) {
      out.error = "its end has passed";
      return out;
    }
    PEN_TRY_ASSIGN(const auto known, stored(out.key));
    out.known = known && known->listed(now_);
    SuppressionRecord r;
    r.state = State::listed;
    if (no_room(out, known, r)) {
      out.error = "the list is full (suppression_limit)";
      return out;
    }
    r.reason = e.reason;
    r.changed = now_;
    r.expires = e.expires;
    r.text = printable(e.text, messages::kMostText);
    put(out, known, std::move(r));
    return out;
  }

  Result<Outcome> take(const messages::Remove& remove) {
    Outcome out{.key = suppression_key(remove.tenant, remove.address)};
    if (out.key.empty()) return out;
    PEN_TRY_ASSIGN(const auto known, stored(out.key));
    out.known = known && known->listed(now_);
    // What was counted goes too: the next failure is the first one again.
    SuppressionRecord r;
    r.state = State::removed;
    r.changed = now_;
    r.expires = unix_seconds(now_ + kRemovalHeld);
    if (store_.options_.keeps_removals) {
      put(out, known, std::move(r));
    } else {
      if (known) erase(out.key, *known);
      out.record = std::move(r);
    }
    return out;
  }

  Result<Outcome> take(const Heard& heard) {
    Outcome out{.key = heard.key};
    PEN_TRY_ASSIGN(const auto known, stored(heard.key));
    out.known = known && known->listed(now_);
    if (known && known->changed >= heard.record.changed) return out;
    SuppressionRecord r = heard.record;
    if (!r.take_in()) return out;
    if (r.state == State::listed && no_room(out, known, r)) return out;
    put(out, known, std::move(r));
    return out;
  }

  Result<void> commit() {
    std::vector<lmdb::Change> changes;
    changes.reserve(pending_.size());
    for (auto& [key, value] : pending_) changes.push_back({key, value ? std::optional(encode(*value)) : std::nullopt});
    if (!changes.empty()) PEN_TRY(store_.file_->write(changes));
    store_.count(counts_);
    return {};
  }

 private:
  Result<std::optional<SuppressionRecord>> stored(const std::string& key) {
    if (const auto at = pending_.find(key); at != pending_.end()) return at->second;
    std::optional<SuppressionRecord> found;
    PEN_TRY_ASSIGN(const auto value, store_.file_->find(key));
    if (value) found = decode<SuppressionRecord>(*value);
    return found;
  }
  /// For one more of the list.
  bool no_room(Outcome& out, const std::optional<SuppressionRecord>& known, const SuppressionRecord& next) {
    if (known && known->state == State::listed) return false;
    out.full = store_.full(counts_, next);
    out.strangers = out.full && counts_.listed < store_.options_.limit;
    return out.full;
  }
  void put(Outcome& out, const std::optional<SuppressionRecord>& known, SuppressionRecord record) {
    out.record = record;
    counts_.add(known, kLess);
    counts_.add(out.record);
    pending_[out.key] = std::move(record);
  }
  void erase(const std::string& key, const SuppressionRecord& known) {
    counts_.add(known, kLess);
    pending_[key] = std::nullopt;
  }
  /// A watched address goes where there are too many: the next one behind the hand, which goes round.
  Result<void> make_room() {
    if (counts_.watched < store_.options_.limit / 4) return {};
    for (int round = 0; round < 2; ++round) {
      std::optional<std::pair<std::string, SuppressionRecord>> victim;
      std::size_t looked = 0;
      PEN_TRY(store_.file_->each_from(behind(store_.hand_), [&](std::string_view key, std::string_view value) {
        store_.hand_ = key;
        auto record = decode<SuppressionRecord>(value);
        if (record && record->state == State::watched && !pending_.contains(std::string(key)))
          victim = {std::string(key), *std::move(record)};
        return !victim && ++looked < kLookedForRoom;
      }));
      if (victim) {
        erase(victim->first, victim->second);
        return {};
      }
      if (looked < kLookedForRoom) store_.hand_.clear();  // the end of the file: on from its beginning
    }
    return {};
  }

  static constexpr auto kLess = static_cast<std::size_t>(-1);

  SuppressionStore& store_;
  const SuppressionRules& rules_;
  WallTime now_;
  Counts counts_;
  std::map<std::string, std::optional<SuppressionRecord>> pending_;
};

void SuppressionStore::Counts::add(const std::optional<SuppressionRecord>& record, std::size_t by) {
  if (!record) return;
  if (record->state == State::listed) {
    listed += by;
    if (record->by_strangers) strangers += by;
  }
  if (record->state == State::watched) watched += by;
}

bool SuppressionStore::full(const Counts& counts, const SuppressionRecord& next) const {
  return counts.listed >= options_.limit || (next.by_strangers && counts.strangers >= options_.limit / 2);
}

void SuppressionStore::count(const Counts& counts) {
  listed_ = counts.listed;
  watched_ = counts.watched;
  strangers_ = counts.strangers;
}

Result<std::shared_ptr<SuppressionStore>> SuppressionStore::open(const std::string& directory, const Options& options) {
  PEN_TRY_ASSIGN(auto file, lmdb::HintStore::open(directory, "the suppression list begins anew: import its last export",
                                                  kLeastMap + options.limit * kBytesOfOne));
  std::shared_ptr<SuppressionStore> out(new SuppressionStore(std::move(file), options));
  Counts counts;
  PEN_TRY(out->file_->each(
      [&](std::string_view, std::string_view value) { counts.add(decode<SuppressionRecord>(value)); }));
  out->count(counts);
  return out;
}

Result<std::optional<SuppressionRecord>> SuppressionStore::find(std::string_view key, WallTime now) const {
  std::optional<SuppressionRecord> found;
  PEN_TRY_ASSIGN(const auto value, file_->find(key));
  if (value) found = decode<SuppressionRecord>(*value);
  if (found && !found->holds(now)) found.reset();
  return found;
}

Result<std::vector<SuppressionStore::Outcome>> SuppressionStore::apply(const std::vector<Change>& changes,
                                                                       const SuppressionRules& rules, WallTime now) {
  Batch batch(*this, rules, now);
  std::vector<Outcome> out;
  out.reserve(changes.size());
  for (const Change& change : changes) {
    auto taken = std::visit([&](const auto& one) { return batch.take(one); }, change);
    if (!taken) return std::unexpected(std::move(taken).error());
    out.push_back(*std::move(taken));
  }
  PEN_TRY(batch.commit());
  return out;
}

Result<SuppressionStore::Page> SuppressionStore::list(std::string_view after, bool watched, std::size_t most,
                                                      WallTime now) const {
  Page page;
  page.after = after;
  std::size_t looked = 0;
  PEN_TRY(file_->each_from(behind(after), [&](std::string_view key, std::string_view value) {
    if (page.entries.size() >= most || ++looked > kLooked) {
      page.more = true;
      return false;
    }
    page.after = key;
    auto record = decode<SuppressionRecord>(value);
    if (!record || record->state == State::removed || !record->holds(now)) return true;
    if (record->state == State::watched && !watched) return true;
    page.entries.push_back(entry_of(key, *std::move(record)));
    return true;
  }));
  return page;
}

Result<std::size_t> SuppressionStore::collect(std::size_t most, WallTime now) {
  std::vector<lmdb::Change> gone;
  std::size_t looked = 0;
  Counts counts;
  PEN_TRY(file_->each_from(behind(hand_), [&](std::string_view key, std::string_view value) {
    hand_ = key;
    const auto record = decode<SuppressionRecord>(value);
    if (!record || !record->holds(now)) {
      gone.push_back({std::string(key), std::nullopt});
      counts.add(record);
    }
    return ++looked < most;
  }));
  if (looked < most) hand_.clear();
  if (gone.empty()) return 0;
  PEN_TRY(file_->write(gone));
  count({listed_ - counts.listed, watched_ - counts.watched, strangers_ - counts.strangers});
  return gone.size();
}

}  // namespace pen::anvil
