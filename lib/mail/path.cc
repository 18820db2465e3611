/// Paths of MAIL and RCPT: RFC 5321 section 4.1.2, leniently where Postfix is lenient.
#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::mail {
namespace {

constexpr std::size_t kMaxDomain = 255;  // RFC 5321 section 4.5.3.1.2

bool is_atext(char c) {
  if (ascii_alnum(c) || static_cast<unsigned char>(c) >= 0x80) return true;
  return std::string_view("!#$%&'*+-/=?^_`{|}~").find(c) != std::string_view::npos;
}

std::unexpected<Error> bad(std::string_view whole) {
  return fail(CommandError::bad_address, std::string(whole));
}

/// Whether a local part can stand without quotes.
bool is_dot_string(std::string_view local) {
  if (local.empty() || local.front() == '.' || local.back() == '.') return false;
  char before = 0;
  for (const char c : local) {
    if (c == '.' ? before == '.' : !is_atext(c)) return false;
    before = c;
  }
  return true;
}

/// Appends a local part given in internal form, quoted if it must be.
void append_local(std::string& out, std::string_view local) {
  if (is_dot_string(local)) {
    out += local;
    return;
  }
  out += '"';
  for (const char c : local) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

/// Reads a local part (dot-string, quoted-string or, forgivingly, a mix of both) up to '@', '>' or
/// the end.
bool take_local(std::string_view& in, std::string& local, bool& quoted) {
  while (!in.empty() && in.front() != '@' && in.front() != '>' && in.front() != ' ') {
    const char c = in.front();
    if (c == '"') {
      quoted = true;
      in.remove_prefix(1);
      for (;;) {
        if (in.empty()) return false;
        char q = in.front();
        in.remove_prefix(1);
        if (q == '"') break;
        if (q == '\\') {
          if (in.empty()) return false;
          q = in.front();
          in.remove_prefix(1);
        }
        if (static_cast<unsigned char>(q) < 32 || q == 127) return false;
        local += q;
      }
    } else if (c == '\\') {
      if (in.size() < 2 || static_cast<unsigned char>(in[1]) < 32 || in[1] == 127) return false;
      quoted = true;
      local += in[1];
      in.remove_prefix(2);
    } else if (c == '.' || is_atext(c) ||
               c == ':') {  // Postfix lets a colon pass; it ends up quoted
      local += c;
      in.remove_prefix(1);
    } else {
      return false;
    }
  }
  return true;
}

/// Domain or address literal after '@'.
bool take_domain(std::string_view& in, std::string& out) {
  const std::size_t start = out.size();
  if (!in.empty() && in.front() == '[') {
    const auto end = in.find(']');
    if (end == std::string_view::npos || end < 2) return false;
    for (const char c : in.substr(1, end - 1))
      if (!ascii_alnum(c) && c != '.' && c != ':' && c != '-') return false;
    out += in.substr(0, end + 1);
    in.remove_prefix(end + 1);
    return out.size() - start <= kMaxDomain;
  }
  char before = '.';
  while (!in.empty() && in.front() != '>' && in.front() != ' ') {
    const char c = in.front();
    if (c == '.') {
      if (before == '.') return false;
    } else if (!ascii_alnum(c) && c != '-' && c != '_' && static_cast<unsigned char>(c) < 0x80) {
      return false;
    }
    out += c;
    before = c;
    in.remove_prefix(1);
  }
  if (out.size() > start && out.back() == '.') out.pop_back();
  return out.size() > start && out.size() - start <= kMaxDomain;
}

}  // namespace

Result<std::string> take_path(std::string_view& text, bool strict) {
  const std::string_view whole = text;
  bool bracketed = !text.empty() && text.front() == '<';
  if (!bracketed && (strict || text.empty())) return bad(whole);
  std::string_view in = text;
  if (bracketed) in.remove_prefix(1);

  if (bracketed && in.starts_with('>')) {
    text = in.substr(1);
    return std::string();
  }
  // Source route: "@a,@b:" is read and dropped (RFC 5321 appendix C).
  if (in.starts_with('@')) {
    for (;;) {
      std::string hop;
      const auto end = in.find_first_of(",:> ");
      if (end == std::string_view::npos || !in.starts_with('@')) return bad(whole);
      std::string_view domain = in.substr(1, end - 1);
      if (!take_domain(domain, hop) || !domain.empty()) return bad(whole);
      const char stop = in[end];
      in.remove_prefix(end + 1);
      if (stop == ':') break;
      if (stop != ',') return bad(whole);
    }
  }
  std::string local;
  bool quoted = false;
  if (!take_local(in, local, quoted) || (local.empty() && !quoted)) return bad(whole);
  std::string address;
  address.reserve(local.size() + 32);
  append_local(address, local);
  if (in.starts_with('@')) {
    in.remove_prefix(1);
    address += '@';
    if (!take_domain(in, address)) return bad(whole);
  }
  if (bracketed) {
    if (!in.starts_with('>')) return bad(whole);
    in.remove_prefix(1);
  }
  if (!in.empty() && in.front() != ' ') return bad(whole);
  text = in;
  return address;
}

bool all_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char c = at(i);
    std::size_t more = 0;
    unsigned low = 0x80,
             high = 0xbf;  // of the second byte: no overlong forms, no surrogates, at most U+10FFFF
    if (c < 0x80) {
    } else if (c >= 0xc2 && c <= 0xdf) {
      more = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
      more = 2;
      if (c == 0xe0) low = 0xa0;
      if (c == 0xed) high = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
      more = 3;
      if (c == 0xf0) low = 0x90;
      if (c == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    if (more > 0 && (at(i + 1) < low || at(i + 1) > high)) return false;
    for (std::size_t k = 2; k <= more; ++k)
      if ((at(i + k) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace pen::mail
