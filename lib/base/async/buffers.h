#pragma once
/// Buffers that streams borrow while they hold data. Internal to lib/base/async.
///
/// Each thread keeps a few free buffers, so that a busy stream does not allocate for each command and an idle one
/// holds nothing.
#include <cstddef>
#include <memory>
#include <string>

#include "lib/base/bytes.h"

namespace pen::async::detail {

/// Input that was read from a peer and is not yet consumed.
class InputBuffer {
 public:
  static constexpr std::size_t kBlock = 64 * 1024;

  ~InputBuffer() { release(); }
  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  void consume(std::size_t n) {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  /// Returns room behind the content for at least min bytes; the content may move.
  std::span<std::byte> room(std::size_t min);
  void added(std::size_t n) { end_ += n; }
  /// Called before a wait: releases the block, or trades it for a small one when it holds little.
  void shrink();
  void release();

 private:
  void reallocate(std::size_t capacity);
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

/// A string with some capacity from the thread's store; return_text() puts it back.
std::string borrow_text();
void return_text(std::string&& text);

}  // namespace pen::async::detail
