// Alias values and forward files from users: whatever they hold, expansion ends within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/check.h"
#include "local/expand.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen::local;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ExpandRules rules{"example.org", "+"};
  if (const auto targets = parse_targets(text)) PEN_CHECK(targets->size() <= kMaxTargets);
  if (const auto e = expand_forward(text, "bob", rules))
    PEN_CHECK(e->forwards.size() <= kMaxTargets);
  // Every name is an alias for the input, and every include file holds it: circles have to end.
  Lookups lookups;
  std::size_t asked = 0;
  lookups.alias = [&](const std::string& name) -> pen::Result<std::optional<std::string>> {
    if (++asked > 200 || name.starts_with("owner-")) return std::nullopt;
    return text;
  };
  lookups.include = [&](const std::string&) -> pen::Result<std::string> { return text; };
  if (const auto e = expand("start", rules, lookups)) PEN_CHECK(e->forwards.size() <= kMaxTargets);
  return 0;
}
