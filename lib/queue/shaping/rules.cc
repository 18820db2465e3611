#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/queue/shaping/rules.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/text.h"

namespace pen::shaping {

namespace {
constexpr std::array<std::pair<Class, std::string_view>, 8> kClasses = {{{Class::none, "none"},
                                                                         {Class::rate, "rate"},
                                                                         {Class::connections, "connections"},
                                                                         {Class::messages, "messages"},
                                                                         {Class::recipient, "recipient"},
                                                                         {Class::reputation, "reputation"},
                                                                         {Class::block, "block"},
                                                                         {Class::configuration, "configuration"}}};
constexpr std::array<std::pair<Scope, std::string_view>, 7> kScopes = {{{Scope::source, "source"},
                                                                        {Scope::signing_domain, "signing-domain"},
                                                                        {Scope::from_domain, "from-domain"},
                                                                        {Scope::envelope_domain, "envelope-domain"},
                                                                        {Scope::recipient, "recipient"},
                                                                        {Scope::provider, "provider"},
                                                                        {Scope::host, "host"}}};

template <class T, std::size_t N>
std::string_view word_in(const std::array<std::pair<T, std::string_view>, N>& table, T value) {
  return std::ranges::find(table, value, &std::pair<T, std::string_view>::first)->second;
}
template <class T, std::size_t N>
std::optional<T> value_in(const std::array<std::pair<T, std::string_view>, N>& table, std::string_view word) {
  const auto at = std::ranges::find(table, word, &std::pair<T, std::string_view>::second);
  if (at == table.end()) return std::nullopt;
  return at->first;
}

// Steps of a regular expression: those of the shipped rules take a few hundred.
constexpr std::uint32_t kMatchLimit = 100'000, kDepthLimit = 1'000;

bool matches(const pcre2_code& code, std::string_view text) {
  struct Matcher {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* limits = pcre2_match_context_create(nullptr);
    Matcher() {
      if (limits == nullptr) return;
      pcre2_set_match_limit(limits, kMatchLimit);
      pcre2_set_depth_limit(limits, kDepthLimit);
    }
    ~Matcher() {
      pcre2_match_data_free(data);
      pcre2_match_context_free(limits);
    }
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
  };
  thread_local Matcher matcher;
  if (matcher.data == nullptr || matcher.limits == nullptr) return false;
  return pcre2_match(&code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, matcher.data,
                     matcher.limits) >= 0;
}

bool has_code(const Codes& codes, std::string_view dsn) {
  if (!dsn.starts_with(codes.prefix)) return false;
  const auto detail = parse_unsigned(dsn.substr(codes.prefix.size()));
  return detail && *detail >= codes.first && *detail <= codes.last;
}

/// "4.7.28": class, subject and detail, with nothing else.
bool is_dsn(std::string_view word) {
  if (word.size() < 5 || word.size() > 9 || (word[0] != '4' && word[0] != '5' && word[0] != '2') || word[1] != '.')
    return false;
  const auto dot = word.find('.', 2);
  return dot != std::string_view::npos && parse_unsigned(word.substr(2, dot - 2)) &&
         parse_unsigned(word.substr(dot + 1));
}
}  // namespace

std::string_view word(Class c) { return word_in(kClasses, c); }
std::string_view word(Scope s) { return word_in(kScopes, s); }
std::optional<Class> class_of(std::string_view text) { return value_in(kClasses, text); }
std::optional<Scope> scope_of(std::string_view text) { return value_in(kScopes, text); }

bool Provider::has(std::string_view host) const {
  return std::ranges::any_of(suffixes, [host](const std::string& s) {
    return s.front() == '.' ? host.size() > s.size() && host.ends_with(s) : host == s;
  });
}

Reply reply_of(std::string_view text) {
  Reply out;
  text = text.substr(0, kMaxReply);
  std::string code;
  if (text.size() >= 3 && std::all_of(text.begin(), text.begin() + 3, ascii_digit)) {
    code = text.substr(0, 3);
    out.code = static_cast<unsigned>(*parse_unsigned(code));
  }
  out.words.reserve(text.size());
  bool line_begins = !code.empty();
  for (std::string_view part : split(text, " \t\r\n")) {
    // "421-4.7.28" and "421" begin a line of the reply, and the enhanced code follows.
    if (!code.empty() && part.starts_with(code) && (part.size() == 3 || part[3] == '-')) {
      part.remove_prefix(std::min<std::size_t>(part.size(), 4));
      line_begins = true;
      if (part.empty()) continue;
    }
    if (line_begins && is_dsn(part)) {
      if (out.dsn.empty()) out.dsn = part;
      line_begins = false;
      continue;
    }
    line_begins = false;
    if (!out.words.empty()) out.words += ' ';
    for (const char c : part) out.words += ascii_lower(c);
  }
  return out;
}

bool Rule::fits(const Provider* provider, const Reply& reply) const {
  if (reply.code == 0) return false;
  if (!providers.empty() && (provider == nullptr || std::ranges::find(providers, provider->name) == providers.end()))
    return false;
  const char digits[] = {static_cast<char>('0' + reply.code / 100 % 10), static_cast<char>('0' + reply.code / 10 % 10),
                         static_cast<char>('0' + reply.code % 10)};
  const std::string_view code(digits, sizeof digits);
  if (codes.empty() ? code[0] != '4' && code[0] != '5'
                    : std::ranges::none_of(codes, [code](const std::string& c) { return code.starts_with(c); }))
    return false;
  if (!dsn.empty() && std::ranges::none_of(dsn, [&](const Codes& c) { return has_code(c, reply.dsn); })) return false;
  if (!std::ranges::all_of(texts, [&](const std::string& t) { return reply.words.contains(t); })) return false;
  return regex == nullptr || matches(*regex, reply.words);
}

const Rule* Rules::classify(const Provider* provider, const Reply& reply) const {
  const auto at = std::ranges::find_if(rules_, [&](const Rule& r) { return r.fits(provider, reply); });
  return at == rules_.end() ? nullptr : &*at;
}

void Rules::index() {
  by_suffix_.clear();
  by_network_.clear();
  for (const auto& p : providers_)
    for (const auto& s : p->suffixes) by_suffix_.insert_or_assign(s, p.get());
  for (auto p = providers_.rbegin(); p != providers_.rend(); ++p)  // of equal ones the last counts, as for names
    for (const Network& n : (*p)->networks) by_network_.emplace(n.bits, std::pair(n, p->get()));
}

void Rules::add(std::vector<Provider> providers) {
  std::erase_if(providers_, [&](const auto& old) {
    return std::ranges::find(providers, old->name, &Provider::name) != providers.end();
  });
  for (Provider& p : providers) providers_.push_back(std::make_shared<const Provider>(std::move(p)));
  index();
}

void Rules::add(std::vector<Rule> rules) {
  std::erase_if(rules_,
                [&](const Rule& old) { return std::ranges::find(rules, old.name, &Rule::name) != rules.end(); });
  rules_.insert(rules_.begin(), std::move_iterator(rules.begin()), std::move_iterator(rules.end()));
}

bool Rules::limits() const {
  return std::ranges::any_of(providers_, [](const auto& p) { return p->limit.limits(); });
}

const Provider* Rules::provider(std::string_view name) const {
  const auto at = std::ranges::find(providers_, name, [](const auto& p) -> const std::string& { return p->name; });
  return at == providers_.end() ? nullptr : at->get();
}

const Provider* Rules::provider_of(std::string_view name, std::string_view address) const {
  std::string host = to_lower(name);
  if (host.ends_with('.')) host.pop_back();
  if (const auto at = by_suffix_.find(host); at != by_suffix_.end()) return at->second;
  // The longest of the domains above it.
  for (auto dot = host.find('.'); dot != std::string::npos; dot = host.find('.', dot + 1))
    if (const auto at = by_suffix_.find(host.substr(dot)); at != by_suffix_.end()) return at->second;
  if (by_network_.empty()) return nullptr;
  const auto ip = parse_ip(address);
  if (!ip) return nullptr;
  const auto at = std::ranges::find_if(by_network_, [&](const auto& n) { return n.second.first.contains(*ip); });
  return at == by_network_.end() ? nullptr : at->second.second;
}

const Provider* Rules::provider_of(const std::vector<Host>& hosts) const {
  const Provider* found = nullptr;
  for (const Host& host : hosts) {
    const Provider* const its = provider_of(host.name, host.address);
    if (its == nullptr || (found != nullptr && its != found)) return nullptr;
    found = its;
  }
  return found;
}

}  // namespace pen::shaping
