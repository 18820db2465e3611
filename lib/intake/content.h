#pragma once
/// The content of a message while it comes in: trace fields first, header completed and looked at, limits kept, facts
/// found. One copy of each byte: from the receive buffer into here.
///
/// Use:     ContentBuilder content(options);
///          content.add_field(received_field(…));        // before anything else
///          scanner.feed(bytes, content);                 // content is a sink of mail::DataScanner and BdatScanner
///          if (content.pending().size() > limit) …       // a spool takes what has gathered: content.take()
///          auto facts = content.finish();                // then problem(), summary()
/// Rules:   nothing of what the peer sent is changed, but for header fields that are to be dropped, what checks ask
///          for, header addresses that are to be mapped, and 8-bit parts where 7 bits are wanted; completion adds
///          fields at the end of the header.
/// Speed:   without checks and mapping the body goes through untouched, the header line by line; both are looked at
///          by a MimeWalker otherwise, as far as there is something to find (content_inspection.cc).
/// Source:  RFC 5321 sections 4.4 and 6.3; Postfix message_size_limit, hopcount_limit, local_header_rewrite_clients.
/// Bounds:  once the size limit is passed nothing more is kept.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/intake/checks.h"
#include "lib/mail/header.h"
#include "lib/mail/wire.h"

namespace pen::intake {

/// The address that stands in the header in place of this one; the same: nothing changes. sender: of a field like
/// From:, not like To:.
using HeaderMapping = std::function<Result<std::string>(std::string_view address, bool sender)>;

struct ContentOptions {
  std::uint64_t size_limit = 0;  // of what the peer sends, trace fields not counted; 0: none
  unsigned hop_limit = 50;
  /// Fields to add to a header that lacks them, each a whole field without CRLF; empty: not added. Where the header
  /// has any Resent- field it is Resent-Date and the like that may be lacking and are added (RFC 5322 section 3.6.6).
  std::string date = {}, message_id = {}, from = {};
  /// Such a field for a header without To:, Cc: and their Resent- forms (undisclosed_recipients_header); empty: none.
  std::string undisclosed = {};
  /// Parts that say they are 8-bit are made 7-bit (force_mime_input_conversion), before anything looks at them.
  bool seven_bit = false;
  bool find_utf8 = false;  // utf8_header() is wanted
  /// Names of fields to leave out, in any case (message_drop_headers). What they point to must outlive the builder.
  std::span<const std::string> drop_fields = {};
  Checks* checks = nullptr;        // must outlive the builder
  bool keep_refused = false;       // what checks refuse is stored all the same: the sender gets it back
  HeaderMapping map_address = {};  // empty: addresses in the header stay
  std::size_t max_field = 102400;  // header_size_limit: what checks and mapping see of a field
};

enum class ContentProblem : std::uint8_t {
  none,
  too_many_hops,
  // nothing more is kept:
  too_large,
  no_memory,      // give_up()
  lookup_failed,  // failed_lookup() says which
  refused,        // by checks: Checks::refusal()
  discarded,      // by checks
};

class ContentBuilder {
 public:
  explicit ContentBuilder(ContentOptions options);
  ~ContentBuilder();
  ContentBuilder(const ContentBuilder&) = delete;
  ContentBuilder& operator=(const ContentBuilder&) = delete;

  /// A field of our own in front of the peer's, possibly folded with CRLF inside. Only before text(). Checks do not see
  /// it.
  void add_field(std::string_view field);
  /// The Received: field of this system: as add_field(), but that checks see it.
  void add_trace(std::string_view field);
  void reserve(std::size_t size) { out_.reserve(size); }

  void text(std::string_view part) {
    received_ += part.size();
    if (raw_) [[unlikely]]
      raw_text(part);
    else
      take_text(part);
  }
  void line_end() {
    received_ += 2;
    if (raw_) [[unlikely]]
      raw_line_end();
    else
      take_line_end();
  }

  bool takes_lines() const { return in_body_ && !raw_; }
  void lines(std::string_view text, const mail::PlainLines& run) {
    received_ += text.size();
    if (!has_room()) return;
    out_ += text;
    facts_.lines(text, run);
  }

  /// What has gathered and was not taken.
  const std::string& pending() const { return out_; }
  /// Takes it away, for a spool; `spare` becomes the new buffer.
  std::string take(std::string spare = {}) {
    spare.clear();
    std::swap(out_, spare);
    return spare;
  }
  /// Bytes that the peer sent so far, as stored.
  std::uint64_t received() const { return received_; }
  ContentProblem problem() const { return problem_; }
  /// Bytes of the header that are held to be looked at.
  std::size_t inspected() const;
  /// There is no memory to look at the header: nothing more is kept.
  void give_up();
  const std::string& failed_lookup() const { return failed_lookup_; }
  const mail::HeaderSummary& summary() const { return header_.summary(); }
  /// The header, ours included, has characters beyond ASCII, and they are UTF-8. With find_utf8, after finish(); of a
  /// header that went to a spool in part the rest counts.
  bool utf8_header() const { return utf8_header_; }
  /// Tables may be asked about what comes: it can take its time.
  bool checked() const { return inspection_ != nullptr && !in_body_; }
  /// It surely will: a long field has gathered, or look-ups in these tables took long of late. text() and line_end()
  /// may then be called in another thread, by one at a time.
  bool slow() const;
  /// Whoever feeds it has found it slow.
  void found_slow() const;
  /// What was declared of the content need not hold any more: true_body_type() says what does.
  bool converts() const { return conversion_ != nullptr; }

  /// Ends the content: an unfinished line is ended, an unfinished header completed.
  mail::BodyFacts finish();

 private:
  class Inspection;
  struct Conversion;
  void take_text(std::string_view part) {
    if (in_body_) [[likely]]
      keep(part);
    else
      header_text(part);
  }
  void take_line_end() {
    if (in_body_) [[likely]]
      keep_end();
    else
      header_line_end();
  }
  void raw_text(std::string_view part);
  void raw_line_end();
  void take_converted();
  void inspect(std::string_view part);
  void inspect_end();
  /// Whether what comes now is kept; fails what is over the limit.
  bool has_room();
  void keep(std::string_view part);
  void keep_end();
  void header_text(std::string_view part);
  void header_line_end();
  void decide(bool whole);
  bool dropped(std::string_view line) const;
  void end_header(bool separator);
  void fail_with(ContentProblem problem);
  void count_hops();

  ContentOptions options_;
  std::string out_;
  std::string line_;  // of the header, until it is known what it is
  mail::FactsCollector facts_;
  mail::HeaderScanner header_;
  std::unique_ptr<Inspection> inspection_;  // nullptr: nobody looks at more than we do
  std::unique_ptr<Conversion> conversion_;  // nullptr: 8-bit parts stay
  std::string failed_lookup_;
  std::uint64_t received_ = 0;
  ContentProblem problem_ = ContentProblem::none;
  bool raw_ = false;  // something is done to the content before it is taken apart
  bool utf8_header_ = false;
  bool in_body_ = false;
  bool first_line_ = true;
  bool decided_ = false;   // the present header line was passed on in part
  bool dropping_ = false;  // the present header field is left out
  bool line_open_ = false;
};

/// What is to be declared of content that was made 7-bit, by what it has become (RFC 6152, RFC 3030): no more than the
/// client declared, and as much of that as is left to declare.
mail::BodyType true_body_type(mail::BodyType declared, const mail::BodyFacts& facts);

}  // namespace pen::intake
