#include "lib/net/dnsbl/list.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/net/dns_packet.h"

namespace pen::dnsbl {
namespace {

/// Cuts a number from 0 to 255 off the front.
std::optional<unsigned> take_byte(std::string_view& text) {
  unsigned value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && ascii_digit(text[digits])) {
    value = value * 10 + static_cast<unsigned>(text[digits] - '0');
    if (value > 255) return std::nullopt;
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view token) {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

/// Cuts "7" or, in brackets, "2..7" off the front and adds it to the field.
bool take_member(std::string_view& text, bool ranges, std::bitset<256>& field) {
  const auto first = take_byte(text);
  if (!first) return false;
  auto last = first;
  if (ranges && take(text, "..")) last = take_byte(text);
  if (!last || *last < *first) return false;
  for (unsigned i = *first; i <= *last; ++i) field.set(i);
  return true;
}

bool take_field(std::string_view& text, std::bitset<256>& field) {
  if (!take(text, "[")) return take_member(text, false, field);
  do {
    if (!take_member(text, true, field)) return false;
  } while (take(text, ";"));
  return take(text, "]");
}

}  // namespace

std::string_view error_module(ListError) { return "DNS list"; }
std::string_view describe(ListError e) {
  switch (e) {
    case ListError::bad_domain:
      return "not a domain name";
    case ListError::bad_filter:
      return "bad filter: d.d.d.d is expected, where d is a number from 0 to 255 or [number;first..last;…]";
    case ListError::bad_weight:
      return "bad weight: a whole number is expected after *";
  }
  return "unknown";
}

std::string text_of(const Ipv4& address) {
  std::string out;
  for (const auto byte : address) out += (out.empty() ? "" : ".") + std::to_string(byte);
  return out;
}

Result<Filter> Filter::parse(std::string_view text) {
  Filter filter;
  std::string_view rest = text;
  for (std::size_t i = 0; i < 4; ++i) {
    if ((i > 0 && !take(rest, ".")) || !take_field(rest, filter.fields_[i]))
      return fail(ListError::bad_filter, printable(text, 100));
  }
  if (!rest.empty()) return fail(ListError::bad_filter, printable(text, 100));
  return filter;
}

bool Filter::matches(const Ipv4& address) const {
  for (std::size_t i = 0; i < 4; ++i)
    if (!fields_[i].test(address[i])) return false;
  return true;
}

Result<List> parse_list(std::string_view text) {
  List list{.text = std::string(text), .domain = std::string(text.substr(0, text.find('='))), .filter = {}};
  if (!net::normal_name(list.domain)) return fail(ListError::bad_domain, printable(text, 100));
  if (list.domain.size() < text.size()) {
    PEN_TRY_ASSIGN(list.filter, Filter::parse(text.substr(list.domain.size() + 1)));
  }
  return list;
}

Result<Site> parse_site(std::string_view text) {
  Site site;
  const auto star = text.find('*');
  PEN_TRY_ASSIGN(site.list, parse_list(text.substr(0, star)));
  if (star == std::string_view::npos) return site;
  std::string_view digits = text.substr(star + 1);
  const bool negative = take(digits, "-");
  if (!negative) take(digits, "+");
  const auto value = parse_unsigned(digits);
  if (!value || *value > static_cast<unsigned>(kMaxWeight)) return fail(ListError::bad_weight, printable(text, 100));
  site.weight = negative ? -static_cast<int>(*value) : static_cast<int>(*value);
  return site;
}

bool hits(const List& list, const Answer& answer) {
  return answer.state == Answer::State::listed && std::ranges::any_of(answer.addresses, [&](const Ipv4& address) {
           return list.filter ? list.filter->matches(address) : address[0] == 127;
         });
}

bool means_refused(const Ipv4& address) { return address[0] == 127 && address[1] == 255 && address[2] == 255; }

bool means_refused_by_allow_list(const Ipv4& address) {
  return means_refused(address) || address == Ipv4{127, 0, 0, 255};
}

}  // namespace pen::dnsbl
