#include "qmgr/scheduler/spent.h"

#include <algorithm>
#include <utility>

#include "lib/base/codec.h"
#include "qmgr/scheduler/gate.h"

namespace pen::qmgr::scheduler {

namespace {
/// Times are those of the wall clock, for the other one begins anew with the machine.
struct KeptPart {
  WallTime last{};
  std::uint64_t count = 0;
  PEN_FIELDS(last, count)
};
struct KeptWindow {
  seconds within{0};  // as it was set
  std::vector<KeptPart> parts;
  PEN_FIELDS(within, parts)
};
struct KeptRecord {
  WallTime written{};
  bool more = false;  // messages went shortly before
  std::vector<KeptWindow> windows;
  PEN_FIELDS(written, more, windows)
};

WallTime ends(const KeptRecord& record) {
  WallTime at{};
  for (const KeptWindow& w : record.windows) {
    for (const KeptPart& p : w.parts) at = std::max(at, p.last + w.within);
    if (record.more) at = std::max(at, record.written + SpentQuotas::kUnwritten + w.within);
  }
  return at;
}
}  // namespace

std::string SpentQuotas::key_of(const Gate& g) {
  return std::string(kSpentKey) + g.group + '|' + g.source + '|' + g.domain + '|' + g.name;
}

SpentQuotas::Kept SpentQuotas::encoded(const Gate& g, bool more) const {
  KeptRecord record{.written = clock_.wall, .more = more, .windows = {}};
  for (const GateQuota& q : g.quotas) {
    KeptWindow& w = record.windows.emplace_back();
    w.within = q.whole.within;
    for (const auto& p : q.window.parts())
      w.parts.push_back({clock_.wall - std::chrono::duration_cast<WallTime::duration>(clock_.now - p.last), p.count});
  }
  return {.value = encode(record), .until = ends(record)};
}

void SpentQuotas::used(Gate& g) {
  if (g.spent == Gate::Spent::unwritten) return;
  g.spent = Gate::Spent::unwritten;
  gates_.insert(&g);
  if (!kept_.empty()) kept_.erase(key_of(g));  // what the windows say is newer
}

void SpentQuotas::recall(Gate& g) {
  if (std::ranges::all_of(g.quotas, &GateQuota::recalled)) return;
  const auto at = kept_.find(key_of(g));
  const auto record = at == kept_.end() ? std::nullopt : decode<KeptRecord>(at->second.value);
  // A clock that was put back must not keep a window closed for longer than its time.
  const auto steady = [this](WallTime then) {
    return clock_.now -
           std::chrono::duration_cast<SteadyTime::duration>(std::max(clock_.wall - then, WallTime::duration(0)));
  };
  for (GateQuota& q : g.quotas) {
    if (std::exchange(q.recalled, true) || !record) continue;
    const auto w = std::ranges::find(record->windows, q.whole.within, &KeptWindow::within);
    if (w == record->windows.end()) continue;
    for (const KeptPart& p : w->parts) q.window.add(p.count, steady(p.last));
    if (record->more && g.bucket.rate().limits())
      q.window.add(static_cast<std::uint64_t>(kUnwritten / g.bucket.rate().interval()) + 1,
                   steady(record->written + kUnwritten));
  }
  if (!record) return;
  // The record stays until mail passes: a window that the gate gets later is in it.
  g.spent = Gate::Spent::unsettled;
  gates_.insert(&g);
}

void SpentQuotas::leaves(Gate& g) {
  if (gates_.erase(&g) == 0) return;
  const std::string key = key_of(g);
  Kept kept = encoded(g, false);
  kept.untold = g.spent != Gate::Spent::settled;
  g.spent = Gate::Spent::settled;
  if (kept_.size() < kMost || kept_.contains(key)) kept_.insert_or_assign(key, std::move(kept));
}

std::vector<Spent> SpentQuotas::take_changes(bool last) {
  std::vector<Spent> out;
  for (auto at = gates_.begin(); at != gates_.end();) {
    Gate& g = **at;
    const bool empty =
        std::ranges::all_of(g.quotas, [this](const GateQuota& q) { return q.window.used(clock_.now) == 0; });
    if (empty && g.spent == Gate::Spent::settled) {
      out.push_back({key_of(g), std::nullopt});
      at = gates_.erase(at);
      continue;
    }
    if (g.spent != Gate::Spent::settled) {
      const bool more = g.spent == Gate::Spent::unwritten && !last;
      out.push_back({key_of(g), encoded(g, more).value});
      g.spent = more ? Gate::Spent::unsettled : Gate::Spent::settled;
    }
    ++at;
  }
  for (auto at = kept_.begin(); at != kept_.end();) {
    if (at->second.until <= clock_.wall) {
      out.push_back({at->first, std::nullopt});
      at = kept_.erase(at);
      continue;
    }
    if (std::exchange(at->second.untold, false)) out.push_back({at->first, at->second.value});
    ++at;
  }
  return out;
}

bool SpentQuotas::load(std::string_view key, std::string_view value) {
  const auto record = decode<KeptRecord>(value);
  if (!record || ends(*record) <= clock_.wall || kept_.size() >= kMost) return false;
  kept_.insert_or_assign(std::string(key), Kept{.value = std::string(value), .until = ends(*record)});
  return true;
}

}  // namespace pen::qmgr::scheduler
