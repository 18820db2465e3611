#include "lib/send/mailbox/workforce.h"

#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/nursery.h"

namespace pen::mailbox {

Workforce& workforce() {
  static Workforce instance;
  return instance;
}

Result<Workforce::Handle> Workforce::give(const Role& role, int job_socket, bool shared) {
  const std::string key = shared ? encode(role) : std::string();
  std::lock_guard lock(mutex_);
  bool others = false;
  if (shared) {
    others = visited_.contains(key);
    if (const auto known = workers_.find(key); known != workers_.end()) {
      const Handle worker = known->second;
      others = others || worker->jobs > 0;
      if (!worker->alone && send_descriptor(worker->control.get(), kAmongOthers, job_socket, Full::fail)) {
        if (worker->jobs++ == 0) idle_.erase(worker->last_used);
        return worker;
      }
      // The worker is not to be waited for, has ended for want of work, or was killed or stopped.
      forget(worker);
    }
  }
  auto worker = std::make_shared<Worker>();
  PEN_TRY_ASSIGN(worker->control, Nursery::instance().hire(role));
  // If there are two jobs already, more will come.
  worker->alone = !others;
  PEN_TRY(send_descriptor(worker->control.get(), others ? kAmongOthers : kAlone, job_socket, Full::fail));
  worker->role = key;
  worker->jobs = 1;
  if (shared)
    workers_.emplace(key, worker);
  else
    worker->control.reset();  // the worker ends after this job
  return worker;
}

void Workforce::done(const Handle& worker) {
  std::lock_guard lock(mutex_);
  worker->alone = false;
  if (--worker->jobs > 0 || !worker->control) return;
  worker->last_used = ++uses_;
  idle_.emplace(worker->last_used, worker);
  if (idle_.size() > kMostIdle) forget(Handle(idle_.begin()->second));
}

bool Workforce::visit(const Role& role) {
  std::string key = encode(role);
  std::lock_guard lock(mutex_);
  return !workers_.contains(key) && visited_.insert(std::move(key)).second;
}

void Workforce::left(const Role& role) {
  std::lock_guard lock(mutex_);
  visited_.erase(encode(role));
}

void Workforce::dismiss(const Handle& worker) {
  std::lock_guard lock(mutex_);
  --worker->jobs;
  forget(worker);
}

void Workforce::forget(const Handle& worker) {
  if (!worker->control) return;
  worker->control.reset();
  if (worker->jobs == 0) idle_.erase(worker->last_used);
  if (const auto known = workers_.find(worker->role); known != workers_.end() && known->second == worker)
    workers_.erase(known);
}

}  // namespace pen::mailbox
