#pragma once
/// Ordinals of recipients, without an allocation for most messages: those with one recipient, or with consecutive ones.
///
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace pen::qmgr {

using Ordinals = std::vector<std::uint32_t>;

/// The recipients of a job: one at least.
class JobOrdinals {
 public:
  explicit JobOrdinals(std::uint32_t first) : first_(first) {}
  std::size_t size() const { return more_ ? 1 + more_->size() : 1; }
  void push_back(std::uint32_t ordinal) {
    if (!more_) more_ = std::make_unique<Ordinals>();
    more_->push_back(ordinal);
  }
  /// In the order they came.
  Ordinals all() const {
    Ordinals out;
    out.reserve(size());
    out.push_back(first_);
    if (more_) out.insert(out.end(), more_->begin(), more_->end());
    return out;
  }

 private:
  std::uint32_t first_;
  std::unique_ptr<Ordinals> more_;
};

/// The recipients that want a route, oldest first: a run of consecutive ones, then those that did not fit into it.
class Unrouted {
 public:
  bool empty() const { return begin_ == end_ && !later_; }
  Ordinals all() const {
    Ordinals out;
    for (std::uint32_t i = begin_; i < end_; ++i) out.push_back(i);
    if (later_) out.insert(out.end(), later_->begin(), later_->end());
    return out;
  }
  void add(const Ordinals& more) {
    for (const std::uint32_t ordinal : more) push_back(ordinal);
  }
  void push_back(std::uint32_t ordinal) {
    if (empty()) {
      begin_ = ordinal;
      end_ = ordinal + 1;
    } else if (!later_ && ordinal == end_) {
      ++end_;
    } else {
      if (!later_) later_ = std::make_unique<std::deque<std::uint32_t>>();
      later_->push_back(ordinal);
    }
  }
  void push_front(std::uint32_t ordinal) {
    if (begin_ < end_ && ordinal + 1 == begin_) {
      --begin_;
      return;
    }
    // Rare: look-ups that were lost with their program.
    const Ordinals rest = all();
    clear();
    begin_ = ordinal;
    end_ = ordinal + 1;
    if (!rest.empty()) later_ = std::make_unique<std::deque<std::uint32_t>>(rest.begin(), rest.end());
  }
  /// There must be one.
  std::uint32_t pop_front() {
    if (begin_ < end_) return begin_++;
    const std::uint32_t ordinal = later_->front();
    later_->pop_front();
    if (later_->empty()) later_.reset();
    return ordinal;
  }
  void clear() {
    begin_ = end_ = 0;
    later_.reset();
  }

 private:
  std::uint32_t begin_ = 0, end_ = 0;                 // the run
  std::unique_ptr<std::deque<std::uint32_t>> later_;  // nullptr: nothing
};

}  // namespace pen::qmgr
