#pragma once
/// Reads a passing message as a notice about mail of ours or as a feedback report.
///
/// Use:     Reader reader;
///          while (reader.wants_more() && …) reader.feed(bytes);    // stored form: CRLF lines
///          Report report = reader.finish();                        // parsed() says whether it was one
/// Rules:   the first part message/delivery-status or message/feedback-report counts, if no message stands before it:
///          reports inside of returned or forwarded messages are not about our mail. Without such a part the text is
///          read as qmail's or Exim's. Every report is a claim: nothing here proves its author.
/// Bounds:  kMostBytes of content are looked at, kMostPart of each part are kept; MimeWalker's for nesting.
/// Source:  RFC 6522, RFC 3464, RFC 5965, RFC 6533. No I/O; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/mail/mime_walker.h"
#include "lib/mail/returned/report.h"
#include "lib/mail/wire.h"

namespace pen::returned {

class Reader final : private mail::MimeWalker::Sink {
 public:
  // The text before a report is seldom longer, and the header of what comes back neither.
  static constexpr std::uint64_t kMostBytes = 1U << 20;
  static constexpr std::size_t kMostPart = 256U << 10;
  static constexpr std::size_t kMostText = 64U << 10;

  Reader();
  void feed(std::string_view piece);
  /// False: what is behind changes nothing.
  bool wants_more() const { return !done_ && seen_ < kMostBytes; }
  /// Once, at the end.
  Report finish();
  /// Message/delivery-status and its kin, or anything like it, may be in there: the message says it is a report.
  const std::string& type() const { return top_type_; }

 private:
  enum class Part : std::uint8_t { other, text, status, feedback, header };
  using Header = mail::MimeWalker::Header;
  void field(Header header, std::string_view text, bool ends) override;
  void more_field(Header, std::string_view, bool) override {}
  void end_of_header(Header header, bool separator) override;
  void body(std::string_view text, bool ends) override;
  void keep(std::string& into, std::string_view text, bool ends, std::size_t most);

  mail::MimeWalker walker_;
  mail::BdatScanner scanner_;
  std::uint64_t seen_ = 0;
  bool done_ = false;
  std::string top_type_, type_, encoding_;  // of the message; of the present part
  std::string failed_recipients_;
  Part part_ = Part::other;
  bool line_starts_ = true;
  std::string report_, report_encoding_;
  Part report_kind_ = Part::other;  // of report_
  std::string text_, text_encoding_, inner_header_;
};

}  // namespace pen::returned
