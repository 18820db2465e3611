#include <mutex>

#include "lib/map/bad_rule.h"
#include "lib/map/pattern.h"
#include "lib/map/required_literals.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace pen::map {
namespace {

// A stranger's key must not make an administrator's pattern run for minutes.
constexpr std::uint32_t kMatchLimit = 1'000'000;
constexpr std::uint32_t kDepthLimit = 100'000;  // enough for a long header field
constexpr std::size_t kFirstJitStack = 32 * 1024, kMaxJitStack = 1024 * 1024;

Result<std::uint32_t> options_of(const Rule& rule, const std::string& path) {
  std::uint32_t options = PCRE2_CASELESS | PCRE2_DOTALL;
  for (const char c : rule.flags) {
    switch (c) {
      case 'i':
        options ^= PCRE2_CASELESS;
        break;
      case 'm':
        options ^= PCRE2_MULTILINE;
        break;
      case 's':
        options ^= PCRE2_DOTALL;
        break;
      case 'x':
        options ^= PCRE2_EXTENDED;
        break;
      case 'A':
        options ^= PCRE2_ANCHORED;
        break;
      case 'E':
        options ^= PCRE2_DOLLAR_ENDONLY;
        break;
      case 'U':
        options ^= PCRE2_UNGREEDY;
        break;
      case 'X':
        break;  // PCRE2 is always that strict
      default:
        return bad_rule(path, rule.line, std::string("unknown flag ") + c);
    }
  }
  return options;
}

/// The state that a thread needs for matching, kept because body_checks match every line of every message.
struct Matcher {
  Matcher()
      : data(pcre2_match_data_create(Spans::kMax, nullptr)),
        limits(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kFirstJitStack, kMaxJitStack, nullptr)) {
    if (limits == nullptr) return;
    pcre2_set_match_limit(limits, kMatchLimit);
    pcre2_set_depth_limit(limits, kDepthLimit);
    if (stack != nullptr) pcre2_jit_stack_assign(limits, nullptr, stack);
  }
  ~Matcher() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    pcre2_jit_stack_free(stack);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* limits;
  pcre2_jit_stack* stack;
};

}  // namespace

struct PcrePattern::Compiled {
  explicit Compiled(pcre2_code* c) : code(c) {}
  ~Compiled() { pcre2_code_free(code); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  /// Whether there is machine code. It is made here at first use: most patterns of a large table never run.
  bool machine_code() {
    std::call_once(translated, [this] {
      if (!why_pcre_is_interpreted()) fast = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    });
    return fast;
  }
  Result<bool> match(const std::string& key, Spans& spans, bool as_machine_code) {
    static thread_local const Matcher matcher;
    if (matcher.data == nullptr || matcher.limits == nullptr)
      return fail(MapError::unreadable, "regular expression ran out of memory");
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(key.data());
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (as_machine_code) found = pcre2_jit_match(code, subject, key.size(), 0, 0, matcher.data, matcher.limits);
    // The interpreter cannot run out of stack.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code, subject, key.size(), 0, PCRE2_NO_JIT, matcher.data, matcher.limits);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) {
      return fail(MapError::unreadable, found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT
                                            ? "matching took too long"
                                            : "matching failed with PCRE2 error " + std::to_string(found));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(matcher.data);
    // 0: the pattern has more groups than there is room for.
    spans.count = found == 0 ? Spans::kMax : static_cast<std::size_t>(found);
    for (std::size_t i = 0; i < spans.count; ++i) {
      const auto from = offsets[2 * i], to = offsets[2 * i + 1];
      spans.at[i] = from == PCRE2_UNSET || to < from ? std::pair<std::size_t, std::size_t>{0, 0}
                                                     : std::pair<std::size_t, std::size_t>{from, to - from};
    }
    return true;
  }

  pcre2_code* code;
  std::once_flag translated;
  bool fast = false;
};

void PcrePattern::Free::operator()(Compiled* compiled) const { delete compiled; }

Result<PcrePattern> PcrePattern::compile(const Rule& rule, const std::string& path) {
  PEN_TRY_ASSIGN(const std::uint32_t options, options_of(rule, path));
  int code = 0;
  std::size_t offset = 0;
  PcrePattern pattern;
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rule.pattern.data()), rule.pattern.size(), options, &code,
                                 &offset, nullptr);
  if (compiled == nullptr) {
    std::array<unsigned char, 200> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return bad_rule(path, rule.line,
                    std::string(reinterpret_cast<const char*>(text.data())) + " at offset " + std::to_string(offset));
  }
  pattern.compiled_.reset(new Compiled(compiled));
  std::uint32_t groups = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_CAPTURECOUNT, &groups);
  if (static_cast<std::uint32_t>(rule.highest_group) > groups)
    return bad_rule(path, rule.line, "$number beyond the groups of the pattern");
  // In an extended pattern, blanks and comments are not literals.
  if ((options & PCRE2_EXTENDED) == 0) pattern.needed_ = required_literals(rule.pattern, PatternSyntax::pcre);
  return pattern;
}

Result<bool> PcrePattern::match(const std::string& key, Spans& spans) const {
  return compiled_->match(key, spans, compiled_->machine_code());
}
Result<bool> PcrePattern::match_interpreted(const std::string& key, Spans& spans) const {
  return compiled_->match(key, spans, false);
}

std::optional<std::string> why_pcre_is_interpreted() {
  static const std::optional<std::string> why = []() -> std::optional<std::string> {
    std::uint32_t able = 0;
    if (pcre2_config(PCRE2_CONFIG_JIT, &able) < 0 || able == 0) return "this PCRE2 library cannot make machine code";
    int code = 0;
    std::size_t offset = 0;
    const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> probe(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>("a"), 1, 0, &code, &offset, nullptr), &pcre2_code_free);
    if (!probe || pcre2_jit_compile(probe.get(), PCRE2_JIT_COMPLETE) != 0)
      return "the system does not let this process make machine code";
    return std::nullopt;
  }();
  return why;
}

}  // namespace pen::map
