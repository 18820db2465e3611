#pragma once
/// The descriptors that master leaves with its keeper, by name.
///
/// Use:     store.keep("l1", std::move(fd));  store.forget("l1");  …  for (const auto& [name, fd] : store.all()) …
/// Owns:    the descriptors. forget() and let_go() close them: who holds the other end of a socket notices.
/// Bounds:  as many as the owner says; one more is refused and closed.
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "lib/base/fd.h"

namespace pen::keeper {

class Store {
 public:
  explicit Store(std::size_t most) : most_(most) {}

  /// A name that is there gets the new descriptor. False: there are as many as there may be.
  bool keep(const std::string& name, Fd fd) {
    if (!kept_.contains(name) && kept_.size() >= most_) return false;
    kept_[name] = std::move(fd);
    return true;
  }
  void forget(const std::string& name) { kept_.erase(name); }
  void let_go() { kept_.clear(); }
  const std::map<std::string, Fd>& all() const { return kept_; }
  std::size_t size() const { return kept_.size(); }

  /// In the order of all(), as LISTEN_FDNAMES has them.
  std::string names() const {
    std::string text;
    for (const auto& [name, fd] : kept_) text += (text.empty() ? "" : ":") + name;
    return text;
  }

 private:
  std::size_t most_;
  std::map<std::string, Fd> kept_;
};

}  // namespace pen::keeper
