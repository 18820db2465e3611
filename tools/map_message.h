#pragma once
/// penmap -h and -b: the keys that a message on standard input gives, as header and body checks are asked about it.
///
/// Use:     each_key(std::cin, {.header = true, .mime = true}, [&](const std::string& key) { …; return go_on; });
/// Keys:    header: whole fields, "\n" between their lines. body: lines. mime: fields of parts and of messages inside
///          are header too, as header_checks(5) and body_checks(5) see them; else all after the first header is body.
/// Bounds:  those of smtpd's checks by default: a field of header_size_limit, a line of line_length_limit bytes; of
///          fields that are longer only the beginning is a key, lines that are longer come in pieces.
/// Source:  Postfix postmap(1) -b, -h, -m.
#include <functional>
#include <istream>
#include <string>

namespace pen::tools {

struct MessageKeys {
  bool header = false, body = false, mime = false;
};

/// Until the end of the input, or see() says false.
void each_key(std::istream& in, const MessageKeys& wanted, const std::function<bool(const std::string& key)>& see);

}  // namespace pen::tools
