#include "lib/base/idn/fold.h"

#include <unicase.h>
#include <unistr.h>

#include <cstdlib>
#include <memory>

#include "lib/base/text.h"

namespace pen::idn {
namespace {

struct Freed {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

}  // namespace

bool beyond_ascii(std::string_view text) {
  unsigned char all = 0;  // no early end: several bytes at a time
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all >= 0x80;
}

std::string fold(std::string_view text) {
  std::string out = to_lower(text);
  if (!beyond_ascii(out)) return out;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(out.data());
  if (::u8_check(bytes, out.size()) != nullptr) return out;
  std::size_t size = 0;
  const std::unique_ptr<std::uint8_t, Freed> folded(::u8_casefold(bytes, out.size(), nullptr, nullptr, nullptr, &size));
  if (folded == nullptr) return out;
  return {reinterpret_cast<const char*>(folded.get()), size};
}

bool equal(std::string_view a, std::string_view b) {
  if (iequals(a, b)) return true;
  return beyond_ascii(a) && beyond_ascii(b) && fold(a) == fold(b);
}

}  // namespace pen::idn
