#pragma once
/// Classes of errors with mail that a postmaster may want notices of: the words of notify_classes.
///
/// Use:     PEN_TRY_ASSIGN(const ErrorClasses told, parse_error_classes(settings.notify_classes));
///          ErrorClasses seen; seen.add(ErrorClass::protocol); if (seen.among(told)) …
/// Errors:  a word that is not a class (EINVAL; the text names it and the known classes).
/// Source:  Postfix notify_classes: bounce implies double_bounce ("2bounce").
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.h"

namespace pen::mail {

enum class ErrorClass : std::uint8_t {
  bounce,         // mail cannot be delivered, or was refused for that reason
  double_bounce,  // the notice of that cannot be delivered either
  data,           // a table or file that is needed cannot be read
  delay,
  policy,    // a client asked for something that is not allowed
  protocol,  // one side violated the protocol
  resource,  // no disk space, or no descriptors
  software,  // our setup is wrong, or a part of ours does not work
};

class ErrorClasses {
 public:
  constexpr ErrorClasses() = default;
  constexpr ErrorClasses(ErrorClass one) : bits_(bit(one)) {}  // NOLINT: one is a set of one
  /// The inverse of bits(); unknown bits are dropped.
  static constexpr ErrorClasses from_bits(std::uint8_t bits) {
    ErrorClasses c;
    c.bits_ = bits;
    return c;
  }
  constexpr std::uint8_t bits() const { return bits_; }
  constexpr void add(ErrorClasses more) { bits_ = static_cast<std::uint8_t>(bits_ | more.bits_); }
  constexpr bool has(ErrorClass one) const { return (bits_ & bit(one)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// The classes that are in both sets.
  constexpr ErrorClasses among(ErrorClasses others) const {
    return from_bits(static_cast<std::uint8_t>(bits_ & others.bits_));
  }
  constexpr ErrorClasses without(ErrorClasses others) const {
    return from_bits(static_cast<std::uint8_t>(bits_ & ~others.bits_));
  }
  bool operator==(const ErrorClasses&) const = default;

 private:
  static constexpr std::uint8_t bit(ErrorClass one) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(one));
  }
  std::uint8_t bits_ = 0;
};

/// The words may be in any case.
Result<ErrorClasses> parse_error_classes(std::span<const std::string> words);
/// "policy, protocol": for the log.
std::string shown(ErrorClasses classes);

}  // namespace pen::mail
