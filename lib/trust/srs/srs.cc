#include "lib/trust/srs/srs.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/digest/digest.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::srs {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr unsigned kDays = 1024;
constexpr std::size_t kTag = 4;  // SRS0, SRS1

bool is_separator(char c) { return c == '=' || c == '+' || c == '-'; }

/// '0' or '1'; 0: neither.
char kind_of(std::string_view local) {
  if (local.size() <= kTag || !istarts_with(local, "SRS") || !is_separator(local[kTag])) return 0;
  return local[3] == '0' || local[3] == '1' ? local[3] : '\0';
}

std::string hash_of(const std::string& secret, const std::string& parts) {
  return base64_encode(digest::hmac(digest::Digest::sha1, secret, to_lower(parts)));
}

/// Hashes compare without case, for a host on the way may change it; the alphabets of postsrsd 2 and of the others
/// differ in two characters.
std::string folded(std::string_view hash) {
  std::string out = to_lower(hash);
  std::ranges::replace(out, '-', '+');
  std::ranges::replace(out, '_', '/');
  return out;
}

unsigned day_of(WallTime when) { return static_cast<unsigned>(unix_seconds(when) / 86400 % kDays); }

std::string stamp(unsigned day) { return {kDigits[day >> 5 & 31], kDigits[day & 31]}; }

std::optional<unsigned> day_of_stamp(std::string_view text) {
  if (text.size() != 2) return std::nullopt;
  unsigned day = 0;
  for (const char c : text) {
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    const auto digit = kDigits.find(upper);
    if (digit == std::string_view::npos) return std::nullopt;
    day = day << 5 | static_cast<unsigned>(digit);
  }
  return day;
}

/// Takes the part before the next '='.
std::optional<std::string_view> take(std::string_view& text) {
  const auto end = text.find('=');
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  const auto part = text.substr(0, end);
  text.remove_prefix(end + 1);
  return part;
}

/// An address of a local part in internal form; "" if there cannot be one.
std::string address_of(std::string_view local, std::string_view domain) {
  if (local.empty() || !mail::valid_hostname(domain, true)) return {};
  return mail::quote_local(local) + "@" + std::string(domain);
}

}  // namespace

std::string_view describe(SrsError e) {
  switch (e) {
    case SrsError::not_srs:
      return "not a rewritten address";
    case SrsError::syntax:
      return "malformed";
    case SrsError::forged:
      return "not rewritten here";
    case SrsError::expired:
      return "too old";
    case SrsError::no_domain:
      return "without a domain";
  }
  return "unknown";
}

Srs::Srs(Options options) : options_(std::move(options)) {
  PEN_CHECK(!options_.secrets.empty(), "no secret");
  PEN_CHECK(options_.hash_length >= kLeastHash && options_.hash_length <= kMostHash, "length of hashes");
  PEN_CHECK(options_.hash_minimum >= kLeastHash && options_.hash_minimum <= kMostHash, "least length of hashes");
  PEN_CHECK(is_separator(options_.separator), "separator");
}

bool Srs::rewritten(std::string_view address) { return kind_of(mail::unquote_local(mail::local_part(address))) != 0; }

bool Srs::made(std::string_view hash, const std::string& parts) const {
  if (hash.size() < options_.hash_minimum || hash.size() > kMostHash) return false;
  const std::string given = folded(hash);
  return std::ranges::any_of(options_.secrets, [&](const std::string& secret) {
    return digest::equal_secrets(given, folded(hash_of(secret, parts).substr(0, hash.size())));
  });
}

Result<std::string> Srs::forward(std::string_view address, std::string_view alias_domain, WallTime now) const {
  const std::string local = mail::unquote_local(mail::local_part(address));
  const std::string_view domain = mail::domain_part(address);
  if (local.empty() || !mail::valid_hostname(domain, true) || !mail::valid_hostname(alias_domain, true))
    return fail(SrsError::no_domain);
  const auto signed_hash = [&](const std::string& parts) {
    return hash_of(options_.secrets.front(), parts).substr(0, options_.hash_length);
  };
  std::string out;
  std::string_view rest = local;
  const char kind = kind_of(local);
  if (kind == '1') {
    // HASH=HOST=REST of another host: the hash is renewed, the first host stays.
    std::string_view parts = rest.substr(kTag + 1);
    const auto hash = take(parts);
    const auto host = hash ? take(parts) : std::nullopt;
    if (host && mail::valid_hostname(*host, true) && parts.size() > 1 && is_separator(parts.front())) {
      out = std::string("SRS1") + options_.separator + signed_hash(std::string(*host) + std::string(parts)) + "=" +
            std::string(*host) + "=" + std::string(parts);
    }
  } else if (kind == '0' && local.size() > kTag + 1) {
    rest.remove_prefix(kTag);
    out = std::string("SRS1") + options_.separator + signed_hash(std::string(domain) + std::string(rest)) + "=" +
          std::string(domain) + "=" + std::string(rest);
  }
  if (out.empty()) {  // an original, or one that only looks like a rewritten one
    const std::string day = stamp(day_of(now));
    out = std::string("SRS0") + options_.separator + signed_hash(day + std::string(domain) + local) + "=" + day + "=" +
          std::string(domain) + "=" + local;
  }
  return address_of(out, alias_domain);
}

Result<std::string> Srs::reverse(std::string_view address, WallTime now) const {
  const std::string local = mail::unquote_local(mail::local_part(address));
  const char kind = kind_of(local);
  if (kind == 0) return fail(SrsError::not_srs);
  std::string_view rest = std::string_view(local).substr(kTag + 1);
  // A hash may hold no '=', for it is cut before the padding.
  const auto hash = take(rest);
  if (!hash) return fail(SrsError::syntax);
  std::string out;
  if (kind == '1') {
    const auto host = take(rest);
    if (!host || rest.size() < 2 || !is_separator(rest.front())) return fail(SrsError::syntax);
    if (!made(*hash, std::string(*host) + std::string(rest))) return fail(SrsError::forged);
    out = address_of("SRS0" + std::string(rest), *host);
  } else {
    const auto day = take(rest);
    const auto host = day ? take(rest) : std::nullopt;
    if (!host || rest.empty()) return fail(SrsError::syntax);
    const auto then = day_of_stamp(*day);
    if (!then) return fail(SrsError::syntax);
    if (!made(*hash, std::string(*day) + std::string(*host) + std::string(rest))) return fail(SrsError::forged);
    if ((day_of(now) + kDays - *then) % kDays > options_.max_age) return fail(SrsError::expired);
    out = address_of(rest, *host);
  }
  if (out.empty()) return fail(SrsError::syntax);
  return out;
}

}  // namespace pen::srs
