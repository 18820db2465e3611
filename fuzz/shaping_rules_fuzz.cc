// Files of rules (lib/queue/shaping), and replies that are looked at with what was read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/queue/shaping/rules_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = text.find('\xff');
  const std::string_view reply = end == std::string_view::npos ? text : text.substr(end + 1);
  pen::shaping::Rules rules;
  const bool whole = pen::shaping::read_rules(text.substr(0, end), "f", rules).has_value();
  if (!whole && (!rules.rules().empty() || !rules.providers().empty())) std::abort();  // all of a file or nothing
  for (const auto& provider : rules.providers()) {
    for (const std::string& suffix : provider->suffixes)
      if (rules.provider_of(suffix.front() == '.' ? "x" + suffix : suffix, {}) == nullptr) std::abort();
    for (const pen::Network& network : provider->networks)
      if (rules.provider_of("", network.base.text()) == nullptr) std::abort();
  }
  const auto looked = pen::shaping::reply_of(reply);
  if (looked.words.size() > pen::shaping::kMaxReply) std::abort();
  const auto* rule = rules.classify(nullptr, looked);
  if (rule != nullptr && !rule->fits(nullptr, looked)) std::abort();
  return 0;
}
