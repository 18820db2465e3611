#pragma once
/// The two canonical forms of header fields and of the body.
///
/// Use:     CanonicalBody body(Form::relaxed);
///          body.feed(piece, out); …                 // out(std::string_view) gets the canonical text
///          body.finish(out);
/// Form:    content as stored: CRLF line ends. Any other CR or LF is an ordinary character.
/// Speed:   what does not change is passed on in long pieces of the input, never copied.
/// Source:  RFC 6376 section 3.4. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pen::dkim {

enum class Form : std::uint8_t { simple, relaxed };

struct Canonicalization {
  Form header = Form::relaxed, body = Form::relaxed;
  /// "relaxed/simple"; the body's form is simple if there is none. In any case.
  static std::optional<Canonicalization> parse(std::string_view text);
  std::string text() const;
  bool operator==(const Canonicalization&) const = default;
};

/// A field of a header: both parts are views into it.
struct FieldView {
  std::string_view name;   // without blanks behind it
  std::string_view whole;  // name, colon, value with its folding; without the last CRLF
};
/// The fields at the beginning of the text, up to the empty line or to the first line that is no field. At most `most`.
std::vector<FieldView> split_fields(std::string_view header, std::size_t most);

/// Fields found by name, from the last one up (RFC 6376 section 5.4.2): made once for all signatures of a header.
class FieldIndex {
 public:
  explicit FieldIndex(std::span<const FieldView> fields);
  /// Appends the canonical form of the fields that the names choose, each line with its end. One that comes once more
  /// than there are fields chooses nothing. Not chosen: the field that begins at `but`.
  void append(Form form, std::span<const std::string> names, const char* but, std::string& out) const;
  /// Look-ups of fields so far: tests bound the work.
  std::size_t steps() const { return steps_; }

 private:
  std::map<std::string, std::vector<std::string_view>, std::less<>> by_name_;  // in lower case; whole fields, upwards
  mutable std::size_t steps_ = 0;
};

/// Appends the canonical form of a field, without a line end.
void append_canonical(Form form, std::string_view whole, std::string& out);

class CanonicalBody {
 public:
  explicit CanonicalBody(Form form) : form_(form) {}

  template <class Out>
  void feed(std::string_view piece, Out&& out) {
    if (form_ == Form::simple)
      feed_simple(piece, out);
    else
      feed_relaxed(piece, out);
  }
  template <class Out>
  void finish(Out&& out) {
    if (cr_) flush(out);
    if (form_ == Form::simple || some_) out(std::string_view("\r\n"));
  }

 private:
  static bool special(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  /// Puts out what was held back, because something follows it.
  template <class Out>
  void flush(Out&& out) {
    for (; ends_ > 0; --ends_) out(std::string_view("\r\n"));
    if (blank_) out(std::string_view(" "));
    if (cr_) out(std::string_view("\r"));
    blank_ = cr_ = false;
    some_ = true;
  }

  template <class Out>
  void feed_simple(std::string_view piece, Out&& out) {
    if (piece.empty()) return;
    if (cr_ && piece.front() == '\n') {
      cr_ = false;
      ++ends_;
      piece.remove_prefix(1);
    } else if (cr_) {
      flush(out);
    }
    for (; piece.starts_with("\r\n"); piece.remove_prefix(2)) ++ends_;
    const bool cr = piece.ends_with('\r');
    if (cr) piece.remove_suffix(1);
    std::uint64_t ends = 0;
    for (; piece.ends_with("\r\n"); piece.remove_suffix(2)) ++ends;
    if (!piece.empty()) {
      flush(out);
      out(piece);
    }
    ends_ += ends;
    cr_ = cr;
  }

  template <class Out>
  void feed_relaxed(std::string_view piece, Out&& out) {
    const char* p = piece.data();
    const char* const end = p + piece.size();
    while (p < end) {
      // What changes, or may change: blanks and line ends, until something else comes.
      for (; p < end && (special(*p) || (cr_ && *p == '\n')); ++p) take_special(*p, out);
      if (p == end) return;
      if (blank_ || cr_ || ends_ > 0) flush(out);
      some_ = true;
      // What does not change.
      const char* const run = p;
      while (p < end) {
        if (!special(*p))
          ++p;
        else if (*p == ' ' && end - p > 1 && !special(p[1]))
          p += 2;
        else if (*p == '\r' && end - p > 2 && p[1] == '\n' && !special(p[2]))
          p += 3;
        else
          break;
      }
      out(std::string_view(run, static_cast<std::size_t>(p - run)));
    }
  }
  template <class Out>
  void take_special(char c, Out&& out) {
    if (c == '\n') {
      ++ends_;
      blank_ = cr_ = false;
      return;
    }
    if (cr_) flush(out);
    if (c == '\r')
      cr_ = true;
    else
      blank_ = true;
  }

  // Held back, in this order:
  std::uint64_t ends_ = 0;  // line ends
  bool blank_ = false;      // relaxed: one or more blanks
  bool cr_ = false;
  Form form_;
  bool some_ = false;  // something was put out
};

}  // namespace pen::dkim
