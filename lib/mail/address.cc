#include "lib/mail/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/mail/charset.h"

namespace pen::mail {
namespace {

bool is_atom_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) return true;
  if (ascii_alnum(c)) return true;
  return std::string_view("!#$%&'*+-/=?^_`{|}~").find(c) != std::string_view::npos;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 32 || byte == 127;
}

bool is_dot_string(std::string_view local) {
  if (local.empty() || local.front() == '.' || local.back() == '.') return false;
  bool after_dot = false;
  for (const char c : local) {
    if (c == '.') {
      if (after_dot) return false;
      after_dot = true;
    } else {
      if (!is_atom_text(c)) return false;
      after_dot = false;
    }
  }
  return true;
}

/// Labels of letters, digits, hyphens and underscores, none empty. One trailing dot is accepted: rewriting drops it.
bool plausible_domain(std::string_view domain, bool utf8) {
  if (!domain.empty() && domain.back() == '.') domain.remove_suffix(1);
  if (domain.empty() || domain.size() > kMaxDomain) return false;
  bool label_empty = true;
  for (const char c : domain) {
    if (c == '.') {
      if (label_empty) return false;
      label_empty = true;
      continue;
    }
    const bool high = static_cast<unsigned char>(c) >= 0x80;
    if (!ascii_alnum(c) && c != '-' && c != '_' && !(high && utf8)) return false;
    label_empty = false;
  }
  return !label_empty;
}

/// Whether a plausible domain, or a literal, is one that mail can go to: no label begins or ends with a hyphen.
bool of_a_host(std::string_view domain, const OddDomains& odd) {
  if (domain.starts_with('[')) return !domain.contains(':') || istarts_with(domain, "[IPv6:");
  if (!odd.numeric && numeric_hostname(domain)) return false;
  if (domain.ends_with('.')) domain.remove_suffix(1);
  return !domain.starts_with('-') && !domain.ends_with('-') && !domain.contains(".-") && !domain.contains("-.");
}

/// Reads the local part of a path at position; moves position behind it and puts the internal form into local.
Result<void> read_local(std::string_view text, std::size_t& position, bool bracketed, std::string& local) {
  const std::size_t begin = position;
  while (position < text.size()) {
    const char c = text[position];
    if (c == '"') {
      ++position;
      while (position < text.size() && text[position] != '"') {
        if (text[position] == '\\') ++position;
        if (position >= text.size()) return fail(AddressError::malformed);
        if (is_control(text[position])) return fail(AddressError::bad_local_part);
        local.push_back(text[position++]);
      }
      if (position >= text.size()) return fail(AddressError::malformed);
      ++position;
    } else if (c == '\\') {
      if (position + 1 >= text.size() || is_control(text[position + 1])) {
        return fail(AddressError::bad_local_part);
      }
      local.push_back(text[position + 1]);
      position += 2;
    } else if (c == '.' || is_atom_text(c)) {
      local.push_back(c);
      ++position;
    } else {
      break;
    }
  }
  if (position == begin) return fail(bracketed ? AddressError::bad_local_part : AddressError::malformed);
  return {};
}

/// Skips "@a,@b:" if there is one.
Result<void> skip_route(std::string_view text, std::size_t& position, bool utf8) {
  if (position >= text.size() || text[position] != '@') return {};
  for (;;) {
    if (position >= text.size() || text[position] != '@') return fail(AddressError::malformed);
    const std::size_t begin = ++position;
    while (position < text.size() && text[position] != ',' && text[position] != ':') {
      if (text[position] == '>' || ascii_space(text[position])) return fail(AddressError::malformed);
      ++position;
    }
    if (position >= text.size()) return fail(AddressError::malformed);
    const std::string_view host = text.substr(begin, position - begin);
    // A literal with a colon would be IPv6; nobody routes through such hosts, so it is not accepted.
    if (!plausible_domain(host, utf8) && !literal_address(host)) return fail(AddressError::bad_domain);
    if (text[position++] == ':') return {};
  }
}

Result<void> read_domain(std::string_view text, std::size_t& position, const PathOptions& options,
                         std::string& domain) {
  const std::size_t begin = position;
  if (position < text.size() && text[position] == '[') {
    const auto close = text.find(']', position);
    if (close == std::string_view::npos) return fail(AddressError::malformed);
    position = close + 1;
    domain = text.substr(begin, position - begin);
    if (!literal_address(domain) || (options.of_hosts && !of_a_host(domain, {})))
      return fail(AddressError::bad_literal);
    return {};
  }
  while (position < text.size() && text[position] != '>' && !ascii_space(text[position])) ++position;
  domain = text.substr(begin, position - begin);
  if (!plausible_domain(domain, options.smtputf8) || (options.of_hosts && !of_a_host(domain, options.odd_domains)))
    return fail(AddressError::bad_domain);
  return {};
}

}  // namespace

std::string_view error_module(AddressError) { return "address"; }
std::string_view describe(AddressError e) {
  switch (e) {
    case AddressError::malformed:
      return "bad address syntax";
    case AddressError::bad_local_part:
      return "bad local part";
    case AddressError::bad_domain:
      return "bad domain";
    case AddressError::bad_literal:
      return "bad address literal";
    case AddressError::null_address:
      return "null address where an address is required";
    case AddressError::too_long:
      return "address too long";
    case AddressError::needs_smtputf8:
      return "non-ASCII address without SMTPUTF8";
    case AddressError::bad_utf8:
      return "invalid UTF-8 in address";
  }
  return "unknown";
}

Result<std::string> parse_path(std::string_view text, const PathOptions& options, std::size_t* used) {
  std::size_t position = 0;
  const bool bracketed = !text.empty() && text.front() == '<';
  if (!bracketed && (options.strict || text.empty())) return fail(AddressError::malformed);
  const auto blank_here = [&] { return position < text.size() && (text[position] == ' ' || text[position] == '\t'); };
  const auto skip_blanks = [&] {
    while (bracketed && blank_here()) ++position;
  };
  if (bracketed) ++position;
  skip_blanks();

  std::string address;
  if (bracketed && position < text.size() && text[position] == '>') {
    if (!options.allow_null) return fail(AddressError::null_address);
  } else {
    PEN_TRY(skip_route(text, position, options.smtputf8));
    std::string local;
    PEN_TRY(read_local(text, position, bracketed, local));
    address = quote_local(local);
    if (position < text.size() && text[position] == '@') {
      ++position;
      std::string domain;
      const bool none = position == text.size() || text[position] == '>' || ascii_space(text[position]);
      if (!none || !options.odd_domains.null) PEN_TRY(read_domain(text, position, options, domain));
      address += '@';
      address += domain;
    } else if (!options.allow_bare_local && !iequals(local, "postmaster")) {
      return fail(AddressError::bad_domain);
    }
  }
  if (bracketed) {
    skip_blanks();
    if (position >= text.size() || text[position] != '>') return fail(AddressError::malformed);
    ++position;
  }
  if (position < text.size() && !blank_here()) return fail(AddressError::malformed);
  if (position > kMaxPath || address.size() > kMaxPath) return fail(AddressError::too_long);
  if (!all_ascii(address)) {
    if (!options.smtputf8) return fail(AddressError::needs_smtputf8);
    if (!valid_utf8(address)) return fail(AddressError::bad_utf8);
  }
  if (used != nullptr) *used = position;
  return address;
}

std::size_t at_sign(std::string_view address) {
  std::size_t found = std::string_view::npos;
  bool quoted = false;
  for (std::size_t i = 0; i < address.size(); ++i) {
    const char c = address[i];
    if (c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == '@' && !quoted) {
      found = i;
    }
  }
  return found;
}
std::string_view local_part(std::string_view address) { return address.substr(0, at_sign(address)); }
std::string_view domain_part(std::string_view address) {
  const auto at = at_sign(address);
  return at == std::string_view::npos ? std::string_view() : address.substr(at + 1);
}

std::string unquote_local(std::string_view local) {
  std::string out;
  out.reserve(local.size());
  for (std::size_t i = 0; i < local.size(); ++i) {
    if (local[i] == '"') continue;
    if (local[i] == '\\' && i + 1 < local.size()) ++i;
    out.push_back(local[i]);
  }
  return out;
}
std::string quote_local(std::string_view local) {
  if (is_dot_string(local)) return std::string(local);
  std::string out = "\"";
  for (const char c : local) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}
std::string to_internal(std::string_view external) {
  const auto at = at_sign(external);
  std::string out = unquote_local(external.substr(0, at));
  if (at != std::string_view::npos) out += external.substr(at);
  return out;
}
std::string to_external(std::string_view internal) {
  if (internal.empty()) return {};
  const auto at = internal.rfind('@');
  std::string out = quote_local(internal.substr(0, at));
  if (at != std::string_view::npos) out += internal.substr(at);
  return out;
}

Extension split_extension(std::string_view local, std::string_view delimiters) {
  const Extension whole{local, {}, '\0'};
  if (delimiters.empty() || iequals(local, "mailer-daemon") || iequals(local, "double-bounce")) return whole;
  // A second "-" says that lists are nothing special (delimiters.h).
  const auto hyphen = delimiters.find('-');
  if (hyphen != std::string_view::npos && delimiters.find('-', hyphen + 1) == std::string_view::npos) {
    constexpr std::string_view kRequest = "-request";
    if (local.size() > 6 && istarts_with(local, "owner-")) return whole;
    if (local.size() > kRequest.size() && iequals(local.substr(local.size() - kRequest.size()), kRequest)) {
      return whole;
    }
  }
  const auto at = local.find_first_of(delimiters);
  if (at == std::string_view::npos || at == 0) return whole;
  return {local.substr(0, at), local.substr(at + 1), local[at]};
}

std::string fold_domain(std::string_view address) {
  std::string out(address);
  for (std::size_t i = at_sign(address); i < out.size(); ++i) out[i] = ascii_lower(out[i]);
  return out;
}

bool valid_hostname(std::string_view name, bool utf8) {
  if (name.empty() || name.size() > kMaxDomain) return false;
  bool only_digits = true;
  std::size_t label = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '.') {
      if (label == 0 || i + 1 == name.size()) return false;
      label = 0;
      continue;
    }
    const bool high = static_cast<unsigned char>(c) >= 0x80;
    if (c == '-') {
      if (label == 0 || i + 1 == name.size() || name[i + 1] == '.') return false;
    } else if (!ascii_alnum(c) && c != '_' && !(high && utf8)) {
      return false;
    }
    if (!ascii_digit(c)) only_digits = false;
    if (++label > 63) return false;
  }
  return !only_digits;
}
bool numeric_hostname(std::string_view name) { return valid_address(name); }
bool fully_qualified(std::string_view name, bool utf8) {
  return valid_hostname(name, utf8) && name.find('.') != std::string_view::npos;
}

bool valid_ipv4(std::string_view text) {
  unsigned parts = 0;
  std::size_t i = 0;
  while (true) {
    unsigned value = 0;
    std::size_t digits = 0;
    while (i < text.size() && ascii_digit(text[i]) && digits < 4) {
      value = value * 10 + static_cast<unsigned>(text[i] - '0');
      ++i;
      ++digits;
    }
    if (digits == 0 || digits > 3 || value > 255) return false;
    if (++parts == 4) return i == text.size();
    if (i >= text.size() || text[i] != '.') return false;
    ++i;
  }
}
bool valid_ipv6(std::string_view text) {
  in6_addr address;
  return text.size() < INET6_ADDRSTRLEN && text.find('\0') == std::string_view::npos &&
         inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
}

std::optional<std::string> literal_address(std::string_view domain) {
  if (domain.size() < 3 || domain.front() != '[' || domain.back() != ']') return std::nullopt;
  std::string_view inside = domain.substr(1, domain.size() - 2);
  if (valid_ipv4(inside)) {
    // Leading zeros are dropped: 192.000.002.001 is 192.0.2.1.
    std::string out;
    for (const auto part : split(inside, ".")) {
      if (!out.empty()) out += '.';
      out += std::to_string(*parse_unsigned(part));
    }
    return out;
  }
  if (istarts_with(inside, "ipv6:")) inside.remove_prefix(5);
  if (!valid_ipv6(inside)) return std::nullopt;
  in6_addr address;
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_pton(AF_INET6, std::string(inside).c_str(), &address);
  return std::string(inet_ntop(AF_INET6, &address, out.data(), out.size()));
}

}  // namespace pen::mail
