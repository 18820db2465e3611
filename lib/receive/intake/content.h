#pragma once
/// Builds the stored content of a message while it arrives: puts trace fields first, completes and checks the header,
/// enforces limits, collects facts. Each byte is copied once, from the receive buffer into this object.
///
/// Use:     ContentBuilder content(options);
///          content.add_field(received_field(…));        // before anything else
///          scanner.feed(bytes, content);                 // content is a sink of mail::DataScanner and BdatScanner
///          if (content.pending().size() > limit) …       // a spool takes the collected content: content.take()
///          auto facts = content.finish();                // then problem(), summary()
/// Rules:   the peer's content is changed only by separators of a mailbox above it, which become fields, by dropped
///          header fields, the actions of checks, mapped header
///          addresses, and the conversion of 8-bit parts if 7 bits are wanted. Completion adds fields at the end of
///          the header.
/// Speed:   without checks and mapping the body is not inspected, and the header line by line. Otherwise a MimeWalker
///          inspects both, as far as there is something to find (content_inspection.cc).
/// Source:  RFC 5321 sections 4.4 and 6.3; Postfix message_size_limit, hopcount_limit, local_header_rewrite_clients.
/// Bounds:  beyond the limit of the size, or of fields, nothing more is kept.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/header.h"
#include "lib/mail/wire.h"
#include "lib/receive/intake/checks.h"

namespace pen::intake {

/// Returns the address that replaces this one in the header, or the same address to change nothing. sender: the field
/// is of the kind of From:, not To:.
using HeaderMapping = std::function<Result<std::string>(std::string_view address, bool sender)>;

/// What is done about a header that ends with text in place of an empty line (non_empty_end_of_header_action). In any
/// case the text begins the body.
enum class UnendedHeader : std::uint8_t {
  fix,     // add the empty line
  tell,    // and a field that says so
  refuse,  // the message
};

struct ContentOptions {
  std::uint64_t size_limit = 0;  // of the peer's content, without trace fields; 0: none
  unsigned hop_limit = 50;
  std::size_t field_limit = 0;  // of the peer's header; 0: none
  /// Fields to add to a header that lacks them, each a whole field without CRLF; empty: not added. If the header has
  /// any Resent- field, the Resent- forms (Resent-Date and so on) are the ones to add (RFC 5322 section 3.6.6).
  std::string date = {}, message_id = {};
  /// The same for From:, made only if it is needed; none: not added. What it refers to outlives the content.
  std::function<std::string()> from = {};
  /// A field for a header without To:, Cc: and their Resent- forms (undisclosed_recipients_header); empty: none.
  std::string undisclosed = {};
  /// Add "Require-TLS-ESMTP: yes" if it is not there.
  bool require_tls = false;
  UnendedHeader unended = UnendedHeader::fix;
  /// Convert parts labelled as 8-bit to 7-bit (force_mime_input_conversion), before any check.
  bool seven_bit = false;
  bool find_utf8 = false;  // utf8_header() will be called
  /// "From " lines above the header become fields X-Mailbox-Line:, before anything looks at it.
  bool mailbox_lines = false;
  /// Names of fields to leave out, in any case (message_drop_headers). The strings must outlive the builder.
  std::span<const std::string> drop_fields = {};
  /// Fields to leave out as well, whose values are kept: taken_field(). The names must outlive the builder.
  std::vector<std::string_view> take_fields = {};
  Checks* checks = nullptr;        // must outlive the builder
  bool keep_refused = false;       // store what checks refuse: the sender gets it back
  HeaderMapping map_address = {};  // empty: addresses in the header stay unchanged
  std::size_t max_field = 102400;  // header_size_limit: how much of a field checks and mapping see
};

enum class ContentProblem : std::uint8_t {
  none,
  too_many_hops,
  // From here on nothing more is kept:
  too_large,
  too_many_fields,
  no_memory,      // give_up()
  lookup_failed,  // failed_lookup() names the table
  refused,        // by checks: Checks::refusal()
  discarded,      // by checks
};

class ContentBuilder {
 public:
  explicit ContentBuilder(ContentOptions options);
  ~ContentBuilder();
  ContentBuilder(const ContentBuilder&) = delete;
  ContentBuilder& operator=(const ContentBuilder&) = delete;

  /// Adds a field of our own in front of the peer's; it may be folded with CRLF inside. Only before text(). Checks do
  /// not see it.
  void add_field(std::string_view field);
  /// Adds this system's Received: field: like add_field(), but checks see it.
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
  bool in_header() const { return !in_body_; }
  void lines(std::string_view text, const mail::PlainLines& run) {
    received_ += text.size();
    if (!has_room()) return;
    out_ += text;
    facts_.lines(text, run);
  }

  /// The collected content that was not taken yet.
  const std::string& pending() const { return out_; }
  /// Takes the collected content away, for a spool; `spare` becomes the new buffer.
  std::string take(std::string spare = {}) {
    spare.clear();
    std::swap(out_, spare);
    return spare;
  }
  /// Puts whole fields in front of content of which nothing was taken, after finish(). No fact changes.
  void put_in_front(std::string_view fields) { out_.insert(0, fields); }
  /// Puts other text in place of the pending content. No fact changes.
  void replace_pending(std::string by) { out_ = std::move(by); }
  /// Facts so far.
  const mail::FactsCollector& facts_so_far() const { return facts_; }
  /// Replaces a part of such content.
  void replace(std::size_t at, std::size_t size, std::string_view by) { out_.replace(at, size, by); }
  /// Bytes received from the peer so far, as stored.
  std::uint64_t received() const { return received_; }
  ContentProblem problem() const { return problem_; }
  /// Bytes of the header that are held for checks.
  std::size_t inspected() const;
  /// Call this when there is no memory for checking the header: nothing more is kept.
  void give_up();
  const std::string& failed_lookup() const { return failed_lookup_; }
  /// "5.6.0 text" when the form of the message is refused, and for the log what is wrong; empty: it is not.
  const std::string& refusal() const { return refusal_; }
  const std::string& refused_text() const { return refused_text_; }
  /// The value of the first field of this name, which ContentOptions::take_fields has, unfolded and trimmed; at most
  /// kMaxTaken bytes.
  std::string taken_field(std::string_view name) const;
  static constexpr std::size_t kMaxTaken = 1000;
  const mail::HeaderSummary& summary() const { return header_.summary(); }
  /// Whether the header, our fields included, has valid UTF-8 beyond ASCII. Needs find_utf8; valid after finish(). Of
  /// a header that went to a spool in part, only the rest counts.
  bool utf8_header() const { return utf8_header_; }
  /// Whether tables may have to be searched for the following content: feeding it can take time.
  bool checked() const { return inspection_ != nullptr && !in_body_; }
  /// Whether feeding will certainly take time: a long field has gathered, or recent look-ups in these tables were
  /// slow. text() and line_end() may then be called in another thread, one at a time.
  bool slow() const;
  /// Call this when feeding was found to be slow.
  void found_slow() const;
  /// Whether the declared body type may no longer hold: true_body_type() gives the real one.
  bool converts() const { return conversion_ != nullptr; }

  /// Ends the content: ends an unfinished line and completes an unfinished header.
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
  /// Passes on what is held of a line above the header, if its kind is known.
  void decide_top(bool whole);
  void convert(std::string_view part);
  bool processes() const;
  void take_converted();
  void inspect(std::string_view part);
  void inspect_end();
  /// Whether the next content is kept; sets the problem when a limit is exceeded.
  bool has_room();
  void keep(std::string_view part);
  void keep_end();
  void header_text(std::string_view part);
  void header_line_end();
  void decide(bool whole);
  bool dropped(std::string_view line) const;
  /// Keeps what belongs to the field to be taken. True: this begins one, or goes on with it.
  bool taken(std::string_view text, bool begins);
  void end_header(bool separator);
  void unended_header();
  void fail_with(ContentProblem problem);
  void count_hops();
  void count_field();

  ContentOptions options_;
  std::string out_;
  std::string line_;  // the present header line, until its kind is known
  mail::FactsCollector facts_;
  mail::HeaderScanner header_;
  std::unique_ptr<Inspection> inspection_;  // nullptr: no checks and no mapping
  std::unique_ptr<Conversion> conversion_;  // nullptr: 8-bit parts stay unchanged
  std::string failed_lookup_, refusal_, refused_text_;
  std::uint64_t received_ = 0;
  std::size_t fields_ = 0;  // of the peer's header
  ContentProblem problem_ = ContentProblem::none;
  bool raw_ = false;  // content is processed before it is taken apart
  /// Where a mailbox's separator may come; in one; behind them.
  enum class Top : std::uint8_t { open, separator, over };
  Top top_ = Top::over;
  std::string top_line_;  // the start of a line, until it is known whether it is one
  bool utf8_header_ = false;
  bool in_body_ = false;
  bool ending_ = false;  // no more content will come
  bool first_line_ = true;
  bool decided_ = false;            // a part of the present header line was passed on
  bool dropping_ = false;           // the present header field is left out
  std::string* taking_ = nullptr;   // and is one to be taken: into this
  std::vector<std::string> taken_;  // whole, with their names, as take_fields; empty: it has not come
  bool line_open_ = false;
};

/// The body type to declare for content that was converted to 7-bit (RFC 6152, RFC 3030): never more than the client
/// declared, and only as much of that as still holds.
mail::BodyType true_body_type(mail::BodyType declared, const mail::BodyFacts& facts);

}  // namespace pen::intake
