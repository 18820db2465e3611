#pragma once
/// Remembers which parts of a delivery are done, so that a retry for one failed command does not deliver to the rest
/// of a list again.
///
/// Use:     const auto* before = progress.find(key);  …  progress.remember(key, status);
/// Bounds:  the last kMax entries of this process. Forgotten deliveries are made again: twice, but never not at all.
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
