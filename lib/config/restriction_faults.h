#pragma once
/// What is said of items of smtpd's restriction lists that can do nothing: the same words by Config::report(), which
/// knows file and line, and by smtpd, so that `penstock check` reports each once.
/// Pure.
#include <string>
#include <string_view>

#include "lib/base/text.h"

namespace pen::config {

inline std::string unknown_restriction(std::string_view item) {
  return "no restriction is called " + printable(item, 60) + ": mail that reaches it gets 451 4.3.5";
}
inline std::string lacks_argument(std::string_view item) {
  return printable(item, 60) + " ends the list, but needs an argument after it: mail that reaches it gets 451 4.3.5";
}

}  // namespace pen::config
