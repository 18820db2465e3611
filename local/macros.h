#pragma once
/// "$name" and "${name}" in settings whose values only a delivery knows (forward_path, luser_relay). Pure.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pen::local {

/// Unknown names become nothing; "$$" is "$".
std::string expand_macros(std::string_view text,
                          const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace pen::local
