// OpenDKIM's tables and configuration: any text gives tables or an error, in reasonable time.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/trust/dkim/opendkim_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto entries = dkim::parse_data_set(input);
  for (const bool patterns : {false, true}) {
    const auto table = dkim::SigningTable::of(entries, patterns);
    const auto first = table.find("user@host.example.org", false);
    const auto all = table.find("user@host.example.org", true);
    PEN_CHECK(first.size() <= 1 && (first.empty() == all.empty()), "the first is none of all");
    if (!first.empty()) PEN_CHECK(first[0] == all[0], "another one is the first");
    if (patterns)
      for (const auto* hit : all)
        PEN_CHECK(dkim::wildcard_match(hit->key, "user@host.example.org"), "found by another way than the pattern");
  }
  for (const auto& entry : entries) {
    if (const auto key = dkim::KeyEntry::parse(entry.value, "host.example.org", "file:1"))
      PEN_CHECK(!key->domain.empty() && !key->selector.empty() && !key->key.empty(), "an entry without its parts");
    for (const auto& signing : dkim::SigningEntry::parse(entry.value, "host.example.org"))
      PEN_CHECK(signing.signer.size() <= 20 * entry.value.size(), "it grows too much");
  }
  (void)dkim::OpendkimConf::parse(input, "file");
  return 0;
}
