#include "smtpd/access.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/header.h"

namespace pen::smtpd {

std::string take_dsn(std::string_view& text) {
  // class "." subject "." detail, each 1 to 3 digits (RFC 3463 section 2)
  std::size_t at = 0;
  if (text.empty() || (text[0] != '2' && text[0] != '4' && text[0] != '5')) return {};
  at = 1;
  for (int part = 0; part < 2; ++part) {
    if (at >= text.size() || text[at] != '.') return {};
    const std::size_t start = ++at;
    while (at < text.size() && ascii_digit(text[at]) && at - start < 3) ++at;
    if (at == start) return {};
  }
  if (at < text.size() && !ascii_space(text[at])) return {};
  std::string dsn(text.substr(0, at));
  text = trim(text.substr(at));
  return dsn;
}

AccessAction parse_access(std::string_view value) {
  using Kind = AccessAction::Kind;
  value = trim(value);
  const auto space = std::min(value.find_first_of(" \t"), value.size());
  const std::string_view word = value.substr(0, space);
  std::string_view rest = trim(value.substr(space));
  AccessAction action;
  const auto with_text = [&](Kind kind) {
    action.kind = kind;
    action.dsn = take_dsn(rest);
    action.text = std::string(rest);
    return action;
  };
  const auto permit = [&](std::string_view by) {
    action.word = by;
    return with_text(Kind::permit);
  };
  const bool digits = !value.empty() && std::ranges::all_of(word, ascii_digit);
  if (digits && rest.empty()) return permit(word);  // "a string of digits only is OK", a code alone too
  if (digits && word.size() == 3 && (word[0] == '4' || word[0] == '5')) {
    action.code = (word[0] - '0') * 100 + (word[1] - '0') * 10 + (word[2] - '0');
    return with_text(Kind::code);
  }
  for (const std::string_view by : {"OK", "RELAY"})
    if (iequals(word, by)) return permit(by);
  if (iequals(word, "REJECT")) return with_text(Kind::reject);
  if (iequals(word, "DEFER")) return with_text(Kind::defer);
  if (iequals(word, "DEFER_IF_PERMIT")) return with_text(Kind::defer_if_permit);
  if (iequals(word, "DEFER_IF_REJECT")) return with_text(Kind::defer_if_reject);
  if (iequals(word, "DUNNO")) return with_text(Kind::dunno);
  if (iequals(word, "WARN")) return with_text(Kind::warn);
  if (iequals(word, "INFO")) return with_text(Kind::info);
  if (iequals(word, "DISCARD")) return with_text(Kind::discard);
  if (iequals(word, "HOLD")) return with_text(Kind::hold);
  const auto with_argument = [&](Kind kind, bool right, const char* needs) {
    action.kind = right ? kind : Kind::malformed;
    action.text = right ? std::string(rest) : std::string(needs);
    return action;
  };
  if (iequals(word, "FILTER"))
    return with_argument(Kind::filter, rest.find(':') != rest.npos && rest.front() != ':',
                         "FILTER needs transport:destination");
  if (iequals(word, "REDIRECT"))
    return with_argument(Kind::redirect, rest.find('@') != rest.npos, "REDIRECT needs user@domain");
  if (iequals(word, "BCC")) return with_argument(Kind::bcc, rest.find('@') != rest.npos, "BCC needs user@domain");
  if (iequals(word, "PREPEND"))
    return with_argument(Kind::prepend, mail::field_name_length(rest) > 0, "PREPEND needs a header field");
  action.kind = Kind::restrictions;
  action.text = std::string(value);
  return action;
}

}  // namespace pen::smtpd
