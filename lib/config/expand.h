#pragma once
/// Expands "$name" in values of main.cf.
///
/// Source:  postconf(5): $name, ${name}, $(name), ${name?text}, ${name:text}, ${name?{a}:{b}},
///          ${{a} == {b} ? {x} : {y}} with == != < <= > >= (numbers if both are, else by bytes),
///          the same with "level" after the operator for compatibility levels, and $$ for one
///          dollar.
/// Bounds:  depth kMaxDepth, kMaxNames look-ups, kMaxText bytes of output and kMaxWalked bytes read per expansion: a
///          loop or an explosive growth is an error.
/// Pure; any thread.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::config {

inline constexpr int kMaxDepth = 60;
inline constexpr int kMaxNames = 10'000;
inline constexpr std::size_t kMaxText = 1 << 20;
inline constexpr std::size_t kMaxWalked = 16 << 20;

struct Expanded {
  std::string text;
  /// Empty: no error. Else what is wrong and what to do, for the administrator; text is then empty.
  std::string error;
  /// Names whose values are in the text; names used only in a condition are not included.
  std::vector<std::string> used;
  /// A name that the text needs is not defined.
  bool undefined = false;
};

/// The unexpanded text of a name; nullopt: not defined (expands to nothing).
using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

Expanded expand(std::string_view text, const Lookup& lookup);

/// A name that a text refers to. tested: used only as the condition of ${name?...} or ${name:...}, so that it may be
/// unset.
struct NameUse {
  std::string name;
  bool tested = false;
};
/// Every name that text refers to, also in branches not taken; unsorted, with repeats. problem: what is wrong with the
/// text, as in Expanded::error; then the names are incomplete.
std::vector<NameUse> names_in(std::string_view text, std::string* problem = nullptr);

/// Compares compatibility levels such as "2", "3.6", "3.6.1"; nullopt: one of them is not a level.
std::optional<int> compare_levels(std::string_view a, std::string_view b);

}  // namespace pen::config
