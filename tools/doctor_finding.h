#pragma once
/// One thing that penstock doctor found.
#include <string>
#include <vector>

namespace pen::tools {

enum class Level { ok, note, warning, error };
inline constexpr const char* kLevelWords[] = {"ok", "note", "warning", "error"};

struct Finding {
  Level level = Level::ok;
  std::string area;    // "names", "certificates", …
  std::string what;    // is wrong, or is good: a sentence part without a point
  std::string why;     // it matters; empty for what is good
  std::string advice;  // what to do
};
using Findings = std::vector<Finding>;

}  // namespace pen::tools
