#pragma once
/// Where incoming content gathers: in memory as long as it is small, then in a leased spool file.
///
/// Use:     Body body(pool, queue, options); … feed body.content() …;
///          if (body.must_drain()) co_await body.drain(until);     // between feeds: writes what has gathered
///          co_await body.finish(until);                            // the rest, and one fdatasync
///          body.facts(), body.lease(), body.text()                 // for Queue::enqueue
/// Bounds:  kDrainAt bytes in memory, whatever the message's size.
/// Errors:  a problem of the spool is kept in problem(); content that comes after it is dropped, so that the receiver
///          can go on reading and answer at the end.
/// Thread:  the loop's; writes and syncs run on the handler pool.
#include <memory>
#include <string>

#include "lib/async/handler_pool.h"
#include "lib/intake/content.h"
#include "lib/intake/queue.h"

namespace pen::intake {

class Body {
 public:
  // large enough that a write's hand-over costs little per byte
  static constexpr std::size_t kDrainAt = 256 * 1024;

  Body(async::HandlerPool& pool, Queue& queue, ContentOptions options)
      : pool_(pool), queue_(queue), content_(std::move(options)) {}

  ContentBuilder& content() { return content_; }
  bool must_drain() const { return content_.pending().size() >= kDrainAt; }
  async::Task<void> drain(async::Until until);
  async::Task<void> finish(async::Until until);

  enum class Problem : std::uint8_t {
    none,
    too_large,
    too_many_hops,
    no_space,
    unavailable,
    write_failed
  };
  Problem problem() const;
  /// What went wrong with the file, for the log; valid with write_failed.
  const std::string& error_text() const { return error_text_; }

  const mail::BodyFacts& facts() const { return facts_; }
  mail::BodyFacts take_facts() { return std::move(facts_); }
  Lease* lease() const { return lease_.get(); }
  /// The content when there is no lease.
  std::string_view text() const {
    return lease_ ? std::string_view() : std::string_view(content_.pending());
  }

 private:
  async::Task<void> write_out(async::Until until, bool sync);

  async::HandlerPool& pool_;
  Queue& queue_;
  ContentBuilder content_;
  mail::BodyFacts facts_;
  std::unique_ptr<Lease> lease_;
  std::uint64_t written_ = 0;
  Problem problem_ = Problem::none;
  std::string error_text_;
};

}  // namespace pen::intake
