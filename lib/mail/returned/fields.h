#pragma once
/// The fields that machine-readable parts of reports consist of, and the values in them.
///
/// Use:     for (FieldLines rest(text); auto f = rest.next();) … f->name, f->value …   // name empty: an empty line
/// Form:    as a message's header: "Name: value", lines that begin with a blank continue; CRLF or LF. A line that is
///          neither is passed over.
/// Bounds:  none of its own; value() cuts.
/// Source:  RFC 3464 section 2.1, RFC 5965 section 3. Pure.
#include <optional>
#include <string>
#include <string_view>

namespace pen::returned {

struct Field {
  std::string_view name;  // empty: an empty line
  std::string value;      // as clean() has it, but not cut
};

class FieldLines {
 public:
  explicit FieldLines(std::string_view text) : rest_(text) {}
  std::optional<Field> next();
  /// What was not read yet.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Takes a line, without its end, off the text. The text must not be empty.
std::string_view take_line(std::string_view& text);
/// A text on one line: runs of blanks and control bytes are one blank each, none at the ends; at most `most` bytes.
std::string clean(std::string_view text, std::size_t most);
/// The address in "rfc822; <jo@there.example>", without type, comment and brackets.
std::string address_of(std::string_view value);
/// The text behind the type in "smtp; 550 no".
std::string untyped(std::string_view value);
/// The status code at the start of a value, "5.1.1 (unknown)"; empty: there is none.
std::string status_of(std::string_view value);
/// The first code of that form in a text, behind a blank, "#" or a bracket; empty: there is none.
std::string status_within(std::string_view text);

}  // namespace pen::returned
