#include "lib/trust/dkim/signature.h"

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/dkim/tag_list.h"

namespace pen::dkim {
namespace {

constexpr std::size_t kLine = 76;

Result<std::string_view> need(const TagList& tags, std::string_view name) {
  const auto* value = tags.find(name);
  if (value == nullptr || value->empty()) return fail(DkimError::syntax, "no " + std::string(name) + "=");
  return *value;
}

Result<std::string> decoded(const TagList& tags, std::string_view name) {
  PEN_TRY_ASSIGN(const auto text, need(tags, name));
  auto value = base64_decode(without_blanks(text));
  if (!value) return fail(DkimError::syntax, std::string(name) + "=");
  return *std::move(value);
}

Result<std::optional<std::uint64_t>> number(const TagList& tags, std::string_view name) {
  const auto* text = tags.find(name);
  if (text == nullptr) return std::nullopt;
  const auto value = text->size() <= 12 ? parse_unsigned(*text) : std::nullopt;
  if (!value) return fail(DkimError::syntax, std::string(name) + "=");
  return *value;
}

bool within(std::string_view domain, std::string_view parent) {
  if (iequals(domain, parent)) return true;
  return domain.size() > parent.size() && domain[domain.size() - parent.size() - 1] == '.' &&
         iequals(domain.substr(domain.size() - parent.size()), parent);
}

/// Puts tags into lines.
class Folder {
 public:
  explicit Folder(std::string& out) : out_(out), column_(out.size()) {}
  void tag(std::string_view text) {
    if (column_ + 2 + text.size() > kLine)
      fold();
    else
      put(" ");
    put(text);
  }
  /// A piece of a list that may be folded in front of it.
  void piece(std::string_view text) {
    if (column_ + text.size() > kLine) fold();
    put(text);
  }
  /// Text that may be folded anywhere.
  void digits(std::string_view text) {
    while (!text.empty()) {
      if (column_ >= kLine) fold();
      const auto part = text.substr(0, kLine - column_);
      put(part);
      text.remove_prefix(part.size());
    }
  }

 private:
  void fold() {
    out_ += "\r\n\t";
    column_ = 8;
  }
  void put(std::string_view text) {
    out_ += text;
    column_ += text.size();
  }
  std::string& out_;
  std::size_t column_;
};

std::string instance_tag(std::size_t instance) { return "i=" + std::to_string(instance) + ";"; }

/// What follows b= at the beginning of a line.
std::string digits_of(std::string_view signature) {
  std::string last = "        b=";
  Folder(last).digits(base64_encode(signature));
  return last.substr(10);
}

}  // namespace

Result<Signature> Signature::parse(std::string_view value) {
  if (value.size() > kMaxSize) return fail(DkimError::too_large, "signature");
  PEN_TRY_ASSIGN(const auto tags, TagList::parse(value));
  Signature s;
  PEN_TRY_ASSIGN(const auto version, need(tags, "v"));
  if (version != "1") return fail(DkimError::unsupported, "v=" + printable(version, 20));
  PEN_TRY_ASSIGN(const auto algorithm, need(tags, "a"));
  s.algorithm_text = to_lower(algorithm);
  for (const auto known : {Algorithm::rsa_sha256, Algorithm::ed25519_sha256})
    if (s.algorithm_text == algorithm_name(known)) s.algorithm = known;
  const auto* form = tags.find("c");
  const auto forms = Canonicalization::parse(form != nullptr ? *form : "simple/simple");
  if (!forms) return fail(DkimError::syntax, "c=");
  s.canonicalization = *forms;
  PEN_TRY_ASSIGN(const auto domain, need(tags, "d"));
  PEN_TRY_ASSIGN(const auto selector, need(tags, "s"));
  constexpr bool kUtf8 = true;  // RFC 8616
  if (!mail::valid_hostname(domain, kUtf8)) return fail(DkimError::syntax, "d=");
  if (!mail::valid_hostname("s." + std::string(selector), kUtf8)) return fail(DkimError::syntax, "s=");
  s.domain = domain;
  s.selector = selector;
  if (const auto* identity = tags.find("i")) {
    const auto at = identity->rfind('@');
    if (at == std::string_view::npos || !within(identity->substr(at + 1), domain))
      return fail(DkimError::syntax, "i= is not within d=");
    s.identity = *identity;
  }
  PEN_TRY_ASSIGN(const auto fields, need(tags, "h"));
  for (const auto name : colon_list(fields)) {
    if (name.empty()) return fail(DkimError::syntax, "h=");
    if (s.fields.size() == kMaxFields) return fail(DkimError::too_large, "h=");
    s.fields.emplace_back(name);
  }
  if (!std::ranges::any_of(s.fields, [](const std::string& f) { return iequals(f, "from"); }))
    return fail(DkimError::syntax, "h= has no From");
  PEN_TRY_ASSIGN(s.body_digest, decoded(tags, "bh"));
  PEN_TRY_ASSIGN(s.signature, decoded(tags, "b"));
  PEN_TRY_ASSIGN(s.time, number(tags, "t"));
  PEN_TRY_ASSIGN(s.expires, number(tags, "x"));
  if (s.time && s.expires && *s.expires <= *s.time) return fail(DkimError::syntax, "x= is not later than t=");
  PEN_TRY_ASSIGN(const auto length, number(tags, "l"));
  s.partial = length.has_value();
  if (const auto* methods = tags.find("q")) {
    const auto listed = colon_list(*methods);
    if (!std::ranges::any_of(listed, [](std::string_view m) { return iequals(m, "dns/txt"); }))
      return fail(DkimError::unsupported, "q=");
  }
  return s;
}

std::string Signature::signed_part() const {
  std::string out(instance > 0 ? kArcMessageName : kSignatureName);
  out += ':';
  Folder to(out);
  to.tag(instance > 0 ? instance_tag(instance) : "v=1;");
  to.tag("a=" + std::string(algorithm_name(*algorithm)) + ";");
  to.tag("c=" + canonicalization.text() + ";");
  to.tag("d=" + domain + ";");
  to.tag("s=" + selector + ";");
  if (!identity.empty() && instance == 0) to.tag("i=" + identity + ";");
  if (time) to.tag("t=" + std::to_string(*time) + ";");
  if (expires) to.tag("x=" + std::to_string(*expires) + ";");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string piece = fields[i] + (i + 1 < fields.size() ? ":" : ";");
    if (i == 0)
      to.tag("h=" + piece);
    else
      to.piece(piece);
  }
  to.tag("bh=" + base64_encode(body_digest) + ";");
  out += "\r\n\tb=";
  return out;
}

std::string Signature::field() const { return signed_part() + digits_of(signature); }

std::string Seal::signed_part() const {
  std::string out(kArcSealName);
  out += ':';
  Folder to(out);
  to.tag(instance_tag(instance));
  to.tag("a=" + std::string(algorithm_name(algorithm)) + ";");
  to.tag("t=" + std::to_string(time) + ";");
  to.tag("cv=" + chain + ";");
  to.tag("d=" + domain + ";");
  to.tag("s=" + selector + ";");
  out += "\r\n\tb=";
  return out;
}

std::string Seal::field() const { return signed_part() + digits_of(signature); }

std::string without_signature(std::string_view whole) {
  // Outside of the list of tags b= cannot begin: a value may hold "b=" only behind another tag's name.
  std::size_t at = whole.find(':');
  if (at == std::string_view::npos) return std::string(whole);
  for (++at; at < whole.size();) {
    auto end = whole.find(';', at);
    if (end == std::string_view::npos) end = whole.size();
    const auto spec = whole.substr(at, end - at);
    const auto equals = spec.find('=');
    if (equals != std::string_view::npos && trim(spec.substr(0, equals)) == "b")
      return std::string(whole.substr(0, at + equals + 1)) + std::string(whole.substr(end));
    at = end + 1;
  }
  return std::string(whole);
}

}  // namespace pen::dkim
