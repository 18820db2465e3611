#include <regex.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/network.h"
#include "lib/map/rules.h"
#include "lib/map/types.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace pen::map {
namespace {

// A pattern of the administrator's must not be made to run for minutes by a key of a stranger's.
constexpr std::uint32_t kPcreMatchLimit = 1'000'000;
constexpr std::uint32_t kPcreDepthLimit = 100'000;  // a long header field is matched at all
constexpr std::size_t kMaxResult = kMaxValue;

std::unexpected<Error> bad_rule(const std::string& path, unsigned line, std::string_view why) {
  return fail(MapError::syntax, path + ", line " + std::to_string(line) + ": " + std::string(why));
}

/// Where a match and its groups are in the key.
struct Spans {
  static constexpr std::size_t kMax = 100;
  std::array<std::pair<std::size_t, std::size_t>, kMax> at{};
  std::size_t count = 0;
};

class RegexpPattern {
 public:
  RegexpPattern() = default;
  RegexpPattern(RegexpPattern&& other) noexcept : regex_(std::move(other.regex_)) {}
  RegexpPattern& operator=(RegexpPattern&&) = default;

  static Result<RegexpPattern> compile(const Rule& rule, const std::string& path) {
    int flags = REG_EXTENDED | REG_ICASE;
    for (const char c : rule.flags) {
      switch (c) {
        case 'i':
          flags ^= REG_ICASE;
          break;
        case 'm':
          flags ^= REG_NEWLINE;
          break;
        case 'x':
          flags ^= REG_EXTENDED;
          break;
        default:
          return bad_rule(path, rule.line, std::string("unknown flag ") + c);
      }
    }
    auto raw = std::make_unique<regex_t>();
    if (const int code = regcomp(raw.get(), rule.pattern.c_str(), flags); code != 0) {
      std::array<char, 200> text{};
      regerror(code, raw.get(), text.data(), text.size());
      return bad_rule(path, rule.line, text.data());
    }
    RegexpPattern pattern;
    pattern.regex_ = std::unique_ptr<regex_t, Free>(raw.release());
    if (static_cast<std::size_t>(rule.highest_group) > pattern.regex_->re_nsub) {
      return bad_rule(path, rule.line, "$number beyond the groups of the pattern");
    }
    return pattern;
  }
  /// nullopt: cannot tell.
  Result<bool> match(const std::string& key, Spans& spans) const {
    std::array<regmatch_t, Spans::kMax> found;
    const int code = regexec(regex_.get(), key.c_str(), found.size(), found.data(), 0);
    if (code == REG_NOMATCH) return false;
    if (code != 0) return fail(MapError::unreadable, "regular expression ran out of memory");
    spans.count = std::min(regex_->re_nsub + 1, Spans::kMax);
    for (std::size_t i = 0; i < spans.count; ++i) {
      if (found[i].rm_so < 0) {
        spans.at[i] = {0, 0};
      } else {
        spans.at[i] = {static_cast<std::size_t>(found[i].rm_so),
                       static_cast<std::size_t>(found[i].rm_eo - found[i].rm_so)};
      }
    }
    return true;
  }

 private:
  struct Free {
    void operator()(regex_t* regex) const {
      regfree(regex);
      delete regex;
    }
  };
  std::unique_ptr<regex_t, Free> regex_;
};

class PcrePattern {
 public:
  static Result<PcrePattern> compile(const Rule& rule, const std::string& path) {
    std::uint32_t flags = PCRE2_CASELESS | PCRE2_DOTALL;
    for (const char c : rule.flags) {
      switch (c) {
        case 'i':
          flags ^= PCRE2_CASELESS;
          break;
        case 'm':
          flags ^= PCRE2_MULTILINE;
          break;
        case 's':
          flags ^= PCRE2_DOTALL;
          break;
        case 'x':
          flags ^= PCRE2_EXTENDED;
          break;
        case 'A':
          flags ^= PCRE2_ANCHORED;
          break;
        case 'E':
          flags ^= PCRE2_DOLLAR_ENDONLY;
          break;
        case 'U':
          flags ^= PCRE2_UNGREEDY;
          break;
        case 'X':
          break;  // strictness that PCRE2 always has
        default:
          return bad_rule(path, rule.line, std::string("unknown flag ") + c);
      }
    }
    int code = 0;
    std::size_t offset = 0;
    PcrePattern pattern;
    pattern.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rule.pattern.data()),
                                      rule.pattern.size(), flags, &code, &offset, nullptr));
    if (!pattern.code_) {
      std::array<unsigned char, 200> text{};
      pcre2_get_error_message(code, text.data(), text.size());
      return bad_rule(path, rule.line,
                      std::string(reinterpret_cast<const char*>(text.data())) + " at offset " +
                          std::to_string(offset));
    }
    std::uint32_t groups = 0;
    pcre2_pattern_info(pattern.code_.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
    if (static_cast<std::uint32_t>(rule.highest_group) > groups) {
      return bad_rule(path, rule.line, "$number beyond the groups of the pattern");
    }
    return pattern;
  }
  Result<bool> match(const std::string& key, Spans& spans) const {
    struct FreeData {
      void operator()(pcre2_match_data* d) const { pcre2_match_data_free(d); }
    };
    struct FreeContext {
      void operator()(pcre2_match_context* c) const { pcre2_match_context_free(c); }
    };
    // One of each per thread: body_checks match every line of every message.
    static thread_local const std::unique_ptr<pcre2_match_data, FreeData> data(
        pcre2_match_data_create(Spans::kMax, nullptr));
    static thread_local const std::unique_ptr<pcre2_match_context, FreeContext> limits = [] {
      auto* made = pcre2_match_context_create(nullptr);
      if (made != nullptr) {
        pcre2_set_match_limit(made, kPcreMatchLimit);
        pcre2_set_depth_limit(made, kPcreDepthLimit);
      }
      return std::unique_ptr<pcre2_match_context, FreeContext>(made);
    }();
    if (!data || !limits) return fail(MapError::unreadable, "regular expression ran out of memory");
    const int code = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(key.data()), key.size(),
                                 0, 0, data.get(), limits.get());
    if (code == PCRE2_ERROR_NOMATCH) return false;
    if (code < 0) {
      return fail(MapError::unreadable,
                  code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT
                      ? "matching took too long"
                      : "matching failed with PCRE2 error " + std::to_string(code));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.get());
    // 0: more groups than there is room for
    spans.count = code == 0 ? Spans::kMax : static_cast<std::size_t>(code);
    for (std::size_t i = 0; i < spans.count; ++i) {
      const auto from = offsets[2 * i], to = offsets[2 * i + 1];
      spans.at[i] = from == PCRE2_UNSET || to < from
                        ? std::pair<std::size_t, std::size_t>{0, 0}
                        : std::pair<std::size_t, std::size_t>{from, to - from};
    }
    return true;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

class CidrPattern {
 public:
  static Result<CidrPattern> compile(const Rule& rule, const std::string& path) {
    auto network = parse_network(rule.pattern);
    if (!network) return bad_rule(path, rule.line, network.error().context());
    CidrPattern pattern;
    pattern.network_ = *network;
    return pattern;
  }
  Result<bool> match(const IpAddress& key, Spans&) const { return network_.contains(key); }
  /// A pattern says nothing of addresses of the other family, nor does its negation.
  bool concerns(const IpAddress& key) const { return key.size == network_.base.size; }

 private:
  Network network_;
};

/// The text of a table that stands in its name: "{ {rule}, {rule} }".
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

  template <RuleStyle style, bool substitute>
  static Result<std::shared_ptr<PatternTable>> load(const std::string& path) {
    PEN_TRY_ASSIGN(const std::string text, read_table_file(path));
    return read<style, substitute>(text, path);
  }
  /// path: what errors name as the table.
  template <RuleStyle style, bool substitute>
  static Result<std::shared_ptr<PatternTable>> read(std::string_view text,
                                                    const std::string& path) {
    PEN_TRY_ASSIGN(auto parsed, parse_rules(text, path, style));
    auto table = std::make_shared<PatternTable>();
    table->path = path;
    table->rules.reserve(parsed.size());
    for (auto& rule : parsed) {
      if (!substitute && uses_groups(rule))
        return fail(MapError::not_trusted, path + ", line " + std::to_string(rule.line) +
                                               ": $number is not allowed in this table");
      PEN_TRY_ASSIGN(auto pattern, Pattern::compile(rule, path));
      rule.pattern = {};
      table->rules.push_back({std::move(rule), std::move(pattern)});
    }
    return table;
  }

  template <class Key>
  Value search(const Key& key, const std::string& text) const {
    Spans spans;
    for (std::size_t i = 0; i < rules.size();) {
      const auto& [rule, pattern] = rules[i];
      auto matched = pattern.match(key, spans);
      if (!matched) return bad_line(std::move(matched).error(), rule.line);
      bool hit = *matched != rule.negated;
      if constexpr (requires { pattern.concerns(key); }) hit = hit && pattern.concerns(key);
      if (rule.kind == Rule::Kind::if_block) {
        i = hit ? i + 1 : rule.skip_to;
      } else if (hit) {
        return expand(rule, text, spans);
      } else {
        ++i;
      }
    }
    return std::nullopt;
  }

 private:
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
  PatternMap(std::string spec, const std::string& name, const OpenOptions& options)
      : Map(std::move(spec)) {
    const bool substitute = options.substitute;
    if (name.starts_with('{'))
      inline_ = substitute ? Table::template read<style, true>(inline_text(name), this->name())
                           : Table::template read<style, false>(inline_text(name), this->name());
    else
      file_.emplace(
          name, *options.clock,
          substitute ? &Table::template load<style, true> : &Table::template load<style, false>);
  }

  Value lookup(std::string_view key) override {
    if (key.size() > kMaxPatternKey || key.find('\0') != std::string_view::npos)
      return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, current());
    const std::string text(key);
    if constexpr (style == RuleStyle::word) {
      const auto address = parse_ip(key);
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

 private:
  Result<std::shared_ptr<Table>> current() { return file_ ? file_->current() : inline_; }

  std::optional<Reloading<Table>> file_;   // either
  Result<std::shared_ptr<Table>> inline_;  // or
};

}  // namespace

std::shared_ptr<Map> make_cidr(std::string spec, const std::string& name,
                               const OpenOptions& options) {
  return std::make_shared<PatternMap<CidrPattern, RuleStyle::word>>(std::move(spec), name, options);
}
std::shared_ptr<Map> make_regexp(std::string spec, const std::string& name,
                                 const OpenOptions& options) {
  return std::make_shared<PatternMap<RegexpPattern, RuleStyle::delimited>>(std::move(spec), name,
                                                                           options);
}
std::shared_ptr<Map> make_pcre(std::string spec, const std::string& name,
                               const OpenOptions& options) {
  return std::make_shared<PatternMap<PcrePattern, RuleStyle::delimited>>(std::move(spec), name,
                                                                         options);
}

}  // namespace pen::map
