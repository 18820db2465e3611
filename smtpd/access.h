#pragma once
/// Parses the right-hand side of an access(5) table.
#include <string>
#include <string_view>

namespace pen::smtpd {

struct AccessAction {
  enum class Kind : unsigned char {
    permit,
    dunno,
    reject,
    defer,
    defer_if_permit,
    defer_if_reject,
    code,
    warn,
    info,
    discard,
    hold,
    filter,        // text: "transport:nexthop"
    redirect,      // text: an address
    bcc,           // text: an address
    prepend,       // text: a header field
    malformed,     // an action without its argument: text says which
    restrictions,  // anything else: a list of restrictions and classes, in text
  };
  Kind kind = Kind::dunno;
  int code = 0;      // Kind::code: 400 to 599
  std::string word;  // Kind::permit: which one, for the log
  std::string dsn;   // extended status at the beginning of the text; empty: none
  std::string text;  // the rest
};
/// Source: access(5) ACCEPT ACTIONS, REJECT ACTIONS, OTHER ACTIONS.
AccessAction parse_access(std::string_view value);

/// Cuts a status code such as "5.7.1 " off the front of a text and returns it; empty: there is none.
std::string take_dsn(std::string_view& text);

}  // namespace pen::smtpd
