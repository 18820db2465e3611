#pragma once
/// The Authentication-Results: field, written and recognised.
///
/// Use:     ResultsField field("mx.example.org");
///          field.method("spf", "pass");  field.property("smtp.mailfrom", "a@x.example");
///          field.method("dkim", "fail", "the body has changed");
///          std::string whole = field.text();          // folded, without its last CRLF
///          if (names_server(value, "mx.example.org")) … the field claims to be ours
/// Form:    values that are no token are quoted; what is not printable ASCII becomes "?"; each is cut after kMaxValue.
/// Source:  RFC 8601 sections 2.2 and 5. Pure.
#include <string>
#include <string_view>

namespace pen::smtpd {

inline constexpr std::string_view kResultsName = "Authentication-Results";

class ResultsField {
 public:
  static constexpr std::size_t kMaxValue = 255;

  explicit ResultsField(std::string_view authserv_id);
  /// Begins the results of one method. reason: for people; empty: none.
  void method(std::string_view name, std::string_view result, std::string_view reason = {});
  /// A property of the last method; nothing is written of an empty value.
  void property(std::string_view name, std::string_view value);
  std::string text() const { return text_; }
  /// The same on one line, without the name of the field and of the server: for the log.
  std::string line() const { return line_; }

 private:
  void add(const std::string& word);
  std::string text_, line_;
  std::size_t column_ = 0;
};

/// Whether the value of such a field (behind the colon) names this server, or may do so for some reader. Comments,
/// blanks and controls may stand before the name; where a comment or quote has no end, it may stand anywhere.
bool names_server(std::string_view value, std::string_view authserv_id);

}  // namespace pen::smtpd
