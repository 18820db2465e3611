#include "lib/config/expand.h"

#include <array>
#include <utility>

#include "lib/base/text.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

bool name_char(char c) { return ascii_alnum(c) || c == '_'; }
bool braced_name_char(char c) { return name_char(c) || c == '-' || c == '.'; }

std::string in_quotes(std::string_view text) { return "\"" + printable(text, 80) + "\""; }

/// One walk over a text: expands it, or (lookup_ null) collects the names in it.
class Walk {
 public:
  explicit Walk(const Lookup* lookup) : lookup_(lookup) {}

  std::string error;
  std::vector<NameUse> names;
  std::vector<std::string> used;
  bool undefined = false;

  void text(std::string_view in, std::string& out, int depth) {
    if (depth > kMaxDepth)
      return fail_with("it refers to itself, or is nested more than " + std::to_string(kMaxDepth) +
                       " deep; break the loop");
    walked_ += in.size();
    if (walked_ > kMaxWalked)
      return fail_with("it takes more than " + std::to_string(kMaxWalked) + " bytes of text to expand");
    while (!in.empty() && error.empty()) {
      const std::size_t dollar = in.find('$');
      append(out, in.substr(0, dollar));
      if (dollar == std::string_view::npos) return;
      in.remove_prefix(dollar + 1);
      in.remove_prefix(reference(in, out, depth));
    }
  }

 private:
  void fail_with(std::string what) {
    if (error.empty()) error = std::move(what);
  }
  void append(std::string& out, std::string_view more) {
    if (out.size() + more.size() > kMaxText)
      return fail_with("it expands to more than " + std::to_string(kMaxText) + " bytes");
    out.append(more);
  }

  /// Reads the text behind a dollar; returns the number of bytes used.
  std::size_t reference(std::string_view in, std::string& out, int depth) {
    if (in.starts_with('$')) {
      append(out, "$");
      return 1;
    }
    if (in.starts_with('{') || in.starts_with('(')) {
      const std::size_t end = in[0] == '{' ? group_end(in, '{', '}') : group_end(in, '(', ')');
      if (end == std::string_view::npos) {
        fail_with("the \"" + std::string(in.substr(0, 1)) + "\" of " + in_quotes("$" + std::string(in)) +
                  " is not closed");
        return in.size();
      }
      inside(in.substr(1, end - 2), out, depth + 1);
      return end;
    }
    std::size_t n = 0;
    while (n < in.size() && name_char(in[n])) ++n;
    if (n == 0) {
      fail_with("no name follows the \"$\" before " + in_quotes(in) + "; write $$ for a dollar sign");
      return in.size();
    }
    value(in.substr(0, n), out, depth + 1);
    return n;
  }

  void value(std::string_view name, std::string& out, int depth) {
    const auto found = find(name);
    if (found) text(*found, out, depth);
    if (testing_ || !lookup_) return;
    if (found)
      used.emplace_back(name);
    else
      undefined = true;
  }
  std::optional<std::string> find(std::string_view name) {
    if (!lookup_) {
      names.push_back({std::string(name), testing_});
      return std::nullopt;
    }
    if (++looked_up_ > kMaxNames) {
      fail_with("it needs more than " + std::to_string(kMaxNames) + " look-ups of names");
      return std::nullopt;
    }
    return (*lookup_)(name);
  }

  /// Expands the inside of ${…} or $(…).
  void inside(std::string_view in, std::string& out, int depth) {
    if (depth > kMaxDepth) return fail_with("braces are nested too deep");
    if (trim(in).starts_with('{')) return comparison(trim(in), out, depth);
    in = trim_left(in);
    std::size_t n = 0;
    while (n < in.size() && braced_name_char(in[n])) ++n;
    const std::string_view name = in.substr(0, n);
    const std::string_view rest = trim_left(in.substr(n));
    if (name.empty() && !rest.starts_with('?') && !rest.starts_with(':'))
      return fail_with("a name is missing in " + in_quotes("${" + std::string(in) + "}"));
    if (rest.empty()) return value(name, out, depth);
    if (rest[0] != '?' && rest[0] != ':')
      return fail_with("after the name " + in_quotes(name) + " comes " + in_quotes(rest) +
                       " where \"?\" or \":\" is expected");
    std::string current;
    const bool outer = std::exchange(testing_, true);
    if (!name.empty()) value(name, current, depth);  // nothing has no value
    testing_ = outer;
    branch(!current.empty(), rest, out, depth);
  }

  /// "?yes", ":no", "?{yes}:{no}" after a condition.
  void branch(bool condition, std::string_view rest, std::string& out, int depth) {
    std::string_view yes, no;
    const bool alternative = rest[0] == ':';
    rest.remove_prefix(1);
    if (alternative) {
      no = choice(rest);
    } else {
      yes = choice(rest);
      if (rest.starts_with(':')) {
        rest.remove_prefix(1);
        no = choice(rest);
      }
    }
    if (!rest.empty())
      return fail_with(in_quotes(rest) + " is left over after the text of a ${name?text} or ${name:text}");
    if (!lookup_) {
      text(yes, out, depth + 1);
      text(no, out, depth + 1);
    } else {
      text(condition ? yes : no, out, depth + 1);
    }
  }
  static std::string_view trim_left(std::string_view in) {
    while (!in.empty() && ascii_space(in.front())) in.remove_prefix(1);
    return in;
  }
  /// Cuts one text of a choice off rest: "{text}" and the blanks after it, else everything. Blanks within the braces
  /// are part of the text.
  static std::string_view choice(std::string_view& rest) {
    const std::string_view start = trim_left(rest);
    const std::size_t end = start.starts_with('{') ? group_end(start) : std::string_view::npos;
    if (end == std::string_view::npos) return std::exchange(rest, {});
    rest = trim_left(start.substr(end));
    return start.substr(1, end - 2);
  }

  void comparison(std::string_view in, std::string& out, int depth) {
    const std::string whole = in_quotes("${" + std::string(in) + "}");
    std::string left, right;
    if (!operand(in, left, depth)) return fail_with("the { of the left side is not closed in " + whole);
    static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<=", ">=", "<", ">"};
    std::string_view op;
    for (const auto candidate : kOperators) {
      if (in.starts_with(candidate)) {
        op = candidate;
        break;
      }
    }
    if (op.empty()) return fail_with("one of == != < <= > >= is expected after the left side in " + whole);
    in.remove_prefix(op.size());
    const bool level = in.starts_with("level");
    if (level) in.remove_prefix(5);
    in = trim_left(in);
    if (!in.starts_with('{') || !operand(in, right, depth))
      return fail_with("the right side is expected as { … } in " + whole);
    if (!error.empty()) return;
    int order = 0;
    if (level && lookup_) {
      const auto compared = compare_levels(left, right);
      if (!compared) return fail_with("a compatibility level is expected (2, 3.6) on both sides of " + whole);
      order = *compared;
    } else {
      order = compare(left, right);
    }
    const bool holds = op == "=="   ? order == 0
                       : op == "!=" ? order != 0
                       : op == "<=" ? order <= 0
                       : op == ">=" ? order >= 0
                       : op == "<"  ? order < 0
                                    : order > 0;
    if (in.empty()) return append(out, holds ? "true" : "");
    if (in[0] != '?' && in[0] != ':') return fail_with("\"?\" is expected after the comparison in " + whole);
    branch(holds, in, out, depth);
  }
  /// Cuts "{text}" and the blanks after it off in; false: the brace is not closed.
  bool operand(std::string_view& in, std::string& out, int depth) {
    const std::size_t end = group_end(in);
    if (end == std::string_view::npos) return false;
    // A compared text does not get into the result; names_in() counts its names among those that must be set.
    const bool outer = testing_;
    testing_ = testing_ || lookup_;
    text(in.substr(1, end - 2), out, depth + 1);
    testing_ = outer;
    in = trim_left(in.substr(end));
    return true;
  }
  static int compare(std::string_view a, std::string_view b) {
    const auto x = parse_unsigned(a), y = parse_unsigned(b);
    if (x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
    const int order = a.compare(b);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }

  const Lookup* lookup_;
  bool testing_ = false;  // inside a condition
  int looked_up_ = 0;
  std::size_t walked_ = 0;
};

std::optional<std::array<unsigned long long, 3>> parse_level(std::string_view text) {
  std::array<unsigned long long, 3> level{};
  for (std::size_t i = 0; i < level.size(); ++i) {
    const std::size_t dot = text.find('.');
    const auto part = parse_unsigned(text.substr(0, dot));
    if (!part) return std::nullopt;
    level[i] = *part;
    if (dot == std::string_view::npos) return level;
    text.remove_prefix(dot + 1);
  }
  return std::nullopt;
}

}  // namespace

Expanded expand(std::string_view text, const Lookup& lookup) {
  Expanded result;
  Walk walk(&lookup);
  walk.text(text, result.text, 0);
  result.used = std::move(walk.used);
  result.undefined = walk.undefined;
  if (!walk.error.empty()) result = {"", std::move(walk.error), {}, false};
  return result;
}

std::vector<NameUse> names_in(std::string_view text, std::string* problem) {
  Walk walk(nullptr);
  std::string ignored;
  walk.text(text, ignored, 0);
  if (problem != nullptr) *problem = std::move(walk.error);
  return std::move(walk.names);
}

std::optional<int> compare_levels(std::string_view a, std::string_view b) {
  const auto x = parse_level(trim(a)), y = parse_level(trim(b));
  if (!x || !y) return std::nullopt;
  return *x < *y ? -1 : *x > *y ? 1 : 0;
}

}  // namespace pen::config
