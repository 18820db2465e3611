// Alias values and forward files from users: whatever they contain, expansion ends within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/check.h"
#include "local/expand.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen::local;
  const std::string text(reinterpret_cast<const char*>(data), size);
  ExpandRules rules{.domain = "example.org", .delimiters = "+"};
  rules.propagate = rules.commands = {true, true, true};
  rules.expand_owner = true;
  const auto check = [](const pen::Result<Expansion>& e) {
    if (!e) return;
    std::size_t all = e->direct.size();
    for (const auto& group : e->forwards) all += group.to.size();
    PEN_CHECK(all <= kMaxTargets);
    // The empty name, "", is a user that does not exist.
    for (const auto& d : e->direct)
      PEN_CHECK(!d.text.empty() || d.kind == Direct::Kind::command || d.kind == Direct::Kind::user);
  };
  if (const auto targets = parse_targets(text)) PEN_CHECK(targets->size() <= kMaxTargets);
  // Every name is an alias for the input, and every include file contains it: loops must end.
  Lookups lookups;
  std::size_t asked = 0;
  lookups.include = [&](const std::string&, std::optional<uid_t>, const std::string&) -> pen::Result<OwnedText> {
    return OwnedText{text, 1};
  };
  lookups.alias = [&](const std::string& name) -> pen::Result<std::optional<OwnedText>> {
    if (++asked > 50 || (name.starts_with("owner-") && asked % 2 == 0)) return std::nullopt;
    return OwnedText{text, std::nullopt};
  };
  check(expand_forward({text, "bob", 1, "+e"}, rules, lookups));
  asked = 0;
  check(expand_forward({text, "bob", 1, "", {"start@example.org", "bob@example.org"}}, rules, lookups));
  asked = 0;
  check(expand("start+x", rules, lookups));
  return 0;
}
