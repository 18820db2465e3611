#include "smtpd/other_protocol.h"

#include <algorithm>

namespace pen::smtpd {
namespace {

bool looks_like_field(std::string_view word) {
  const auto colon = word.find(':');
  return colon != 0 && colon != std::string_view::npos &&
         std::ranges::all_of(word.substr(0, colon), [](char c) { return c > 32 && c < 127; });
}

}  // namespace

bool other_protocol(std::string_view word, const map::MatchList& forbidden) {
  return looks_like_field(word) || forbidden.matches(word).value_or(false);
}

}  // namespace pen::smtpd
