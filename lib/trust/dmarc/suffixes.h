#pragma once
/// The list of public suffixes: below which names do domains belong to different owners?
///
/// Use:     auto suffixes = Suffixes::read("/usr/share/publicsuffix/public_suffix_list.dat");
///          (*suffixes)->organisation("a.b.example.co.uk") == "example.co.uk"
/// Errors:  of the file; no_list: it holds no rule, or is larger than kMaxSize.
/// Thread:  immutable; any.
/// Source:  publicsuffix.org/list (the algorithm), RFC 7489 section 3.2. Both parts of the list count.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/trust/dmarc/record.h"

namespace pen::dmarc {

class Suffixes {
 public:
  // The list of 2023 has 240 KB.
  static constexpr std::size_t kMaxSize = 8U << 20;

  static Result<std::shared_ptr<const Suffixes>> read(const std::string& file);
  static Result<std::shared_ptr<const Suffixes>> parse(std::string_view text);
  /// One label more than the public suffix. A public suffix is its own. domain: lower case, A-labels.
  std::string organisation(std::string_view domain) const;

 private:
  enum class Rule : std::uint8_t { suffix, all_below, exception };
  std::unordered_map<std::string, std::uint8_t> rules_;  // bits by Rule
  bool has(const std::string& name, Rule rule) const;
};

}  // namespace pen::dmarc
