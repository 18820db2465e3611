/// The "$name" language alone, where every name stands for another part of the input.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/config/expand.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto result = pen::config::expand(input, [&](std::string_view name) -> std::optional<std::string> {
    if (name.empty() || name[0] == 'u') return std::nullopt;
    const std::size_t start = static_cast<unsigned char>(name[0]) % (size + 1);
    return std::string(input.substr(start, name.size() * 4));
  });
  PEN_CHECK(result.error.empty() || result.text.empty());
  PEN_CHECK(result.text.size() <= pen::config::kMaxText);
  if (input.find('$') == std::string_view::npos) PEN_CHECK(result.text == input);
  for (const auto& use : pen::config::names_in(input)) PEN_CHECK(input.find(use.name) != std::string_view::npos);
  return 0;
}
