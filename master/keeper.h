#pragma once
/// Leaves descriptors with the service manager, or with a keeper of our own, under names that no two of them share.
///
/// Use:     const std::string name = keeper.name('l');  keeper.keep(name, fd);  …  keeper.forget(name);
/// Rules:   a manager that takes none, or none any more, changes nothing but what survives master; said once.
/// Thread:  master's only one.
#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/log.h"
#include "master/notify.h"

namespace pen::master {

class Keeper {
 public:
  /// manager: outlives this.
  explicit Keeper(Notifier& manager) : manager_(&manager) {}

  std::string name(char kind) { return kind + std::to_string(++names_); }
  std::uint64_t names() const { return names_; }
  void continue_after(std::uint64_t names) { names_ = names; }
  bool works() const { return manager_->connected() && !failed_; }
  /// For people: who keeps them; "" if nobody does.
  std::string holder() const {
    if (!works()) return {};
    return manager_->keeper() != 0 ? "keeper pid " + std::to_string(manager_->keeper()) : "the service manager";
  }

  /// Whether the manager was given a copy.
  bool keep(const std::string& name, int fd) {
    if (!works()) return false;
    return noted(manager_->keep(name, fd));
  }
  void forget(const std::string& name) {
    if (works()) noted(manager_->forget(name));
  }

 private:
  bool noted(const Result<void>& sent) {
    if (sent) return true;
    failed_ = true;
    log::warning("{} keeps no descriptors for the next master: {}",
                 manager_->keeper() != 0 ? "the keeper" : "the service manager", sent.error().message());
    return false;
  }
  Notifier* manager_;
  std::uint64_t names_ = 0;
  bool failed_ = false;
};

}  // namespace pen::master
