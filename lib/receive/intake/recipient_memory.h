#pragma once
/// Bounds the memory for recipients of all incoming messages: all messages of one process share one object.
///
/// Use:     RecipientMemory::Share share(memory);  share.add(bytes);
///          if (share.short_of()) … no more for this message …
/// Rule:    when kAllowed is exceeded in all, a message may have no more than kLeast: so a message with a few
///          recipients is accepted whatever the others hold.
/// Lifetime: the memory must outlive its shares.
#include <cstddef>
#include <utility>

#include "lib/mail/envelope.h"

namespace pen::intake {

class RecipientMemory {
 public:
  static constexpr std::size_t kAllowed = 64U << 20;
  static constexpr std::size_t kLeast = 4096;
  explicit RecipientMemory(std::size_t allowed = kAllowed) : allowed_(allowed) {}
  std::size_t used() const { return used_; }

  /// The share of one message.
  class Share {
   public:
    explicit Share(RecipientMemory& memory) : memory_(&memory) {}
    Share(Share&& other) noexcept : memory_(other.memory_), held_(std::exchange(other.held_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() { memory_->used_ -= held_; }
    void add(const mail::Recipient& r) {
      // The list grows by doubling, and each text is an allocation of its own.
      const std::size_t bytes = 2 * sizeof r + r.address.capacity() + r.orcpt.capacity();
      memory_->used_ += bytes;
      held_ += bytes;
    }
    bool short_of() const { return memory_->used_ > memory_->allowed_ && held_ > kLeast; }

   private:
    RecipientMemory* memory_;
    std::size_t held_ = 0;
  };

 private:
  std::size_t allowed_;
  std::size_t used_ = 0;
};

}  // namespace pen::intake
