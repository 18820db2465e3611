#include "lib/send/daily_reports/submitter.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::daily_reports {
namespace {

int hex(char c) {
  if (ascii_digit(c)) return c - '0';
  const char low = ascii_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// RFC 3986 section 2.1; nullopt: malformed.
std::optional<std::string> decode_percent(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
    i += 2;
  }
  return out;
}

bool printable_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// True: a plain address, which is safe in an envelope.
bool plain_address(std::string_view text) {
  const auto at = text.rfind('@');
  if (at == text.npos || at == 0 || at + 1 == text.size() || text.find('@') != at) return false;
  return printable_word(text) && text.find_first_of("<>()[]\\,;:\"") == text.npos;
}

}  // namespace

std::optional<std::string> address_of_mailto(std::string_view uri) {
  constexpr std::string_view kScheme = "mailto:";
  if (!istarts_with(uri, kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  auto address = decode_percent(uri.substr(0, uri.find('?')));  // header fields in the URI are ignored
  if (!address || !plain_address(*address)) return std::nullopt;
  return address;
}

std::string compress(const std::string& text) {
  z_stream z{};
  // 15 + 16: a gzip header, whose time stays 0.
  PEN_CHECK(::deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&z, static_cast<uLong>(text.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  PEN_CHECK(::deflate(&z, Z_FINISH) == Z_STREAM_END, "the bound holds");
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}

std::string base64_lines(std::string_view bytes) {
  constexpr std::size_t kLine = 76;
  const std::string text = base64_encode(bytes);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += kLine) out.append(text, at, kLine).append("\r\n");
  return out;
}

std::string report_parts(std::string_view boundary, std::string_view text, std::string_view type,
                         std::string_view file_name, std::string_view compressed) {
  std::string out = fmt::format(
      "This is a MIME-encapsulated message.\r\n\r\n--{0}\r\nContent-Type: text/plain; charset=us-ascii\r\n"
      "Content-Transfer-Encoding: 7bit\r\n\r\n{1}\r\n--{0}\r\nContent-Type: {2}\r\n"
      "Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment;\r\n\tfilename=\"{3}\"\r\n\r\n",
      boundary, text, type, file_name);
  out += base64_lines(compressed);
  return out + fmt::format("\r\n--{}--\r\n", boundary);
}

}  // namespace pen::daily_reports
