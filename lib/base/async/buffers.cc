#include "lib/base/async/buffers.h"

#include <algorithm>
#include <vector>

namespace pen::async::detail {
namespace {
constexpr std::size_t kKeepBlocks = 16;
constexpr std::size_t kKeepTexts = 64;
constexpr std::size_t kTextCapacity = 2048;
constexpr std::size_t kMaxKeptText = 64 * 1024;
// Larger blocks are traded for smaller ones while they hold little.
constexpr std::size_t kSmall = 4096;

thread_local std::vector<std::unique_ptr<char[]>> free_blocks;
thread_local std::vector<std::string> free_texts;
}  // namespace

void InputBuffer::reallocate(std::size_t capacity) {
  std::unique_ptr<char[]> fresh;
  if (capacity == kBlock && !free_blocks.empty()) {
    fresh = std::move(free_blocks.back());
    free_blocks.pop_back();
  } else {
    fresh.reset(new char[capacity]);
  }
  const std::size_t content = size();
  if (content != 0) std::memcpy(fresh.get(), data_.get() + begin_, content);
  release();
  data_ = std::move(fresh);
  capacity_ = capacity;
  begin_ = 0;
  end_ = content;
}

std::span<std::byte> InputBuffer::room(std::size_t min) {
  if (capacity_ - end_ < min) {
    const std::size_t content = size();
    if (capacity_ >= kBlock && capacity_ - content >= min) {
      std::memmove(data_.get(), data_.get() + begin_, content);
      begin_ = 0;
      end_ = content;
    } else {
      reallocate(std::max(kBlock, content + min));
    }
  }
  return {reinterpret_cast<std::byte*>(data_.get() + end_), capacity_ - end_};
}

void InputBuffer::shrink() {
  if (size() == 0) return release();
  if (capacity_ <= kSmall || size() > capacity_ / 4) return;
  reallocate(std::max<std::size_t>(64, std::bit_ceil(size())));
}

void InputBuffer::release() {
  if (capacity_ == kBlock && free_blocks.size() < kKeepBlocks) {
    free_blocks.push_back(std::move(data_));
  }
  data_.reset();
  capacity_ = begin_ = end_ = 0;
}

std::string borrow_text() {
  if (free_texts.empty()) {
    std::string text;
    text.reserve(kTextCapacity);
    return text;
  }
  std::string text = std::move(free_texts.back());
  free_texts.pop_back();
  return text;
}

void return_text(std::string&& text) {
  if (text.capacity() < kTextCapacity || text.capacity() > kMaxKeptText || free_texts.size() >= kKeepTexts) {
    std::string().swap(text);
    return;
  }
  text.clear();
  free_texts.push_back(std::move(text));
  text = std::string();
}

}  // namespace pen::async::detail
