#pragma once
/// Scenario files: what a scheduler must do, in virtual time, a statement a line.
///
/// Use:     for (const Statement& s : read_scenario(file)) perform(world, s);   (scenario_verbs.h)
/// Form:    words between spaces; what stands behind # is a comment. tests/scenario/README.md lists the verbs.
/// Errors:  those of a file are failures of the test, with file and line.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace pen::qmgr::scenario {

/// The words behind a verb, and what is read from them.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}
  std::size_t size() const { return words_.size(); }
  /// Fails if there are fewer.
  const std::string& at(std::size_t n) const;
  std::uint32_t number(std::size_t n) const;
  std::uint32_t number_or(std::size_t n, std::uint32_t otherwise) const { return size() > n ? number(n) : otherwise; }
  /// 5ms 3s 2m 1h
  milliseconds duration(std::size_t n) const;
  /// The words from there on, as they were written but for further spaces.
  std::string rest(std::size_t from, const std::string& otherwise = {}) const;
  std::vector<std::string> list(std::size_t from) const;
  /// Without the first, which was a verb's second word.
  Arguments behind_first() const { return Arguments(list(1)); }

 private:
  std::vector<std::string> words_;
};

struct Statement {
  std::string where;  // FILE:LINE
  std::string text;
  std::string verb;
  Arguments arguments;
};

std::vector<Statement> read_scenario(const std::filesystem::path& file);

}  // namespace pen::qmgr::scenario
