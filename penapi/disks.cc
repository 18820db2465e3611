#include "penapi/disks.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "lib/base/result.h"

namespace pen::api {

using async::Task;

namespace {
constexpr const char* kSilent = "it does not answer";

Disk looked_at(Disk disk) {
  struct statvfs facts{};
  if (::statvfs(disk.directory.c_str(), &facts) != 0) {
    disk.problem = Error::from_errno(errno).message();
    return disk;
  }
  disk.problem.clear();
  disk.free = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  disk.size = static_cast<std::uint64_t>(facts.f_blocks) * facts.f_frsize;
  disk.free_files = static_cast<std::uint64_t>(facts.f_favail);
  return disk;
}
}  // namespace

Disks::Disks(async::Loop& loop, std::vector<Disk> disks)
    : loop_(loop),
      disks_(std::move(disks)),
      states_(disks_.size()),
      pool_(std::make_unique<async::HandlerPool>(loop, disks_.size())),
      answered_(loop) {
  for (Disk& d : disks_) d.problem = kSilent;  // so far
  renew();
}

Disks::~Disks() {
  // The pool waits for its threads, and one that waits for a disk that hangs does not end.
  if (waits()) (void)pool_.release();
}

bool Disks::waits() const { return std::ranges::any_of(states_, &State::under_way); }

void Disks::renew() {
  for (std::size_t i = 0; i < disks_.size(); ++i) {
    State& s = states_[i];
    if (s.under_way || (s.at != SteadyTime::min() && loop_.now() - s.at < kFresh)) continue;
    s.under_way = true;
    loop_.spawn("free space", look_at(this, i));
  }
}

Task<void> Disks::look_at(Disks* self, std::size_t i) {
  Disk disk = co_await self->pool_->run([disk = self->disks_[i]] { return looked_at(disk); });
  self->disks_[i] = std::move(disk);
  self->states_[i].at = self->loop_.now();
  self->states_[i].under_way = false;
  self->answered_.set();
}

Task<std::vector<Disk>> Disks::look() {
  renew();
  const SteadyTime until = loop_.now() + kWait;
  while (waits() && loop_.now() < until) {
    answered_.reset();
    (void)co_await answered_.wait({.deadline = until});
  }
  std::vector<Disk> out = disks_;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (states_[i].under_way) out[i].problem = kSilent;
  co_return out;
}

const std::vector<Disk>& Disks::known() {
  renew();
  return disks_;
}

}  // namespace pen::api
