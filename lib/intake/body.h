#pragma once
/// Where incoming content gathers: in memory as long as it is small, then in a leased spool file.
///
/// Use:     Body body(pool, queue, memory, options, declared); … feed body.content() …;
///          if (body.must_drain()) co_await body.drain(until);     // between feeds: writes what has gathered
///          co_await body.finish(until);                            // the rest, and one fdatasync
///          body.facts(), body.lease(), body.text()                 // for Queue::enqueue
/// Bounds:  kDrainAt bytes in memory, whatever the message's size; when the bodies of the process together take more
///          than BodyMemory allows, kLeastDrain (or what may stay inline, if that is more), so that a thousand
///          uploads at once write smaller pieces instead of taking a thousand times as much. Of headers that are
///          looked at, BodyMemory::kAllowedHeaders in all; beyond that a message with more than kLeastHeader of it is
///          not taken now.
/// Size:    the file is leased when the first piece is written, for the size that the peer declared: who declares
///          much and sends nothing gets none. What is all here when the file is leased needs no more than it is.
/// Errors:  a problem of the spool is kept in problem(); content that comes after it is dropped, so that the receiver
///          can go on reading and answer at the end.
/// Thread:  the loop's; writes and syncs run on the handler pool.
#include <memory>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/intake/content.h"
#include "lib/intake/queue.h"

namespace pen::intake {

/// What the bodies that come in at one time have in memory: all of one process share one. Must outlive them.
class BodyMemory {
 public:
  // so that some sixty uploads at once still write in pieces of kDrainAt
  static constexpr std::size_t kAllowed = 16U << 20;
  static constexpr std::size_t kAllowedHeaders = 64U << 20;
  explicit BodyMemory(std::size_t allowed = kAllowed, std::size_t headers = kAllowedHeaders)
      : allowed_(allowed), allowed_headers_(headers) {}
  bool headers_scarce() const { return headers_ > allowed_headers_; }
  bool scarce() const { return used_ > allowed_; }
  std::size_t used() const { return used_; }
  /// For Stream::limit_reads() while content is read.
  const std::uint32_t* read_limit() const { return &read_limit_; }

 private:
  friend class Body;
  static constexpr std::size_t kSpares = 4;  // what is written at one time, about
  void change(std::size_t from, std::size_t to);
  /// An empty buffer that was written before, if there is one: memory that is given back and taken anew for each piece
  /// costs more than the copy into it. None while memory is scarce.
  std::string spare();
  void keep_spare(std::string buffer);

  std::vector<std::string> spares_;  // not in used_
  std::size_t allowed_, allowed_headers_;
  std::size_t used_ = 0;
  std::size_t headers_ = 0;  // held to be looked at
  std::uint32_t read_limit_ = 0;
};

class Body {
 public:
  // large enough that a write's hand-over costs little per byte
  static constexpr std::size_t kDrainAt = 256 * 1024;
  static constexpr std::size_t kLeastDrain = 20 * 1024;
  static constexpr std::size_t kLeastHeader = 8 * 1024;

  /// declared: bytes that the peer says will come; 0: it did not say.
  Body(async::HandlerPool& pool, Queue& queue, BodyMemory& memory, ContentOptions options, std::uint64_t declared = 0)
      : pool_(pool), queue_(queue), memory_(memory), content_(std::move(options)), declared_(declared) {}
  ~Body() {
    memory_.change(held_, 0);
    memory_.headers_ -= held_header_;
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  ContentBuilder& content() { return content_; }
  /// Memory for so much content, counted from now on.
  void make_room(std::size_t size) {
    content_.reserve(size);
    account();
  }
  bool must_drain();
  async::Task<void> drain(async::Until until);
  async::Task<void> finish(async::Until until);

  enum class Problem : std::uint8_t {
    none,
    too_large,
    too_many_hops,
    lookup_failed,
    refused,    // by checks
    discarded,  // by checks
    no_space,   // in the spool, or in memory
    unavailable,
    write_failed
  };
  Problem problem() const;
  /// What went wrong with the file, for the log; valid with write_failed.
  const std::string& error_text() const { return error_text_; }
  /// Which table; valid with lookup_failed.
  const std::string& failed_lookup() const { return content_.failed_lookup(); }

  const mail::BodyFacts& facts() const { return facts_; }
  mail::BodyFacts take_facts() { return std::move(facts_); }
  Lease* lease() const { return lease_.get(); }
  /// The content when there is no lease.
  std::string_view text() const { return lease_ ? std::string_view() : std::string_view(content_.pending()); }

 private:
  async::Task<void> write_out(async::Until until, bool sync);
  /// Tells memory_ what is here now.
  void account();

  async::HandlerPool& pool_;
  Queue& queue_;
  BodyMemory& memory_;
  ContentBuilder content_;
  mail::BodyFacts facts_;
  std::unique_ptr<Lease> lease_;
  std::uint64_t declared_;
  std::uint64_t written_ = 0;
  std::size_t writing_ = 0;                 // bytes of a write under way
  std::size_t held_ = 0, held_header_ = 0;  // as memory_ knows it
  Problem problem_ = Problem::none;
  std::string error_text_;
};

}  // namespace pen::intake
