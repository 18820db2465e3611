// 8-bit content converted to 7-bit: a part decodes to the original, and cuts change nothing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/mail/seven_bit.h"
#include "lib/mail/testing/mime_decode.h"

namespace {

using namespace pen;

std::string convert(std::string_view text, std::size_t step) {
  mail::SevenBitForm form(true);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += step) form.feed(text.substr(at, step), out);
  form.finish(out);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string whole = convert(input, input.size() + 1);
  PEN_CHECK(whole == convert(input, 1), "the cut matters");
  PEN_CHECK(whole == convert(input, 7), "the cut matters");
  PEN_CHECK(whole.size() <= 4 * input.size() + 300 * (input.size() / 2 + 1), "it grows too much");

  // The input becomes a part between two delimiters, which must not occur in it.
  if (input.contains("--b0undary")) return 0;
  for (const bool text : {true, false}) {
    const std::string before = std::string(
                                   "Content-Type: multipart/mixed; "
                                   "boundary=b0undary\r\n\r\n--b0undary\r\nContent-Type: ") +
                               (text ? "text/plain" : "image/x") + "\r\n";
    const std::string out =
        convert(before + "Content-Transfer-Encoding: 8bit\r\n\r\n" + std::string(input) + "\r\n--b0undary--\r\n",
                1 + input.size() % 11);
    PEN_CHECK(out.starts_with(before), "what precedes changed");
    const auto begin = out.find("\r\n\r\n", before.size()) + 4;
    const auto end = out.rfind("--b0undary--");
    PEN_CHECK(end != std::string::npos && end >= begin, "the delimiter is gone");
    std::string_view encoded = std::string_view(out).substr(begin, end - begin);
    PEN_CHECK(out.find("--b0undary", begin) == end, "a delimiter came up");
    for (const char c : encoded) PEN_CHECK(static_cast<unsigned char>(c) < 0x80, "8-bit is left");
    if (text) encoded.remove_suffix(2);  // this line end belongs to the delimiter
    const auto back = text ? mail::decode_quoted_printable(encoded) : mail::decode_base64(encoded);
    PEN_CHECK(back.has_value() && *back == input, "another content");
  }
  return 0;
}
