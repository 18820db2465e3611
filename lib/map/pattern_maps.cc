#include <algorithm>
#include <utility>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/map/bad_rule.h"
#include "lib/map/file_map.h"
#include "lib/map/pattern.h"
#include "lib/map/prefilter.h"
#include "lib/map/rules.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

constexpr std::size_t kMaxResult = kMaxValue;

class CidrPattern {
 public:
  static Result<CidrPattern> compile(const Rule& rule, const std::string& path) {
    auto network = parse_network(rule.pattern);
    if (!network) return bad_rule(path, rule.line, network.error().context());
    CidrPattern pattern;
    pattern.network_ = *network;
    return pattern;
  }
  std::vector<std::vector<std::string>> needed() const { return {}; }
  Result<bool> match(const IpAddress& key, Spans&) const { return network_.contains(key); }
  /// A network, negated or not, says nothing about addresses of the other family.
  bool concerns(const IpAddress& key) const { return key.size == network_.base.size; }

 private:
  Network network_;
};

/// The text of a table written in its name: "{ {rule}, {rule} }".
std::string inline_text(std::string_view name) {
  std::string text;
  for (const auto& rule : split_list(unbraced(name))) {
    text += unbraced(rule);
    text += '\n';
  }
  return text;
}

bool uses_groups(const Rule& rule) {
  return std::ranges::any_of(rule.result, [](const RulePiece& p) { return p.group >= 0; });
}

/// Rules of one file with their patterns compiled.
template <class Pattern>
struct PatternTable {
  struct Compiled {
    Rule rule;
    Pattern pattern;
  };
  std::vector<Compiled> rules;
  std::string path;
  PassedOver passed_over;
  Prefilter prefilter;
  // Rules that must be looked at even when their pattern certainly does not match: a negated rule, and a block, which
  // is then skipped.
  BitSet stops;

  std::vector<std::string> notes() const { return passed_over.notes(path); }

  template <RuleStyle style, bool substitute>
  static Result<std::shared_ptr<PatternTable>> load(const std::string& path) {
    PEN_TRY_ASSIGN(const std::string text, read_table_file(path));
    return read<style, substitute>(text, path);
  }
  /// path: the table's name in errors.
  template <RuleStyle style, bool substitute>
  static Result<std::shared_ptr<PatternTable>> read(std::string_view text, const std::string& path) {
    auto table = std::make_shared<PatternTable>();
    PEN_TRY_ASSIGN(auto parsed, parse_rules(text, path, style, table->passed_over));
    table->path = path;
    table->rules.reserve(parsed.size());
    std::vector<std::size_t> place;  // of each rule among those that serve
    for (auto& rule : parsed) {
      place.push_back(table->rules.size());
      if (!substitute && uses_groups(rule))
        return fail(MapError::not_trusted,
                    path + ", line " + std::to_string(rule.line) + ": $number is not allowed in this table");
      auto pattern = Pattern::compile(rule, path);
      if (!pattern && rule.kind == Rule::Kind::if_block) return std::unexpected(std::move(pattern).error());
      if (!pattern) {
        table->passed_over.add(std::string(pattern.error().context()));
        continue;
      }
      rule.pattern = {};
      table->rules.push_back({std::move(rule), *std::move(pattern)});
    }
    place.push_back(table->rules.size());
    for (auto& [rule, pattern] : table->rules)
      if (rule.kind == Rule::Kind::if_block) rule.skip_to = place[rule.skip_to];
    table->prepare();
    return table;
  }

  template <class Key>
  Value search(const Key& key, const std::string& text) const {
    static thread_local Spans spans;
    static thread_local BitSet candidates;
    prefilter.candidates(text, candidates);
    for (std::size_t i = next(candidates, 0); i < rules.size();) {
      const auto& [rule, pattern] = rules[i];
      bool hit = rule.negated;
      spans.count = 0;
      if (candidates.test(i)) {
        auto matched = pattern.match(key, spans);
        if (!matched) return bad_line(std::move(matched).error(), rule.line);
        hit = *matched != rule.negated;
      }
      if constexpr (requires { pattern.concerns(key); }) hit = hit && pattern.concerns(key);
      if (rule.kind == Rule::Kind::match && hit) return expand(rule, text, spans);
      const bool skip = rule.kind == Rule::Kind::if_block && !hit;
      i = next(candidates, skip ? rule.skip_to : i + 1);
    }
    return std::nullopt;
  }

 private:
  void prepare() {
    std::vector<Prefilter::Needed> needed;
    stops.clear(rules.size());
    for (const auto& [rule, pattern] : rules) {
      if (rule.negated || rule.kind == Rule::Kind::if_block) stops.set(needed.size());
      needed.push_back(pattern.needed());
    }
    prefilter = Prefilter(needed);
  }
  /// The next rule from i on that can have an effect.
  std::size_t next(const BitSet& candidates, std::size_t i) const {
    return std::min(candidates.next(i), stops.next(i));
  }
  std::unexpected<Error> bad_line(Error error, unsigned line) const {
    return fail(std::move(error).within(path + ", line " + std::to_string(line)));
  }
  Value expand(const Rule& rule, const std::string& key, const Spans& spans) const {
    std::string out;
    for (const auto& piece : rule.result) {
      if (piece.group < 0) {
        out += piece.text;
      } else if (static_cast<std::size_t>(piece.group) < spans.count) {
        const auto [from, size] = spans.at[static_cast<std::size_t>(piece.group)];
        out.append(key, from, size);
      }
      if (out.size() > kMaxResult) {
        return fail(MapError::too_large, path + ", line " + std::to_string(rule.line));
      }
    }
    return out;
  }
};

template <class Pattern, RuleStyle style>
class PatternMap final : public Map {
  using Table = PatternTable<Pattern>;

 public:
  PatternMap(std::string spec, const std::string& name, const OpenOptions& options) : Map(std::move(spec)) {
    const bool substitute = options.substitute;
    if (name.starts_with('{'))
      inline_ = substitute ? Table::template read<style, true>(inline_text(name), this->name())
                           : Table::template read<style, false>(inline_text(name), this->name());
    else
      file_.emplace(name, *options.clock,
                    substitute ? &Table::template load<style, true> : &Table::template load<style, false>);
  }

  Value find(std::string_view key) override {
    if (key.size() > kMaxPatternKey || key.find('\0') != std::string_view::npos) return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, current());
    const std::string text(key);
    if constexpr (style == RuleStyle::word) {
      // As in Postfix the address is the whole key; the domain "[192.0.2.1]" of a sender or of a HELO does not match.
      const auto address = key.starts_with('[') ? std::nullopt : parse_ip(key);
      if (!address) return std::nullopt;
      return table->search(*address, text);
    } else {
      return table->search(text, text);
    }
  }
  bool whole_key_only() const override { return true; }
  std::optional<Error> problem() override {
    auto table = current();
    if (table) return std::nullopt;
    return std::move(table).error();
  }
  std::vector<std::string> notes() override {
    const auto table = current();
    return table ? (*table)->notes() : std::vector<std::string>();
  }

 private:
  Result<std::shared_ptr<Table>> current() { return file_ ? file_->current() : inline_; }

  std::optional<Reloading<Table>> file_;   // either
  Result<std::shared_ptr<Table>> inline_;  // or
};

}  // namespace

std::shared_ptr<Map> make_cidr(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<PatternMap<CidrPattern, RuleStyle::word>>(std::move(spec), name, options);
}
std::shared_ptr<Map> make_regexp(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<PatternMap<RegexpPattern, RuleStyle::delimited>>(std::move(spec), name, options);
}
std::shared_ptr<Map> make_pcre(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<PatternMap<PcrePattern, RuleStyle::delimited>>(std::move(spec), name, options);
}

}  // namespace pen::map
