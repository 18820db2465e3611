#include "lib/mail/returned/decode.h"

#include "lib/base/base64.h"
#include "lib/base/text.h"

namespace pen::returned {
namespace {

int digit(char c) {
  c = ascii_lower(c);
  if (ascii_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string quoted_printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=') {
      out += text[at];
      continue;
    }
    const std::string_view rest = text.substr(at + 1);
    if (rest.starts_with("\r\n")) {
      at += 2;
    } else if (rest.starts_with('\n')) {
      at += 1;
    } else if (rest.size() >= 2 && digit(rest[0]) >= 0 && digit(rest[1]) >= 0) {
      out += static_cast<char>(digit(rest[0]) * 16 + digit(rest[1]));
      at += 2;
    } else {
      out += '=';
    }
  }
  return out;
}

std::string base64(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (!ascii_space(c)) plain += c;
  plain.resize(plain.size() / 4 * 4);  // the text may have been cut
  return base64_decode(plain).value_or(std::string(text));
}

}  // namespace

std::string decoded(std::string_view encoding, std::string text) {
  if (encoding == "quoted-printable") return quoted_printable(text);
  if (encoding == "base64") return base64(text);
  return text;
}

}  // namespace pen::returned
