#include "lib/base/idn/domain.h"

#include <idn2.h>

#include <algorithm>
#include <atomic>

#include "lib/base/idn/fold.h"
#include "lib/base/text.h"

namespace pen::idn {
namespace {

// Far beyond what the DNS has, for U-labels are longer: bounds what a stranger's address costs.
constexpr std::size_t kMaxDomain = 1000;
constexpr std::string_view kPrefix = "xn--";

std::atomic<bool> by_idna2003 = false;  // also read by threads that ask the system for names

/// What libidn2 allocated.
struct Text {
  char* text = nullptr;
  Text() = default;
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() { ::idn2_free(text); }
};

std::optional<std::string> to_ascii(const std::string& domain) {
  const int kind = by_idna2003.load(std::memory_order_relaxed) ? IDN2_TRANSITIONAL : IDN2_NONTRANSITIONAL;
  Text out;
  if (::idn2_to_ascii_8z(domain.c_str(), &out.text, IDN2_NFC_INPUT | kind) != IDN2_OK) return std::nullopt;
  return to_lower(out.text);
}

bool has_a_label(std::string_view domain) {
  for (auto at = domain.find("--"); at != std::string_view::npos; at = domain.find("--", at + 1))
    if (at >= 2 && iequals(domain.substr(at - 2, kPrefix.size()), kPrefix)) return true;
  return false;
}

/// Whether the domain can have another form.
bool has_two_forms(std::string_view domain) { return beyond_ascii(domain) || has_a_label(domain); }

bool readable_by_idn(std::string_view domain) {
  return domain.size() <= kMaxDomain && domain.find('\0') == std::string_view::npos;
}

/// Whether no character of ASCII is among it that no host has: a key may be a line of text.
bool has_letters_only(std::string_view domain) {
  return std::ranges::all_of(domain, [](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || ascii_alnum(c) || c == '-' || c == '.' || c == '_';
  });
}

/// The place of the domain in a key of a table.
struct Place {
  std::size_t start = 0, size = 0;
};
Place domain_in(std::string_view key) {
  const auto at = key.rfind('@');
  Place place{.start = at == std::string_view::npos ? 0 : at + 1, .size = 0};
  if (place.start < key.size() && (key[place.start] == '.' || key[place.start] == '[')) ++place.start;
  const auto end = key.find_first_of("]:", place.start);
  place.size = std::min(end, key.size()) - place.start;
  return place;
}

}  // namespace

void convert_by_idna2003(bool yes) { by_idna2003.store(yes, std::memory_order_relaxed); }

std::optional<std::string> ascii_domain(std::string_view domain) {
  if (!readable_by_idn(domain)) return std::nullopt;
  return to_ascii(std::string(domain));
}

std::optional<std::string> unicode_domain(std::string_view domain) {
  const auto ascii = ascii_domain(domain);
  if (!ascii) return std::nullopt;
  Text out;
  if (::idn2_to_unicode_8z8z(ascii->c_str(), &out.text, 0) != IDN2_OK) return std::nullopt;
  std::string unicode(out.text);
  // "xn--example-" would be "example", which is another domain.
  if (to_ascii(unicode) != ascii) return std::nullopt;
  return unicode;
}

bool same_domain(std::string_view a, std::string_view b) {
  if (iequals(a, b)) return true;
  if (!has_two_forms(a) && !has_two_forms(b)) return false;
  if (equal(a, b)) return true;
  const auto ascii = ascii_domain(a);
  return ascii && ascii == ascii_domain(b) && unicode_domain(*ascii);
}

bool within_domain(std::string_view domain, std::string_view parent) {
  const auto dots = std::ranges::count(parent, '.');
  for (auto more = std::ranges::count(domain, '.'); more > dots; --more) domain.remove_prefix(domain.find('.') + 1);
  return same_domain(domain, parent);
}

bool same_address(std::string_view a, std::string_view b) {
  const auto at_a = a.rfind('@'), at_b = b.rfind('@');
  if (at_a == std::string_view::npos || at_b == std::string_view::npos) return equal(a, b);
  return equal(a.substr(0, at_a), b.substr(0, at_b)) && same_domain(a.substr(at_a + 1), b.substr(at_b + 1));
}

std::string address_key(std::string_view address) {
  const auto at = address.rfind('@');
  std::string_view domain = at == std::string_view::npos ? address : address.substr(at + 1);
  std::string key = at == std::string_view::npos ? std::string() : fold(address.substr(0, at + 1));
  if (domain.starts_with('.')) {
    key += '.';
    domain.remove_prefix(1);
  }
  return key + (has_two_forms(domain) ? ascii_domain(domain).value_or(fold(domain)) : fold(domain));
}

std::vector<std::string> other_forms(std::string_view key) {
  std::vector<std::string> forms;
  if (!has_two_forms(key)) return forms;
  const Place place = domain_in(key);
  const std::string_view domain = key.substr(place.start, place.size);
  if (!has_two_forms(domain) || !has_letters_only(domain)) return forms;
  const auto add = [&](const std::string& form) {
    if (equal(form, domain)) return;
    forms.emplace_back(key.substr(0, place.start)) += form;
    forms.back() += key.substr(place.start + place.size);
  };
  const auto ascii = ascii_domain(domain);
  if (!ascii) return forms;
  if (!has_a_label(domain)) {
    add(*ascii);
  } else if (const auto unicode = unicode_domain(*ascii)) {
    add(*ascii);
    add(*unicode);
  }
  return forms;
}

}  // namespace pen::idn
