#pragma once
/// Reads SMTP replies as a client: lines in, whole replies out, whatever the peer sends.
///
/// Use:     ReplyParser parser;
///          for each line (without CRLF):
///            if (auto reply = parser.feed(line)) …       // a multi-line reply is joined
/// Rules:   the first digit decides (RFC 5321 section 4.2.1: unknown codes by first digit). A code outside 2xx-5xx, or
///          a line that begins no reply, is `malformed` and ends the reply: the caller has then lost its place in the
///          conversation. Inside a multi-line reply a line without a code counts as text. The code of the last line
///          counts.
/// Bounds:  text is cut at kMaxText; lines beyond kMaxLines are counted but not kept; after kMaxReplyLines the reply
///          is malformed (a peer that never ends its reply).
/// Source:  RFC 5321 section 4.2, RFC 2034, RFC 3463.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

struct Reply {
  int code = 0;  // 0 when malformed
  bool malformed = false;
  // "5.1.1" if the text begins with an enhanced code of the reply's class; else empty.
  std::string dsn;
  std::string text;  // all lines with their codes, joined by a space: "550-no 550 such user"
  // Text of each line after the code, if keep_lines() was asked for.
  std::vector<std::string> lines;

  int first_digit() const { return code / 100; }
  bool positive() const { return first_digit() == 2; }
  bool intermediate() const { return first_digit() == 3; }
  bool transient() const { return first_digit() == 4; }
  bool permanent() const { return first_digit() == 5; }
  /// The reply's enhanced code, or one made from the basic code by its first digit: "5.0.0".
  std::string dsn_or_default() const;
};

/// Reads "class.subject.detail" at the start of text, followed by a space or the end. Class 2, 4 or 5; parts of up to
/// 3 digits.
std::optional<std::string_view> enhanced_code(std::string_view text);

class ReplyParser {
 public:
  // Enough for a log line or a report.
  static constexpr std::size_t kMaxText = 2048;
  static constexpr std::size_t kMaxLines = 256;  // kept lines: an EHLO reply has some 20
  static constexpr std::size_t kMaxReplyLines = 10000;

  /// Whether to keep each line's text in Reply::lines (for EHLO), until the next call.
  void keep_lines(bool keep) { keep_lines_ = keep; }
  /// Takes one line without its line end. Returns the reply that this line completes.
  std::optional<Reply> feed(std::string_view line);
  /// Whether a multi-line reply has begun.
  bool partial() const { return count_ > 0; }

 private:
  Reply finish(int code, bool malformed);

  Reply reply_;
  std::size_t count_ = 0;
  bool keep_lines_ = false;
};

}  // namespace pen::mail
