#pragma once
/// Decodes quoted-printable and base64: tests and fuzz targets check SevenBitForm against it. Strict: nullopt for text
/// that no encoder makes.
#include <optional>
#include <string>
#include <string_view>

namespace pen::mail {

inline std::optional<std::string> decode_quoted_printable(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  std::string out;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\r\n") {
      if (out.ends_with(' ') && i > 0 && text[i - 1] == ' ') return std::nullopt;
      out += "\r\n";
      ++i;
      column = 0;
      continue;
    }
    if (++column > 76) return std::nullopt;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c != '=') {
      if (c != '\t' && (c < ' ' || c > 126)) return std::nullopt;
      out += text[i];
    } else if (text.substr(i + 1, 2) == "\r\n") {
      i += 2;
      column = 0;
    } else {
      if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return std::nullopt;
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
      column += 2;
    }
  }
  return out;
}

inline std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0, count = 0, padding = 0;
  for (const char c : text) {
    if (c == '\r' || c == '\n') continue;
    const auto at = kAlphabet.find(c);
    if (c == '=' ? ++padding > 2 : padding > 0 || at == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(c == '=' ? 0 : at);
    if (++count % 4 != 0) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 255U);
    bits = 0;
  }
  if (count % 4 != 0) return std::nullopt;
  out.resize(out.size() - padding);
  return out;
}

}  // namespace pen::mail
