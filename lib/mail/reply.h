#pragma once
/// SMTP replies as a client reads them: lines in, whole replies out, whatever the peer sends.
///
/// Use:     ReplyParser parser;
///          for each line (without CRLF):
///            if (auto reply = parser.feed(line)) …       // a multi-line reply is joined
/// Rules:   the first digit decides (RFC 5321 section 4.2.1: unknown codes by first digit); codes outside
///          2xx-5xx and lines that begin no reply are `malformed` and end the reply: the caller cannot trust
///          its place any more. Inside a multi-line reply a line without a code is taken as text. The code of
///          the last line counts.
/// Bounds:  text is cut at kMaxText, lines beyond kMaxLines are counted but not kept, after kMaxReplyLines the
///          reply is malformed (a peer that never ends its reply).
/// Source:  RFC 5321 section 4.2, RFC 2034, RFC 3463.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

struct Reply {
  int code = 0;  // 0 when malformed
  bool malformed = false;
  // "5.1.1" if the text begins with an enhanced code of the reply's class; else empty
  std::string dsn;
  std::string text;  // all lines with their codes, joined by a space: "550-no 550 such user"
  // text of each line after the code; only when the parser was told to keep them
  std::vector<std::string> lines;

  int first_digit() const { return code / 100; }
  bool positive() const { return first_digit() == 2; }
  bool intermediate() const { return first_digit() == 3; }
  bool transient() const { return first_digit() == 4; }
  bool permanent() const { return first_digit() == 5; }
  /// The reply's enhanced code, or one made from the basic code by its first digit: "5.0.0".
  std::string dsn_or_default() const;
};

/// "class.subject.detail" at the start of text, followed by a space or the end. Class 2, 4 or 5;
/// parts up to 3 digits.
std::optional<std::string_view> enhanced_code(std::string_view text);

class ReplyParser {
 public:
  // what a log line or a report shows; the rest is noise
  static constexpr std::size_t kMaxText = 2048;
  static constexpr std::size_t kMaxLines = 256;  // kept lines: EHLO answers have some 20
  static constexpr std::size_t kMaxReplyLines = 10000;

  /// Keep each line's text in Reply::lines (for EHLO) until told otherwise.
  void keep_lines(bool keep) { keep_lines_ = keep; }
  /// One line without its line end. A reply when this line ends one.
  std::optional<Reply> feed(std::string_view line);
  /// Inside a multi-line reply.
  bool partial() const { return count_ > 0; }

 private:
  Reply finish(int code, bool malformed);

  Reply reply_;
  std::size_t count_ = 0;
  bool keep_lines_ = false;
};

}  // namespace pen::mail
