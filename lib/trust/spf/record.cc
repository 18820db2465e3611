#include "lib/trust/spf/record.h"

#include <algorithm>
#include <optional>

#include "lib/base/text.h"
#include "lib/trust/spf/macro.h"

namespace pen::spf {
namespace {

constexpr std::string_view kVersion = "v=spf1";

std::unexpected<Error> wrong(std::string_view term) {
  return fail(SpfError::syntax, "SPF term \"" + printable(term, 60) + "\"");
}

/// A prefix length: digits without a leading zero.
std::optional<unsigned> length_of(std::string_view text, unsigned most) {
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto number = parse_unsigned(text);
  if (!number || *number > most) return std::nullopt;
  return static_cast<unsigned>(*number);
}

/// Takes "/24", "//64" or "/24//64" from the end of the text. False: such an end that makes no sense.
bool take_lengths(std::string_view& text, Directive& into) {
  const auto digits = [](std::string_view part) { return !part.empty() && std::ranges::all_of(part, ascii_digit); };
  if (const auto at = text.rfind("//"); at != text.npos) {
    const auto six = length_of(text.substr(at + 2), 128);
    if (!six) return false;
    into.bits6 = *six;
    text = text.substr(0, at);
  }
  if (const auto at = text.rfind('/'); at != text.npos) {
    if (!digits(text.substr(at + 1))) return true;  // a part of the name, which it makes a bad one
    const auto four = length_of(text.substr(at + 1), 32);
    if (!four) return false;
    into.bits4 = *four;
    text = text.substr(0, at);
  }
  return true;
}

struct Row {
  std::string_view name;
  Mechanism mechanism;
};
constexpr Row kRows[] = {{"all", Mechanism::all}, {"include", Mechanism::include}, {"a", Mechanism::a},
                         {"mx", Mechanism::mx},   {"ptr", Mechanism::ptr},         {"ip4", Mechanism::ip4},
                         {"ip6", Mechanism::ip6}, {"exists", Mechanism::exists}};

Result<Directive> parse_directive(std::string_view term) {
  const std::string_view whole = term;
  Directive out;
  const auto qualifier = std::string_view("+-~?").find(term.front());
  if (qualifier != std::string_view::npos) {
    out.qualifier = static_cast<Qualifier>(qualifier);
    term.remove_prefix(1);
  }
  const auto end = std::min(term.find_first_of(":/"), term.size());
  const auto* row = std::ranges::find_if(kRows, [&](const Row& r) { return iequals(r.name, term.substr(0, end)); });
  if (row == std::end(kRows)) return wrong(whole);
  out.mechanism = row->mechanism;
  const bool argument = end < term.size() && term[end] == ':';
  std::string_view rest = term.substr(end + (argument ? 1 : 0));
  switch (out.mechanism) {
    case Mechanism::all:
      if (!rest.empty() || argument) return wrong(whole);
      return out;
    case Mechanism::ip4:
    case Mechanism::ip6: {
      const bool four = out.mechanism == Mechanism::ip4;
      const auto slash = std::min(rest.find('/'), rest.size());
      const auto address = rest.substr(0, slash);
      const auto ip = parse_ip(address);
      // Mapped addresses are IPv4 for everybody else here, but "::" shows how this one is written.
      if (!argument || !ip || address.contains(':') == four || address.contains('[')) return wrong(whole);
      out.network = *ip;
      if (slash == rest.size()) return out;
      const auto bits = length_of(rest.substr(slash + 1), four ? 32 : 128);
      if (!bits) return wrong(whole);
      (four ? out.bits4 : out.bits6) = *bits;
      return out;
    }
    case Mechanism::a:
    case Mechanism::mx:
      if (!take_lengths(rest, out)) return wrong(whole);
      break;
    case Mechanism::include:
    case Mechanism::exists:
      if (!argument) return wrong(whole);
      break;
    case Mechanism::ptr:
      break;
  }
  if (argument ? !is_domain_spec(rest) || rest.size() > Record::kMaxTarget : !rest.empty()) return wrong(whole);
  out.target = rest;
  return out;
}

bool is_modifier_name(std::string_view name) {
  return !name.empty() && ascii_alpha(name.front()) &&
         std::ranges::all_of(name, [](char c) { return ascii_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

std::string_view describe(SpfError e) {
  switch (e) {
    case SpfError::syntax:
      return "malformed";
  }
  return "unknown";
}

bool Record::is_one(std::string_view text) {
  return istarts_with(text, kVersion) && (text.size() == kVersion.size() || text[kVersion.size()] == ' ');
}

Result<Record> Record::parse(std::string_view text) {
  if (!is_one(text)) return fail(SpfError::syntax, "no v=spf1");
  if (text.size() > kMaxSize) return fail(SpfError::syntax, "too long");
  Record out;
  for (const auto term : split(text.substr(kVersion.size()), " ")) {
    const auto mark = std::min(term.find_first_of("=:/"), term.size());
    if (mark == term.size() || term[mark] != '=') {
      PEN_TRY_ASSIGN(auto directive, parse_directive(term));
      out.directives.push_back(std::move(directive));
      continue;
    }
    const auto name = term.substr(0, mark), value = term.substr(mark + 1);
    const bool redirect = iequals(name, "redirect");
    if (redirect || iequals(name, "exp")) {
      std::string& into = redirect ? out.redirect : out.explanation;
      if (!into.empty() || !is_domain_spec(value) || value.size() > kMaxTarget) return wrong(term);
      into = value;
    } else if (!is_modifier_name(name) || !is_macro_string(value)) {
      return wrong(term);
    }
  }
  return out;
}

}  // namespace pen::spf
