#pragma once
/// A limit as delivery_limit_maps and the providers of shaping.rules have it: "rate=10/m", "connections=5", or both.
///
/// Use:     if (const auto limit = parse_limit(value)) … else complain(value + " " + limit.error());
/// Form:    with white space or commas between them. A rate may be several: "rate=20/s,5000/h connections=5".
/// Pure.
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "lib/base/rate.h"

namespace pen::shaping {

/// 0: no limit.
struct Limit {
  Rates rates;
  std::uint32_t connections = 0;
  bool limits() const { return rates.limits() || connections > 0; }
  bool operator==(const Limit&) const = default;
};

/// The error is the rest of a sentence that names the text.
std::expected<Limit, std::string> parse_limit(std::string_view text);

}  // namespace pen::shaping
