#pragma once
/// Counts a question that is under way at the redis server, also where the task ends while it waits.
///
/// Use:     if (under_way_ < kMostUnderWay) { const UnderWay one(under_way_);  co_await …; }
#include <cstddef>

namespace pen::anvil {

struct UnderWay {
  explicit UnderWay(std::size_t& n) : count(n) { ++count; }
  ~UnderWay() { --count; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  std::size_t& count;
};

}  // namespace pen::anvil
