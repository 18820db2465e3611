#pragma once
/// Numbers that may be chosen for a run of a test: seeds, and how much is tried.
///
/// Use:     const auto seed = testing::from_environment("PEN_SEED", 1);
#include <cstdint>
#include <cstdlib>

namespace pen::testing {

/// `usual` where the environment has no such variable; 0 where its value is no number.
inline std::uint64_t from_environment(const char* name, std::uint64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

}  // namespace pen::testing
