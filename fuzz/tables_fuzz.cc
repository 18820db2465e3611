// The texts of tables: rules of regexp, pcre and cidr, key-value lines, aliases, list settings, networks.
#include <cstddef>
#include <cstdint>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"
#include "lib/map/rules.h"
#include "lib/map/table_text.h"

using namespace pen::map;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto style : {RuleStyle::delimited, RuleStyle::word}) {
    PassedOver passed_over;
    if (const auto rules = parse_rules(text, "f", style, passed_over)) {
      PEN_CHECK(passed_over.notes("f").size() <= PassedOver::kMax + 1);
      for (const auto& rule : *rules) {
        PEN_CHECK(rule.line > 0);
        if (rule.kind == Rule::Kind::if_block) PEN_CHECK(rule.skip_to <= rules->size() && rule.skip_to > 0);
      }
    }
  }
  for (const auto& e : parse_table(text, "f").entries) PEN_CHECK(!e.key.empty() && !e.value.empty());
  for (const auto& e : parse_aliases(text, "f").entries) {
    for (const auto& destination : split_destinations(e.value)) PEN_CHECK(!destination.empty());
  }
  for (const auto& item : pen::split_list(text)) PEN_CHECK(!item.empty());
  if (const auto network = pen::parse_network(text)) {
    PEN_CHECK(network->contains(network->base));
    PEN_CHECK(pen::parse_ip(network->base.text()).has_value());
  }
  if (text.find('/') == std::string_view::npos && text.find(':') == std::string_view::npos) {
    if (const auto list = MatchList::open(MatchList::Kind::host, text, {})) {
      (void)list->matches_host("a.example.org", "192.0.2.1");
    }
  }
  (void)open("inline:" + std::string(text));
  return 0;
}
