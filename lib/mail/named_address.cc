#include "lib/mail/named_address.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

/// The text with a backslash before each of these characters.
std::string escaped(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.contains(c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string named_address(std::string_view name, std::string_view address, bool obsolete) {
  const std::string where(address);
  if (name.empty()) return where;
  if (obsolete) return where + " (" + escaped(name, "()\\") + ")";
  // Atoms may hold ! and %, but old programs read them as routes.
  const bool atoms = std::ranges::all_of(name, [](char c) {
    return ascii_alnum(c) || static_cast<unsigned char>(c) >= 128 || std::string_view(" #$&'*+-/=?^_`{|}~").contains(c);
  });
  if (atoms) return std::string(name) + " <" + where + ">";
  return "\"" + escaped(name, "\"\\") + "\" <" + where + ">";
}

}  // namespace pen::mail
