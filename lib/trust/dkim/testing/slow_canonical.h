#pragma once
/// The canonical forms of a body, plain and slow: what CanonicalBody must agree with. Of a whole body at once.
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/dkim/canonical.h"

namespace pen::dkim::testing {

inline std::string slow_body(Form form, std::string_view body) {
  std::vector<std::string> lines;
  for (;;) {
    const auto end = body.find("\r\n");
    lines.emplace_back(body.substr(0, end));
    if (end == std::string_view::npos) break;
    body.remove_prefix(end + 2);
  }
  if (form == Form::relaxed) {
    for (auto& line : lines) {
      std::string changed;
      for (const char c : line) {
        const bool blank = c == ' ' || c == '\t';
        if (!blank)
          changed += c;
        else if (!changed.ends_with(' '))
          changed += ' ';
      }
      if (changed.ends_with(' ')) changed.pop_back();
      line = changed;
    }
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::string out;
  for (const auto& line : lines) out += line + "\r\n";
  if (out.empty() && form == Form::simple) out = "\r\n";
  return out;
}

}  // namespace pen::dkim::testing
