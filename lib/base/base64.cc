#include "lib/base/base64.h"

#include <array>
#include <cstdint>

namespace pen {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 64;
constexpr auto kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNone);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

/// Passes each byte to `out`; false: the text is not base 64.
template <class Out>
bool decode(std::string_view text, Out out) {
  if (text.size() % 4 != 0) return false;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const std::uint8_t value = kValues[static_cast<unsigned char>(c)];
    if (value == kNone) return false;
    bits = (bits << 6 | value) & 0xffffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      out(static_cast<char>(bits >> held & 0xff));
    }
  }
  return (bits & ((1u << held) - 1)) == 0;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) -> std::uint32_t {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
    };
    const std::uint32_t bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += kAlphabet[bits >> 18];
    out += kAlphabet[bits >> 12 & 63];
    out += i + 1 < bytes.size() ? kAlphabet[bits >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kAlphabet[bits & 63] : '=';
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  if (!decode(text, [&](char c) { out += c; })) return std::nullopt;
  return out;
}

bool valid_base64(std::string_view text) {
  return decode(text, [](char) {});
}

}  // namespace pen
