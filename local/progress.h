#pragma once
/// What was done for a recipient of which something has to be tried again: so that a list with one command that fails
/// does not come to the others with every try.
///
/// Use:     const auto* before = progress.find(key);  …  progress.remember(key, status);
/// Bounds:  the last kMax; what is older, or was remembered by a process that ended, is done again: twice, never not
///          at all.
/// Thread:  one.
#include <deque>
#include <string>
#include <unordered_map>

#include "lib/mail/delivery_status.h"

namespace pen::local {

class Progress {
 public:
  static constexpr std::size_t kMax = 10'000;
  const mail::DeliveryStatus* find(const std::string& key) const {
    const auto it = done_.find(key);
    return it == done_.end() ? nullptr : &it->second;
  }
  void remember(std::string key, mail::DeliveryStatus status) {
    if (!done_.emplace(key, std::move(status)).second) return;
    order_.push_back(std::move(key));
    if (order_.size() <= kMax) return;
    done_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::unordered_map<std::string, mail::DeliveryStatus> done_;
  std::deque<std::string> order_;
};

}  // namespace pen::local
