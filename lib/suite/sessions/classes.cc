#include "lib/suite/sessions/classes.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::sessions {
namespace {

constexpr std::size_t kShown = 80;

std::string quoted(std::string_view text) { return "\"" + printable(text, kShown) + "\""; }

/// The error text; empty: the limit is taken.
std::string take_limit(std::string_view word, std::string_view what, std::uint32_t& into) {
  const auto n = parse_unsigned(word);
  if (!n) return std::string(what) + " is " + quoted(word) + ", which is no number";
  if (*n == 0) return std::string(what) + " is 0: no session could ever be; write at least 1";
  if (*n > kMaxLimit) return std::string(what) + " is " + quoted(word) + "; the most is " + std::to_string(kMaxLimit);
  into = static_cast<std::uint32_t>(*n);
  return {};
}

std::string folded(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return to_lower(name);
}

}  // namespace

bool is_loopback(const std::optional<IpAddress>& address) {
  if (!address || address->size == 0) return true;
  if (address->size == 4) return address->bytes[0] == 127;
  return std::all_of(address->bytes.begin(), address->bytes.end() - 1, [](std::uint8_t b) { return b == 0; }) &&
         address->bytes[15] == 1;
}

std::expected<Classes::Rule, std::string> Classes::parse_mask(std::string_view mask) {
  Rule rule;
  if (mask == "*") return rule;
  if (mask.contains('/') || parse_ip(mask)) {
    auto network = parse_network(mask);
    if (!network) return std::unexpected(network.error().context());
    rule.kind = Kind::network;
    rule.network = *network;
    return rule;
  }
  const bool domain = mask.starts_with("*.");
  rule.name = folded(domain ? mask.substr(2) : mask);
  if (!mail::valid_hostname(rule.name))
    return std::unexpected("the mask " + quoted(mask) + " is no host name, *.domain, address, network or *");
  rule.kind = domain ? Kind::domain : Kind::host;
  if (domain) rule.name.insert(0, 1, '.');
  return rule;
}

std::expected<Classes, std::string> Classes::parse(std::string_view text) {
  Classes out;
  if (trim(text).empty()) return out;
  std::size_t at = 0;
  for (std::size_t number = 1; at <= text.size(); ++number) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view entry = trim(text.substr(at, comma - at));
    at = comma + 1;
    const auto wrong = [&](const std::string& what) {
      return std::unexpected("entry " + std::to_string(number) + (entry.empty() ? "" : " (" + quoted(entry) + ")") +
                             ": " + what);
    };
    const auto words = split(entry, " \t\r\n");
    if (words.empty()) return wrong("is empty; a comma is too many");
    if (words.size() != 3) {
      return wrong("three words are expected, mask, total limit and refuse limit; there are " +
                   std::to_string(words.size()) + (words.size() > 3 ? " (a comma is needed between two entries)" : ""));
    }
    if (number > kMaxClasses) return wrong("more than " + std::to_string(kMaxClasses) + " entries");
    auto rule = parse_mask(words[0]);
    if (!rule) return wrong(rule.error());
    Class added;
    added.mask = to_lower(words[0]);
    if (auto bad = take_limit(words[1], "the total limit", added.total); !bad.empty()) return wrong(bad);
    if (auto bad = take_limit(words[2], "the refuse limit", added.refuse); !bad.empty()) return wrong(bad);
    if (out.catches_all()) return wrong("it stands after *, which takes every session: put * last");
    const auto same = std::ranges::find(out.list_, added.mask, &Class::mask);
    if (same != out.list_.end()) {
      return wrong("its mask is that of entry " + std::to_string(same - out.list_.begin() + 1) +
                   " already, which takes its sessions");
    }
    out.list_.push_back(std::move(added));
    out.rules_.push_back(*std::move(rule));
  }
  return out;
}

bool Classes::fits(const Rule& rule, std::string_view name, const std::optional<IpAddress>& address) {
  switch (rule.kind) {
    case Kind::host:
      return name == rule.name;
    case Kind::domain:
      return name.ends_with(rule.name) || name == std::string_view(rule.name).substr(1);
    case Kind::network:
      return address && rule.network.contains(*address);
    case Kind::all:
      return !is_loopback(address);
  }
  return false;
}

std::optional<std::uint32_t> Classes::find(std::string_view name, std::string_view address) const {
  if (rules_.empty()) return std::nullopt;
  const std::string folded_name = folded(name == "unknown" ? std::string_view() : name);
  const auto ip = parse_ip(address);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (fits(rules_[i], folded_name, ip)) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

bool Classes::names_loopback() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) {
    if (rule.kind == Kind::network) {
      const IpAddress& base = rule.network.base;
      if (base.size == 16) return rule.network.contains(*parse_ip("::1"));
      return base.bytes[0] == 127 || rule.network.contains(*parse_ip("127.0.0.1"));
    }
    return fits(rule, "localhost", std::nullopt);  // the name of every client there
  });
}

}  // namespace pen::sessions
