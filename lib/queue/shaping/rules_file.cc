#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/queue/shaping/rules_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pcre2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <expected>
#include <optional>
#include <set>

#include "lib/base/fd.h"
#include "lib/base/text.h"

namespace pen::shaping {

std::string_view error_module(RulesError) { return "shaping rules"; }
std::string_view describe(RulesError e) {
  switch (e) {
    case RulesError::bad:
      return "not a rule";
  }
  return "?";
}

namespace {

/// What is wrong; empty: nothing.
using Wrong = std::string;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_host(std::string_view text) {
  return text.size() > 1 && text.size() <= 255 && !text.contains("..") && !text.ends_with('.') &&
         std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

/// The words of a logical line; quotes keep white space together and go.
std::expected<std::vector<std::string>, Wrong> words_of(std::string_view line) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && ascii_space(line[at])) ++at;
    if (at == line.size() || line[at] == '#') return out;
    std::string& word = out.emplace_back();
    bool quoted = false;
    for (; at < line.size() && (quoted || !ascii_space(line[at])); ++at) {
      if (line[at] == '"') {
        quoted = !quoted;
      } else if (quoted && line[at] == '\\' && at + 1 < line.size() && (line[at + 1] == '"' || line[at + 1] == '\\')) {
        word += line[++at];
      } else {
        word += line[at];
      }
    }
    if (quoted) return std::unexpected("a quoted value has no end");
    if (out.size() > kMaxSuffixes + 2) return std::unexpected("too many words");
  }
}

std::optional<seconds> parse_pause(std::string_view text) {
  std::uint64_t unit = 1;
  if (!text.empty() && ascii_alpha(text.back())) {
    switch (text.back()) {
      case 's':
        break;
      case 'm':
        unit = 60;
        break;
      case 'h':
        unit = 3600;
        break;
      case 'd':
        unit = 86400;
        break;
      default:
        return std::nullopt;
    }
    text.remove_suffix(1);
  }
  const auto n = parse_unsigned(text);
  constexpr std::uint64_t kMost = 7 * 86400;
  if (!n || *n == 0 || *n > kMost / unit) return std::nullopt;
  return seconds(*n * unit);
}

/// "4.7.28", "5.7.606-649".
std::optional<Codes> parse_codes(std::string_view text) {
  const auto subject = text.find('.');
  const auto detail = subject == std::string_view::npos ? subject : text.find('.', subject + 1);
  if (detail == std::string_view::npos) return std::nullopt;
  Codes out;
  out.prefix = text.substr(0, detail + 1);
  if (subject != 1 || (text[0] != '4' && text[0] != '5') ||
      !parse_unsigned(text.substr(subject + 1, detail - subject - 1)))
    return std::nullopt;
  const std::string_view range = text.substr(detail + 1);
  const auto dash = range.find('-');
  const auto first = parse_unsigned(range.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_unsigned(range.substr(dash + 1));
  if (!first || !last || *last > 999 || *first > *last) return std::nullopt;
  out.first = static_cast<unsigned>(*first);
  out.last = static_cast<unsigned>(*last);
  return out;
}

Wrong take_regex(const std::string& pattern, Rule& rule) {
  int number = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_CASELESS | PCRE2_NEVER_UTF, &number, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR why[200] = {};
    pcre2_get_error_message(number, why, sizeof why);
    return fmt::format("regex: {} at {}", reinterpret_cast<const char*>(why), offset);
  }
  rule.regex = std::shared_ptr<const pcre2_real_code_8>(
      code, [](const pcre2_real_code_8* c) { pcre2_code_free(const_cast<pcre2_real_code_8*>(c)); });
  rule.pattern = pattern;
  return {};
}

Wrong take_value(std::string_view key, const std::string& value, Rule& rule) {
  if (value.empty()) return fmt::format("{}= has no value", key);
  if (key == "provider") {
    for (const auto name : split(value, ",")) {
      if (!is_name(name)) return "not a provider's name: " + printable(name);
      rule.providers.emplace_back(name);
    }
  } else if (key == "code") {
    for (const auto code : split(value, ",")) {
      if (code.size() > 3 || (code[0] != '4' && code[0] != '5') || !std::ranges::all_of(code, ascii_digit))
        return "not the begin of a code 4xx or 5xx: " + printable(code);
      rule.codes.emplace_back(code);
    }
  } else if (key == "dsn") {
    for (const auto dsn : split(value, ",")) {
      const auto codes = parse_codes(dsn);
      if (!codes) return "not an enhanced code, or a range of them: " + printable(dsn);
      rule.dsn.push_back(*codes);
    }
  } else if (key == "text") {
    // As replies are looked at.
    std::string text;
    for (const auto part : split(value, " \t")) text += (text.empty() ? "" : " ") + to_lower(part);
    if (text.empty()) return "text= has no words";
    rule.texts.push_back(std::move(text));
  } else if (key == "regex") {
    if (rule.regex != nullptr) return "there is a regex already";
    return take_regex(value, rule);
  } else if (key == "class") {
    const auto cls = class_of(value);
    if (!cls) return "not a class: " + printable(value);
    rule.cls = *cls;
  } else if (key == "scope") {
    const auto scope = scope_of(value);
    if (!scope) return "not a scope: " + printable(value);
    rule.scope = *scope;
  } else if (key == "pause") {
    rule.pause = parse_pause(value);
    if (!rule.pause) return "not a time up to seven days: " + printable(value);
  } else {
    return "unknown: " + printable(key) + "=";
  }
  return {};
}

Wrong take_rule(const std::vector<std::string>& words, Rule& rule) {
  if (words.size() < 2 || !is_name(words[1])) return "a rule needs a name of letters, digits, -, _ and .";
  if (words.size() > kMaxWords) return "too many words";
  rule.name = words[1];
  std::set<std::string, std::less<>> given;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == std::string::npos) return "not KEY=VALUE: " + printable(words[i]);
    const std::string key = words[i].substr(0, equals);
    if (!given.insert(key).second && key != "text") return key + "= is given twice";
    if (Wrong wrong = take_value(key, words[i].substr(equals + 1), rule); !wrong.empty()) return wrong;
  }
  if (!given.contains("class")) return "class= is missing";
  // Where nothing goes slower there is no scope to name.
  if (!given.contains("scope") && rule.cls != Class::none && rule.cls != Class::configuration)
    return "scope= is missing";
  if (rule.cls == Class::recipient && rule.scope != Scope::recipient) return "class=recipient needs scope=recipient";
  if (rule.dsn.empty() && rule.texts.empty() && rule.regex == nullptr && rule.codes.empty())
    return "it would fit every reply: code, dsn, text or regex is missing";
  return {};
}

constexpr const char* kNoHosts = "a provider needs names of hosts, .domains of them, or networks";

Wrong take_provider(const std::vector<std::string>& words, Provider& provider) {
  if (words.size() < 2 || !is_name(words[1])) return "a provider needs a name of letters, digits, -, _ and .";
  if (words.size() > kMaxSuffixes + 2) return "too many words";
  provider.name = words[1];
  std::string limit;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i].contains('='))
      limit += (limit.empty() ? "" : " ") + words[i];
    else if (const auto network = parse_network(words[i]))
      provider.networks.push_back(*network);
    else if (is_host(words[i]))
      provider.suffixes.push_back(to_lower(words[i]));
    else
      return "neither a host nor a .domain or network: " + printable(words[i]);
  }
  if (provider.networks.empty() && provider.suffixes.empty()) return kNoHosts;
  if (limit.empty()) return {};
  const auto parsed = parse_limit(limit);
  if (!parsed) return printable(limit) + ' ' + parsed.error();
  provider.limit = *parsed;
  return {};
}

}  // namespace

Result<void> read_rules(std::string_view text, std::string_view file, Rules& into) {
  const auto bad = [file](std::size_t line, const Wrong& wrong) {
    return fail(RulesError::bad, fmt::format("{}:{}: {}", file, line, wrong));
  };
  if (text.size() > kMaxFile) return bad(1, "the file is too big");
  if (text.contains('\0')) return bad(1, "the file has NUL bytes");
  std::vector<Provider> providers;
  std::vector<Rule> rules;
  std::set<std::string, std::less<>> names;
  std::size_t number = 0;
  while (!text.empty()) {
    // A logical line, with what continues it.
    std::string line;
    const std::size_t begins = number + 1;
    do {
      const auto end = text.find('\n');
      std::string_view part = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++number;
      if (const auto t = trim(part); t.starts_with('#')) continue;
      line.append(part).append(1, ' ');
    } while (!text.empty() && (text.front() == ' ' || text.front() == '\t'));
    const auto words = words_of(line);
    if (!words) return bad(begins, words.error());
    if (words->empty()) continue;
    Wrong wrong;
    if (words->front() == "provider") {
      wrong = take_provider(*words, providers.emplace_back());
      if (wrong.empty() && !names.insert("provider " + providers.back().name).second)
        wrong = "a second provider of this name";
      if (providers.size() > kMaxProviders) wrong = "too many providers";
    } else if (words->front() == "rule") {
      Rule& rule = rules.emplace_back();
      wrong = take_rule(*words, rule);
      rule.where = fmt::format("{}:{}", file, begins);
      if (wrong.empty() && !names.insert("rule " + rule.name).second) wrong = "a second rule of this name";
      if (rules.size() > kMaxRules) wrong = "too many rules";
    } else {
      wrong = "neither provider nor rule: " + printable(words->front());
    }
    if (!wrong.empty()) return bad(begins, wrong);
  }
  for (const Rule& r : rules)
    for (const std::string& name : r.providers)
      if (into.provider(name) == nullptr && std::ranges::find(providers, name, &Provider::name) == providers.end())
        return fail(RulesError::bad, r.where + ": there is no provider " + name);
  into.add(std::move(providers));
  into.add(std::move(rules));
  return {};
}

namespace {
/// Up to a byte more than a file may have.
Result<std::string> read_whole(const std::string& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(file);
  std::string out;
  for (;;) {
    char some[65536];
    const ssize_t n = ::read(fd.get(), some, std::min(sizeof some, kMaxFile + 1 - out.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(file);
    if (n == 0) return out;
    out.append(some, static_cast<std::size_t>(n));
  }
}
}  // namespace

Result<void> read_rules_file(const std::string& file, Rules& into) {
  PEN_TRY_ASSIGN(const std::string text, read_whole(file));
  return read_rules(text, file, into);
}

Rules read_usable_files(const std::vector<std::string>& files, const std::function<void(std::string)>& problem) {
  Rules rules;
  for (const std::string& file : files) {
    Rules more = rules;
    if (auto read = read_rules_file(file, more))
      rules = std::move(more);
    else
      problem(read.error().message());
  }
  return rules;
}

Result<Rules> read_rules_files(const std::vector<std::string>& files) {
  Rules rules;
  for (const std::string& file : files) PEN_TRY(read_rules_file(file, rules));
  return rules;
}

}  // namespace pen::shaping
