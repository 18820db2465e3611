#pragma once
/// Fields of lines of Dovecot's authentication protocol, for both sides of it (dovecot.h, dovecot_requests.h).
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace pen::sasl::dovecot {

/// Cuts the next field off the line.
std::string_view take_field(std::string_view& line);
/// Numbers of requests are not 0.
std::optional<std::uint32_t> parse_id(std::string_view text);
/// RFC 4422 section 3.1, as far as it keeps an EHLO line in one piece.
bool valid_mechanism(std::string_view name);

/// The words of MECH lines.
struct PropertyWord {
  std::string_view word;
  unsigned bit;
};
std::span<const PropertyWord> property_words();

}  // namespace pen::sasl::dovecot
