#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/map/map.h"

namespace pen::map {
namespace {

constexpr bool kWhole = true;
constexpr bool kPart = false;

/// Tries one key after the other until the first hit or error.
class Search {
 public:
  explicit Search(const MapList& maps) : maps_(maps) {}

  /// Returns false when the search is over. left_out: the extension that the key omits.
  bool miss(std::string_view key, bool whole, const mail::Extension& left_out = {}) {
    if (key.empty()) return true;
    auto value = maps_.lookup(key, whole);
    if (!value) {
      answer_ = std::unexpected(std::move(value).error());
      return false;
    }
    if (!*value) return true;
    answer_ = AddressHit{std::move(**value), std::string(key), std::string(left_out.extension), left_out.delimiter};
    return false;
  }
  AddressValue take() { return std::move(answer_); }

 private:
  const MapList& maps_;
  AddressValue answer_ = std::nullopt;
};

/// The local part and its extension, both in external form.
struct User {
  std::string whole;
  std::string bare;  // empty: no extension
  std::string internal;
  mail::Extension split;  // views into internal
};
void split_user(std::string_view local, std::string_view delimiters, User& user) {
  user.whole = local;
  user.internal = mail::unquote_local(local);
  user.split = mail::split_extension(user.internal, delimiters);
  if (user.split.delimiter != '\0') user.bare = mail::quote_local(user.split.user);
}

/// Tries the whole address, then the address without its extension.
bool miss_address(Search& search, std::string_view address, std::string_view domain, const User& user) {
  if (!search.miss(address, kWhole)) return false;
  if (user.split.delimiter == '\0' || domain.empty()) return true;
  return search.miss(user.bare + "@" + std::string(domain), kPart);
}

/// Tries the domain and its parents; the first look-up is of the domain itself.
bool miss_domain(Search& search, std::string_view domain, bool parent_domains, bool first_whole) {
  std::string_view name = domain;
  bool whole = first_whole;
  // A client's word: no domain is as long, and each of its parents would be a question.
  if (name.size() > mail::kMaxDomain) return search.miss(name, whole);
  while (!name.empty()) {
    if (!search.miss(name, whole)) return false;
    whole = kPart;
    const auto dot = name.find('.', 1);
    if (dot == std::string_view::npos || (name.front() == '[')) break;
    name = name.substr(parent_domains ? dot + 1 : dot);
  }
  return true;
}

}  // namespace

AddressValue find_address(const MapList& maps, std::string_view address, const AddressKeys& keys) {
  if (maps.empty()) return std::nullopt;
  Search search(maps);
  const std::string_view domain = mail::domain_part(address);
  User user;
  split_user(mail::local_part(address), keys.delimiters, user);
  const bool has_extension = user.split.delimiter != '\0';

  if (!search.miss(address, kWhole)) return search.take();
  if (!domain.empty()) {
    const std::string at_domain = "@" + std::string(domain);
    if (has_extension && !search.miss(user.bare + at_domain, kPart, user.split)) return search.take();
    if (keys.bare_user) {
      if (!search.miss(user.whole, kPart)) return search.take();
      if (has_extension && !search.miss(user.bare, kPart, user.split)) return search.take();
    }
    if (keys.at_domain) search.miss(at_domain, kPart);
  } else if (has_extension) {
    search.miss(user.bare, kPart, user.split);
  }
  return search.take();
}

AddressValue find_transport(const MapList& maps, std::string_view address, std::string_view delimiters,
                            bool parent_domains) {
  if (maps.empty()) return std::nullopt;
  Search search(maps);
  const std::string_view domain = mail::domain_part(address);
  User user;
  split_user(mail::local_part(address), delimiters, user);
  if (!miss_address(search, address, domain, user)) return search.take();
  if (miss_domain(search, domain, parent_domains, kPart)) search.miss("*", kPart);
  return search.take();
}

AddressValue find_access_address(const MapList& maps, std::string_view address, std::string_view delimiters,
                                 bool parent_domains) {
  if (maps.empty()) return std::nullopt;
  Search search(maps);
  const std::string_view domain = mail::domain_part(address);
  User user;
  split_user(mail::local_part(address), delimiters, user);
  if (!miss_address(search, address, domain, user)) return search.take();
  if (!miss_domain(search, domain, parent_domains, kPart)) return search.take();
  if (!search.miss(user.whole + "@", kPart)) return search.take();
  if (user.split.delimiter != '\0') search.miss(user.bare + "@", kPart);
  return search.take();
}

AddressValue find_access_name(const MapList& maps, std::string_view name, bool parent_domains) {
  if (maps.empty()) return std::nullopt;
  Search search(maps);
  miss_domain(search, name, parent_domains, kWhole);
  return search.take();
}

AddressValue find_access_network(const MapList& maps, std::string_view address) {
  if (maps.empty()) return std::nullopt;
  Search search(maps);
  const char separator = address.find(':') != std::string_view::npos ? ':' : '.';
  bool whole = kWhole;
  while (!address.empty() && search.miss(address, whole)) {
    whole = kPart;
    const auto last = address.rfind(separator);
    if (last == std::string_view::npos) break;
    address = address.substr(0, last);
    while (!address.empty() && address.back() == separator) address.remove_suffix(1);
  }
  return search.take();
}

}  // namespace pen::map
