#pragma once
/// Collects incoming content: in memory while it is small, then in a leased spool file.
///
/// Use:     Body body(pool, queue, memory, options, declared); … feed body.content() …;
///          if (body.must_drain()) co_await body.drain(until);     // between feeds: writes the collected content
///          co_await body.end(until);                               // the rest; now it can be read (held_content.h)
///          co_await body.finish(until);                            // end(), unless it was called, and one fdatasync
///          body.complete();                                        // before end(): small content can be edited
///          body.facts(), body.lease(), body.text()                 // for Queue::enqueue
/// Bounds:  kDrainAt bytes in memory, whatever the message's size. When all bodies of the process exceed what
///          BodyMemory allows, the bound is kLeastDrain (or what may stay inline, if that is more): a thousand uploads
///          at once then write smaller pieces instead of taking a thousand times the memory. Headers held for checks:
///          BodyMemory::kAllowedHeaders in all; beyond that a message that holds more than kLeastHeader is refused for
///          now.
/// Size:    the file is leased when the first piece is written, for the size that the peer declared: a client that
///          declares much and sends nothing gets no file. Content that is complete when the file is leased needs only
///          its real size.
/// Signed:  sign_with() leaves room in front of the content in the file, as soon as the header is known, and finish()
///          fills it: nothing is written twice. facts(), text() and HeldContent are without it until then.
///          Before it is signed, content is brought into a form that every host takes (any_host_form.h): by the first
///          write, or by end(). What is not signed stays as it is. What is sealed (ARC) is the mail of others, and
///          stays as it is too; only where a filter of this host has put long lines behind the first write, these are
///          broken.
/// Errors:  a problem of the spool is kept in problem(); later content is dropped, so that the receiver can read on
///          and answer at the end. So is content of another size than was counted (write_failed).
/// Thread:  the loop's; writes and syncs run on the handler pool.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/file.h"
#include "lib/base/async/handler_pool.h"
#include "lib/receive/intake/any_host_form.h"
#include "lib/receive/intake/content.h"
#include "lib/receive/intake/queue.h"
#include "lib/trust/signing/message_signature.h"

namespace pen::intake {

/// The memory used by incoming bodies: all bodies of one process share one object, which must outlive them.
class BodyMemory {
 public:
  // Some sixty uploads at once can then still write in pieces of kDrainAt.
  static constexpr std::size_t kAllowed = 16U << 20;
  static constexpr std::size_t kAllowedHeaders = 64U << 20;
  explicit BodyMemory(std::size_t allowed = kAllowed, std::size_t headers = kAllowedHeaders)
      : allowed_(allowed), allowed_headers_(headers) {}
  bool headers_scarce() const { return headers_ > allowed_headers_; }
  bool scarce() const { return used_ > allowed_; }
  std::size_t used() const { return used_; }
  /// The limit for Stream::limit_reads() while content is read.
  const std::uint32_t* read_limit() const { return &read_limit_; }

 private:
  friend class Body;
  static constexpr std::size_t kSpares = 4;  // about the number of simultaneous writes
  void change(std::size_t from, std::size_t to);
  /// A used buffer, emptied, if there is one: freeing and allocating memory for each piece costs more than copying the
  /// piece into it. None while memory is scarce.
  std::string spare();
  void keep_spare(std::string buffer);

  std::vector<std::string> spares_;  // not in used_
  std::size_t allowed_, allowed_headers_;
  std::size_t used_ = 0;
  std::size_t headers_ = 0;  // bytes held for checks
  std::uint32_t read_limit_ = 0;
};

class Body {
 public:
  // Large enough that starting a write costs little per byte.
  static constexpr std::size_t kDrainAt = 256 * 1024;
  static constexpr std::size_t kLeastDrain = 20 * 1024;
  static constexpr std::size_t kLeastHeader = 8 * 1024;

  /// declared: the size that the peer announced; 0: none.
  Body(async::HandlerPool& pool, Queue& queue, BodyMemory& memory, ContentOptions options, std::uint64_t declared = 0)
      : pool_(pool), queue_(queue), memory_(memory), content_(std::move(options)), declared_(declared) {}
  ~Body() {
    memory_.change(held_, 0);
    memory_.headers_ -= held_header_;
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  ContentBuilder& content() { return content_; }
  const ContentBuilder& content() const { return content_; }
  /// Reserves memory for this much content, counted from now on.
  void make_room(std::size_t size) {
    content_.reserve(size);
    account();
  }
  bool must_drain();
  /// Before the first byte of content; or after complete(), before end(), and without a lease.
  void sign_with(std::unique_ptr<signing::MessageSignature> signature, AnyHostForm::Options form) {
    signature_ = std::move(signature);
    form_.emplace(form);
  }
  /// What that form took: lines that were broken, and whether 8-bit parts were converted. After end().
  std::uint64_t broken_lines() const { return broken_lines_; }
  bool converted() const { return converted_; }
  /// After finish().
  bool is_signed() const { return signed_; }
  /// The domain that it is signed by; empty: it is not. After finish().
  const std::string& signed_by() const { return signed_by_; }
  /// Why it was not sealed, though it was to be; empty: no reason to tell. After finish().
  const std::string& unsealed() const { return unsealed_; }
  /// The place of the content in the leased file.
  std::uint64_t content_offset() const { return lease_->content_offset() + front_; }
  async::Task<void> drain(async::Until until);
  /// Ends the content without writing it. What has no lease then can be read, and its header replaced, before end().
  void complete();
  /// Replaces a part of the header. Only after complete(), before end(), and without a lease.
  void replace_in_header(std::size_t at, std::size_t size, std::string_view by);
  async::Task<void> end(async::Until until);
  async::Task<void> finish(async::Until until);

  enum class Problem : std::uint8_t {
    none,
    too_large,
    too_many_hops,
    too_many_fields,
    lookup_failed,
    refused,    // by checks
    discarded,  // by checks
    no_space,   // in the spool or in memory
    unavailable,
    write_failed,
    not_signed  // though it should be
  };
  Problem problem() const;
  /// The error of the file or of the signature, for the log; valid with write_failed and not_signed.
  const std::string& error_text() const { return error_text_; }
  /// The failed table; valid with lookup_failed.
  const std::string& failed_lookup() const { return content_.failed_lookup(); }

  const mail::BodyFacts& facts() const { return facts_; }
  mail::BodyFacts take_facts() { return std::move(facts_); }
  Lease* lease() const { return lease_.get(); }
  /// The content when there is no lease.
  std::string_view text() const { return lease_ ? std::string_view() : std::string_view(content_.pending()); }

 private:
  async::Task<void> write_out(async::Until until, bool last);
  /// Shows the signature what is pending. Returns the room that it needs.
  void show_signature();
  /// Brings what is pending into the form of signed content: once begun, all that follows, whatever becomes of the
  /// signature, for the form holds bytes back and counts those that it adds.
  void bring_into_form();
  AnyHostForm::Facts form_facts() const;
  /// The content must be as long as its facts say: of a longer one the queue would lose the end.
  void check_size();
  /// Makes the signature, and puts it in front.
  async::Task<void> finish_signature(async::Until until);
  async::Task<void> sync();
  /// A separate descriptor of the leased file, because a write may outlive its task and the lease.
  std::optional<async::File> own_file();
  void failed(const Error& error);
  /// Reports the present memory use to memory_.
  void account();

  async::HandlerPool& pool_;
  Queue& queue_;
  BodyMemory& memory_;
  ContentBuilder content_;
  mail::BodyFacts facts_;
  std::unique_ptr<Lease> lease_;
  std::unique_ptr<signing::MessageSignature> signature_;  // nullptr: not signed
  std::optional<AnyHostForm> form_;                       // of what is signed
  bool forming_ = false;                                  // it was begun
  std::uint64_t broken_lines_ = 0;
  bool converted_ = false, signed_ = false;
  std::string signed_by_;
  std::uint64_t declared_;
  std::uint64_t front_ = 0;  // room for the signature in the file
  std::uint64_t written_ = 0;
  std::size_t writing_ = 0;                 // bytes of a running write
  std::size_t held_ = 0, held_header_ = 0;  // as last reported to memory_
  bool complete_ = false, ended_ = false;
  bool shown_ = false;  // all of the content to the signature
  std::string unsealed_;
  Problem problem_ = Problem::none;
  std::string error_text_;
};

}  // namespace pen::intake
