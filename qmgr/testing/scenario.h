#pragma once
/// Scenario files: what a world must do in virtual time, a statement a line; and tables of verbs, of which a language
/// is made. There are two worlds: the scheduler alone (scenario_verbs.h), and the queue manager (queue_verbs.h).
///
/// Use:     for (const Statement& s : read_scenario(file))
///            row_named(verbs, s.verb, "verb").perform(world, s.arguments);
///          const Cases cases("tests/scenario", run);   // a test case for each file
/// Form:    words between spaces; what stands behind # is a comment. tests/scenario/README.md lists the verbs.
/// Errors:  those of a file are failures of the test, with file and line.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
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

/// A row of a language's table.
template <class World>
struct Row {
  std::string_view name;
  std::string_view arguments;
  std::string_view meaning;
  void (*perform)(World& world, const Arguments& a);
};

[[noreturn]] void no_such(std::string_view kind, std::string_view name);

/// Fails if there is none.
template <class World>
const Row<World>& row_named(std::span<const Row<World>> rows, std::string_view name, std::string_view kind) {
  for (const auto& row : rows)
    if (row.name == name) return row;
  no_such(kind, name);
}

/// One line of the page of a language; `before`: the words before the name.
std::string page_line(std::string_view before, std::string_view name, std::string_view arguments,
                      std::string_view meaning);

template <class World>
std::string page_table(std::span<const Row<World>> rows, std::string_view before = {}) {
  std::string out = "| statement | meaning |\n| --- | --- |\n";
  for (const auto& row : rows) out += page_line(before, row.name, row.arguments, row.meaning);
  return out;
}

/// Registers a test case for each file of a folder; made inside the suite that they belong to.
struct Cases {
  Cases(const std::filesystem::path& folder, void (*run)(const std::filesystem::path& file));
};

/// The page of a language says what its tables say; PEN_SCENARIO_PAGE=update writes it.
void check_page(const std::filesystem::path& page, const std::string& text);

}  // namespace pen::qmgr::scenario
