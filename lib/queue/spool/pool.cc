#include "lib/queue/spool/pool.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/queue/spool/breakage.h"

namespace pen::spool {

void Pool::found(FileNumber file) {
  files_.emplace(file, File{});
  last_file_ = std::max(last_file_, file);
}

std::optional<Pool::Leased> Pool::lease(bool only_fresh) {
  if (leases_.size() >= max_leases_) return std::nullopt;
  Leased result;
  result.lease = ++last_lease_;
  if (!free_.empty() && !only_fresh) {
    result.file = free_.front();
    free_.pop_front();
  } else {
    result.fresh = true;
    if (unmade_.empty()) {
      result.file = ++last_file_;
    } else {
      result.file = unmade_.back();
      unmade_.pop_back();
    }
  }
  files_[result.file].state = State::leased;
  leases_.emplace(result.lease, result.file);
  peak_ = std::max(peak_, files_.size() - free_.size());
  return result;
}

std::optional<FileNumber> Pool::leased(std::uint64_t lease) const {
  const auto it = leases_.find(lease);
  return it == leases_.end() ? std::nullopt : std::optional(it->second);
}

bool Pool::take(std::uint64_t lease, std::uint32_t use) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return false;
  files_[it->second] = {State::used, use};
  leases_.erase(it);
  return true;
}

bool Pool::give_back(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return false;
  files_[it->second].state = State::free;
  // At the end: on a full disk a file too small for its content would otherwise be tried again and again.
  free_.push_back(it->second);
  leases_.erase(it);
  return true;
}

void Pool::set_aside(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  PEN_CHECK(it != leases_.end());
  files_[it->second].state = State::free;
  free_.push_back(it->second);
  leases_.erase(it);
}

void Pool::never_made(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  PEN_CHECK(it != leases_.end());
  unmade_.push_back(it->second);
  files_.erase(it->second);
  leases_.erase(it);
}

void Pool::not_ours(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  PEN_CHECK(it != leases_.end());
  files_.erase(it->second);
  leases_.erase(it);
}

bool Pool::release(FileNumber file, std::uint32_t use, std::uint64_t safe_after) {
  const auto it = files_.find(file);
  // The file is unknown if its message was lost to damage: there is nothing to do. The same holds for a version of a
  // message that should have been garbage, if its file has another owner by now.
  if (it == files_.end()) return false;
  File& f = it->second;
  const bool mine = f.state == State::used && (f.use == use || broken(Breakage::any_use_fits));
  if (!mine && f.state != State::unknown) return false;
  f.state = State::retiring;
  retiring_.emplace_back(safe_after, file);
  return true;
}

std::size_t Pool::reclaim(std::uint64_t last_save) {
  std::size_t n = 0;
  if (broken(Breakage::reuse_before_save)) last_save = UINT64_MAX;
  for (; !retiring_.empty() && retiring_.front().first <= last_save; ++n) {
    files_[retiring_.front().second].state = State::free;
    free_.push_front(retiring_.front().second);
    retiring_.pop_front();
  }
  return n;
}

Pool::Owner Pool::referenced(FileNumber file, std::uint32_t use) {
  const auto it = files_.find(file);
  if (it == files_.end()) return Owner::missing;
  File& f = it->second;
  if (f.state == State::unknown && !broken(Breakage::references_ignored)) f = {State::used, use};
  return f.state == State::used && f.use != use ? Owner::another : Owner::yes;
}

bool Pool::unknown(FileNumber file) const {
  const auto it = files_.find(file);
  return it != files_.end() && it->second.state == State::unknown;
}

std::vector<FileNumber> Pool::sweep() {
  std::vector<FileNumber> orphans;
  for (auto& [file, f] : files_) {
    if (f.state != State::unknown) continue;
    f.state = State::free;
    free_.push_back(file);
    orphans.push_back(file);
  }
  swept_ = true;
  return orphans;
}

void Pool::next_period() {
  last_peak_ = peak_;
  peak_ = files_.size() - free_.size();
}

std::vector<FileNumber> Pool::surplus(std::size_t most) {
  std::vector<FileNumber> out;
  if (!swept_) return out;
  const std::size_t wanted = std::max({peak_, last_peak_, keep_});
  while (out.size() < most && files_.size() > wanted && !free_.empty()) {
    out.push_back(free_.back());
    files_.erase(free_.back());
    free_.pop_back();
  }
  return out;
}

Pool::Figures Pool::figures() const {
  Figures f;
  f.files = files_.size();
  f.free = free_.size();
  f.leased = leases_.size();
  f.retiring = retiring_.size();
  for (const auto& [number, file] : files_) {
    if (file.state == State::unknown) ++f.unknown;
    if (file.state == State::used) ++f.used;
  }
  return f;
}

}  // namespace pen::spool
