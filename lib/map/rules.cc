#include "lib/map/rules.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/map/map.h"
#include "lib/map/table_text.h"

namespace pen::map {
namespace {

class RuleReader {
 public:
  RuleReader(std::string_view file, RuleStyle style, PassedOver& passed_over)
      : file_(file), style_(style), passed_over_(passed_over) {}

  Result<std::vector<Rule>> read(std::string_view text) {
    for (const auto& line : logical_lines(text)) {
      line_ = line.number;
      if (rules_.size() >= kMaxRules) return bad("too many rules");
      if (auto done = read_line(line.text); !done) {
        if (condition_) return std::unexpected(std::move(done).error());
        passed_over_.add(std::string(done.error().context()));
      }
    }
    for (const std::size_t open : open_) {
      line_ = rules_[open].line;
      note("if without endif");
      rules_[open].skip_to = rules_.size();
    }
    return std::move(rules_);
  }

 private:
  std::unexpected<Error> bad(std::string_view why) const {
    return fail(MapError::syntax, std::string(file_) + ", line " + std::to_string(line_) + ": " + std::string(why));
  }

  void note(std::string_view why) { passed_over_.add(bad(why).error().context()); }

  Result<void> read_line(std::string_view rest) {
    Rule rule;
    rule.line = line_;
    condition_ = false;
    if (word_is(rest, "endif")) {
      if (open_.empty()) return bad("endif without if");
      if (!trim(rest.substr(5)).empty()) {
        if (style_ == RuleStyle::word) return bad("text behind endif");
        note("text behind endif");
      }
      rules_[open_.back()].skip_to = rules_.size();
      open_.pop_back();
      return {};
    }
    if (word_is(rest, "if")) {
      rule.kind = Rule::Kind::if_block;
      condition_ = true;
      rest = trim(rest.substr(2));
      if (open_.size() >= kMaxIfDepth) return bad("if nested too deeply");
    }
    while (!rest.empty() && rest.front() == '!') {
      rule.negated = !rule.negated;
      rest = trim(rest.substr(1));
    }
    PEN_TRY(read_pattern(rest, rule));
    rest = trim(rest);
    if (rule.kind == Rule::Kind::if_block) {
      if (!rest.empty()) {
        if (style_ == RuleStyle::word) return bad("text behind the pattern of if");
        note("text behind the pattern of if; lines that begin with white space go on with the line before");
      }
      open_.push_back(rules_.size());
    } else {
      if (rest.empty() && style_ == RuleStyle::word) return bad("no result behind the pattern");
      PEN_TRY(read_result(rest, rule));
    }
    rules_.push_back(std::move(rule));
    return {};
  }

  static bool word_is(std::string_view text, std::string_view word) {
    if (!istarts_with(text, word)) return false;
    if (text.size() == word.size()) return true;
    const char next = text[word.size()];
    return ascii_space(next) || (word == "if" && (next == '/' || next == '!'));
  }

  Result<void> read_pattern(std::string_view& rest, Rule& rule) const {
    if (rest.empty()) return bad("no pattern");
    if (style_ == RuleStyle::word) {
      const auto end = std::find_if(rest.begin(), rest.end(), ascii_space) - rest.begin();
      rule.pattern = rest.substr(0, static_cast<std::size_t>(end));
      rest.remove_prefix(static_cast<std::size_t>(end));
      return {};
    }
    const char delimiter = rest.front();
    if (ascii_alnum(delimiter) || delimiter == '\\') return bad("no pattern delimiter");
    std::size_t i = 1;
    for (; i < rest.size() && rest[i] != delimiter; ++i) {
      if (rest[i] == '\\' && i + 1 < rest.size()) {
        if (rest[i + 1] != delimiter) rule.pattern += '\\';
        ++i;
      }
      rule.pattern += rest[i];
    }
    if (i >= rest.size()) return bad("no closing pattern delimiter");
    for (++i; i < rest.size() && !ascii_space(rest[i]); ++i) rule.flags += rest[i];
    rest.remove_prefix(i);
    return {};
  }

  Result<void> read_result(std::string_view text, Rule& rule) const {
    if (style_ == RuleStyle::word) {
      rule.result.push_back({std::string(text), -1});
      return {};
    }
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) rule.result.push_back({std::exchange(literal, {}), -1});
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$') {
        literal += text[i];
        continue;
      }
      if (++i >= text.size()) return bad("$ at the end of the result");
      if (text[i] == '$') {
        literal += '$';
        continue;
      }
      char close = '\0';
      if (text[i] == '{') close = '}';
      if (text[i] == '(') close = ')';
      if (close != '\0') ++i;
      std::size_t end = i;
      while (end < text.size() && ascii_digit(text[end])) ++end;
      const auto group = parse_unsigned(text.substr(i, end - i));
      if (!group || *group > 999) return bad("bad $number in the result");
      if (close == '\0' && end < text.size() && (ascii_alnum(text[end]) || text[end] == '_'))
        return bad("$number in the result goes on as a name: write ${number}");  // Postfix passes over such a rule
      if (close != '\0' && (end >= text.size() || text[end] != close)) return bad("unclosed ${number} in the result");
      if (rule.negated) return bad("$number in the result of a negated pattern");
      flush();
      rule.result.push_back({{}, static_cast<int>(*group)});
      rule.highest_group = std::max(rule.highest_group, static_cast<int>(*group));
      i = close == '\0' ? end - 1 : end;
    }
    flush();
    return {};
  }

  std::string_view file_;
  RuleStyle style_;
  PassedOver& passed_over_;
  unsigned line_ = 0;
  bool condition_ = false;  // the line at hand is an "if"
  std::vector<Rule> rules_;
  std::vector<std::size_t> open_;
};

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view file, RuleStyle style,
                                      PassedOver& passed_over) {
  return RuleReader(file, style, passed_over).read(text);
}

}  // namespace pen::map
