#pragma once
/// penmap -h and -b: takes from a message on standard input the keys that header and body checks would look up.
///
/// Use:     each_key(std::cin, {.header = true, .mime = true}, [&](const std::string& key) { …; return go_on; });
/// Keys:    header: whole fields, with "\n" between their lines. body: lines. mime: the header fields of parts and of
///          messages inside count as header, as in header_checks(5) and body_checks(5); without mime all after the
///          first header is body.
/// Bounds:  by default those of smtpd's checks: header_size_limit bytes of a field, line_length_limit bytes of a
///          line. Only the beginning of a longer field is a key; a longer line comes in pieces.
/// Source:  Postfix postmap(1) -b, -h, -m.
#include <functional>
#include <istream>
#include <string>

namespace pen::tools {

struct MessageKeys {
  bool header = false, body = false, mime = false;
};

/// Reads until the end of the input, or until see() returns false.
void each_key(std::istream& in, const MessageKeys& wanted, const std::function<bool(const std::string& key)>& see);

}  // namespace pen::tools
