#include "penapi/compose.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/base64.h"
#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "lib/mail/named_address.h"

namespace pen::api {
namespace {

constexpr std::size_t kMaxLine = 998;    // RFC 5322 section 2.1.1
constexpr std::size_t kGoodLine = 76;    // RFC 2045 section 6.7, and RFC 2047
constexpr std::size_t kMaxValue = 8192;  // bytes of a field that the client names, and of the subject
constexpr std::size_t kMaxName = 255;    // bytes of a file's name and of a cid
constexpr std::string_view kEnd = "\r\n";

/// What is wrong with a request; nullopt: nothing.
using Wrong = std::optional<Refusal>;
Wrong wrong(std::string text) { return Refusal{422, std::move(text)}; }

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return ascii_alnum(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c);
  });
}

/// Appends "Name: value", folded at blanks. False: a line would be too long.
bool put_field(std::string& out, std::string_view name, std::string_view value) {
  std::size_t column = name.size() + 1;
  out.append(name).append(":");
  while (!value.empty()) {
    // A piece is what stands up to the next blank that can begin a line: one that is followed by a character.
    std::size_t end = 0;
    do {
      end = value.find(' ', end + 1);
    } while (end != std::string_view::npos && (end + 1 == value.size() || value[end + 1] == ' '));
    const std::string_view piece = value.substr(0, end);
    const bool first = column == name.size() + 1 && piece.front() != ' ';
    if (column + 1 + piece.size() > kGoodLine && (!first || piece.size() < kGoodLine)) {
      out.append(kEnd);
      column = 0;
    }
    if (piece.front() != ' ') {  // the first piece
      out += ' ';
      ++column;
    }
    out.append(piece);
    column += piece.size();
    if (column > kMaxLine) return false;
    value.remove_prefix(piece.size());
  }
  out.append(kEnd);
  return true;
}

/// Appends a field whose text a client gives.
Wrong put_text(std::string& out, std::string_view name, std::string_view value) {
  if (has_control(value)) return wrong(fmt::format("{}: a control character", printable(name, 100)));
  if (value.size() > kMaxValue) return wrong(fmt::format("{}: longer than {} bytes", printable(name, 100), kMaxValue));
  if (!put_field(out, name, mail::encoded_name(trim(value), "utf-8")))
    return wrong(fmt::format("{}: a word that is too long", printable(name, 100)));
  return {};
}

struct Named {
  std::string name, address;
};

/// "Name <address>" or an address.
std::expected<Named, Refusal> named(std::string_view field, std::string_view text) {
  const auto no = [&](std::string_view why) {
    return std::unexpected(Refusal{422, fmt::format("{}: {}: {}", field, printable(text, 100), why)});
  };
  if (has_control(text)) return no("a control character");
  if (text.size() > kMaxValue) return no("too long");
  Named out;
  std::string_view address = trim(text);
  if (address.ends_with('>')) {
    const auto begin = address.rfind('<');
    if (begin == std::string_view::npos) return no("no address");
    std::string_view name = trim(address.substr(0, begin));
    address = address.substr(begin + 1, address.size() - begin - 2);
    if (name.size() >= 2 && name.starts_with('"') && name.ends_with('"')) {
      name = name.substr(1, name.size() - 2);
      for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] == '\\' && i + 1 < name.size()) ++i;
        out.name += name[i];
      }
    } else {
      out.name = name;
    }
  }
  auto taken = envelope_address(address);
  if (!taken) return no(taken.error());
  out.address = *std::move(taken);
  return out;
}

/// A list of addresses for the header; the bare ones for the envelope.
struct AddressField {
  std::string value;
  std::vector<std::string> addresses;
};
std::expected<AddressField, Refusal> address_field(std::string_view field, const std::vector<std::string>& texts) {
  AddressField out;
  for (const std::string& text : texts) {
    auto one = named(field, text);
    if (!one) return std::unexpected(std::move(one).error());
    if (!out.value.empty()) out.value += ", ";
    // An encoded word may not stand in quotes (RFC 2047 section 5).
    const bool ascii = mail::all_ascii(one->name);
    out.value += ascii || one->name.empty() ? mail::named_address(one->name, one->address, false)
                                            : mail::encoded_name(one->name, "utf-8") + " <" + one->address + ">";
    out.addresses.push_back(std::move(one->address));
  }
  return out;
}

void put_base64(std::string& out, std::string_view bytes) {
  constexpr std::size_t kGroup = kGoodLine / 4 * 3;
  out.reserve(out.size() + bytes.size() / 57 * 78 + 80);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kGroup, bytes.size())))
    out.append(base64_encode(bytes.substr(0, kGroup))).append(kEnd);
}

void put_quoted_printable(std::string& out, std::string_view line) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::size_t column = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    const bool last = i + 1 == line.size();
    const bool plain = (c > 32 && c < 127 && c != '=') || ((c == ' ' || c == '\t') && !last);
    const std::size_t width = plain ? 1 : 3;
    if (column + width > kGoodLine - 1) {
      out.append("=\r\n");
      column = 0;
    }
    if (plain) {
      out += line[i];
    } else {
      out += '=';
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
    column += width;
  }
  out.append(kEnd);
}

/// The next line of a text, without its end; CRLF, LF and CR end one.
std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find_first_of("\r\n"), text.size());
  const std::string_view line = text.substr(0, end);
  const bool both = text.substr(end, 2) == "\r\n";
  text.remove_prefix(std::min(text.size(), end + (both ? 2 : 1)));
  return line;
}

/// The header and the body of a part of text; with its CTE.
Wrong put_text_part(std::string& out, std::string_view type, std::string_view field, std::string_view text) {
  if (text.contains('\0')) return wrong(fmt::format("{}: a NUL", field));
  std::size_t beyond = 0, longest = 0;
  bool odd = false;  // a line that only quoted-printable can have
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    longest = std::max(longest, line.size());
    odd = odd || line.ends_with(' ') || line.ends_with('\t') || line.starts_with("--=_");
  }
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 127 || (u < 32 && c != '\t' && c != '\r' && c != '\n')) ++beyond;
  }
  out += fmt::format("Content-Type: {}; charset={}\r\n", type, beyond == 0 ? "us-ascii" : "utf-8");
  if (beyond > text.size() / 4) {
    std::string lines;
    for (std::string_view rest = text; !rest.empty();) lines.append(take_line(rest)).append(kEnd);
    out += "Content-Transfer-Encoding: base64\r\n\r\n";
    put_base64(out, lines);
    return {};
  }
  const bool plain = beyond == 0 && !odd && longest <= 200;
  out += plain ? "Content-Transfer-Encoding: 7bit\r\n\r\n" : "Content-Transfer-Encoding: quoted-printable\r\n\r\n";
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (plain)
      out.append(line).append(kEnd);
    else
      put_quoted_printable(out, line);
  }
  return {};
}

/// A parameter of a field (RFC 2231).
std::string parameter(std::string_view name, std::string_view value) {
  if (mail::all_ascii(value)) {
    std::string quoted;
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return fmt::format("{}=\"{}\"", name, quoted);
  }
  std::string out = std::string(name) + "*=utf-8''";
  for (const char c : value)
    out += ascii_alnum(c) || std::string_view("-._~").contains(c)
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

Wrong put_attachment(std::string& out, const Attachment& a) {
  const std::string type = a.type.empty() ? "application/octet-stream" : to_lower(a.type);
  const auto slash = type.find('/');
  if (slash == std::string::npos || !is_token(type.substr(0, slash)) || !is_token(type.substr(slash + 1)) ||
      type.size() > kMaxName)
    return wrong(fmt::format("attachments: {}: not the type of a file, as image/png", printable(a.type, 100)));
  if (type.starts_with("multipart/") || type.starts_with("message/"))  // RFC 2045 section 6.4
    return wrong(fmt::format("attachments: {} cannot be attached in base 64: hand in a whole message", type));
  if (has_control(a.name) || a.name.size() > kMaxName)
    return wrong("attachments: a name with control characters, or too long");
  if (!std::ranges::all_of(
          a.cid, [](char c) { return c > 32 && c < 127 && !std::string_view("<>()\",;:\\[]").contains(c); }) ||
      a.cid.size() > kMaxName)
    return wrong("attachments: a cid is a word of ASCII, as logo@example.org");
  out += "Content-Type: " + type + "\r\nContent-Transfer-Encoding: base64\r\n";
  if (!a.cid.empty()) out += "Content-ID: <" + a.cid + ">\r\n";
  out += a.cid.empty() ? "Content-Disposition: attachment" : "Content-Disposition: inline";
  if (!a.name.empty()) out += ";\r\n " + parameter("filename", a.name);
  out += "\r\n\r\n";
  put_base64(out, a.content);
  return {};
}

/// One multipart in the message; its parts come between next() and end().
class Multipart {
 public:
  Multipart(std::string& out, std::string_view kind, std::string_view boundary, char letter)
      : out_(out), boundary_(fmt::format("=_{}{}", letter, boundary)) {
    out_ += fmt::format("Content-Type: multipart/{};\r\n boundary=\"{}\"\r\n\r\n", kind, boundary_);
  }
  void next() { out_ += fmt::format("\r\n--{}\r\n", boundary_); }
  void end() { out_ += fmt::format("\r\n--{}--\r\n", boundary_); }

 private:
  std::string& out_;
  std::string boundary_;
};

bool is_inline(const Attachment& a) { return !a.cid.empty(); }

Wrong put_html(std::string& out, const MailRequest& r, std::string_view boundary) {
  if (std::ranges::none_of(r.attachments, is_inline)) return put_text_part(out, "text/html", "html", *r.html);
  Multipart related(out, "related; type=\"text/html\"", boundary, 'r');
  related.next();
  if (auto no = put_text_part(out, "text/html", "html", *r.html)) return no;
  for (const Attachment& a : r.attachments) {
    if (!is_inline(a)) continue;
    related.next();
    if (auto no = put_attachment(out, a)) return no;
  }
  related.end();
  return {};
}

Wrong put_words(std::string& out, const MailRequest& r, std::string_view boundary) {
  if (!r.html) return put_text_part(out, "text/plain", "text", r.text.value_or(std::string()));
  if (!r.text) return put_html(out, r, boundary);
  Multipart alternative(out, "alternative", boundary, 'a');
  alternative.next();
  if (auto no = put_text_part(out, "text/plain", "text", *r.text)) return no;
  alternative.next();
  if (auto no = put_html(out, r, boundary)) return no;
  alternative.end();
  return {};
}

Wrong put_body(std::string& out, const MailRequest& r, std::string_view boundary) {
  const auto apart = [&](const Attachment& a) { return !is_inline(a) || !r.html; };
  if (std::ranges::none_of(r.attachments, apart)) return put_words(out, r, boundary);
  Multipart mixed(out, "mixed", boundary, 'm');
  mixed.next();
  if (auto no = put_words(out, r, boundary)) return no;
  for (const Attachment& a : r.attachments) {
    if (!apart(a)) continue;
    mixed.next();
    if (auto no = put_attachment(out, a)) return no;
  }
  mixed.end();
  return {};
}

/// What the request has other names for, what says where a message came from, and what says how it is made.
bool is_ours(std::string_view name) {
  static constexpr std::string_view kNames[] = {"from",
                                                "to",
                                                "cc",
                                                "bcc",
                                                "reply-to",
                                                "subject",
                                                "date",
                                                "sender",
                                                "return-path",
                                                "received",
                                                "delivered-to",
                                                "x-original-to",
                                                "dkim-signature",
                                                "authentication-results",
                                                "mime-version"};
  const std::string low = to_lower(name);
  return low.starts_with("content-") || low.starts_with("resent-") || low.starts_with("arc-") ||
         std::ranges::find(kNames, low) != std::end(kNames);
}

bool is_message_id(std::string_view text) {
  return text.size() > 4 && text.size() <= 255 && text.starts_with('<') && text.ends_with('>') &&
         std::ranges::count(text, '@') == 1 && std::ranges::count(text, '<') == 1 &&
         std::ranges::count(text, '>') == 1 && std::ranges::all_of(text, [](char c) { return c > 32 && c < 127; });
}

Wrong put_headers(std::string& out, const MailRequest& r, std::string& message_id) {
  std::vector<std::string> seen;
  for (const auto& [name, value] : r.headers) {
    if (!is_token(name) || name.size() > 76)
      return wrong(fmt::format("headers: {}: not the name of a field", printable(name, 100)));
    if (is_ours(name)) return wrong(fmt::format("headers: {} cannot be set here: see docs/http-submission.md", name));
    const std::string low = to_lower(name);
    if (low == "message-id") {
      if (!is_message_id(value) || std::ranges::find(seen, low) != seen.end())
        return wrong("headers: Message-ID is one <word@domain>");
      message_id = value;
      seen.push_back(low);
      continue;
    }
    if (auto no = put_text(out, name, value)) return no;
  }
  return {};
}

}  // namespace

std::expected<std::string, std::string> envelope_address(std::string_view text) {
  const mail::PathOptions options{.smtputf8 = true, .strict = true, .allow_bare_local = false, .of_hosts = true};
  std::size_t used = 0;
  const std::string bracketed = "<" + std::string(text) + ">";
  auto path = mail::parse_path(bracketed, options, &used);
  if (!path) return std::unexpected(std::string(path.error().code().message()));
  if (used != bracketed.size()) return std::unexpected(std::string("not an address"));
  std::string address = *std::move(path);
  const std::string domain(mail::domain_part(address));
  if (mail::all_ascii(domain)) return address;
  auto ascii = idn::ascii_domain(domain);
  if (!ascii) return std::unexpected(std::string("not a domain"));
  return std::string(mail::local_part(address)) + "@" + *ascii;
}

namespace {

Wrong put_sender(const MailRequest& r, const std::string& from, HandedEnvelope& envelope) {
  envelope.sender = from;
  if (!r.envelope_from) return {};
  envelope.sender.clear();
  if (r.envelope_from->empty()) return {};
  auto sender = envelope_address(*r.envelope_from);
  if (!sender) return wrong(fmt::format("envelope_from: {}: {}", printable(*r.envelope_from, 100), sender.error()));
  envelope.sender = *std::move(sender);
  return {};
}

/// The fields with addresses besides From, and the recipients: those that are named, else those of To, Cc and Bcc.
Wrong put_addresses(const MailRequest& r, std::string& header, bool& ascii, HandedEnvelope& envelope) {
  for (const auto& [field, name, list, shown] :
       {std::tuple("reply_to", "Reply-To", &r.reply_to, true), std::tuple("to", "To", &r.to, true),
        std::tuple("cc", "Cc", &r.cc, true), std::tuple("bcc", "Bcc", &r.bcc, false)}) {
    auto made = address_field(field, *list);
    if (!made) return std::move(made).error();
    if (r.recipients.empty() && list != &r.reply_to)
      envelope.recipients.insert(envelope.recipients.end(), made->addresses.begin(), made->addresses.end());
    if (!shown || list->empty()) continue;
    ascii = ascii && mail::all_ascii(made->value);
    if (!put_field(header, name, made->value)) return wrong(std::string(field) + ": a word that is too long");
  }
  for (const std::string& text : r.recipients) {
    auto address = envelope_address(text);
    if (!address) return wrong(fmt::format("recipients: {}: {}", printable(text, 100), address.error()));
    envelope.recipients.push_back(*std::move(address));
  }
  if (envelope.recipients.empty()) return wrong("there is no recipient: \"to\", \"cc\", \"bcc\" or \"recipients\"");
  if (envelope.recipients.size() > kMaxAddresses) return wrong("there are too many recipients");
  return {};
}

/// Bytes, about.
std::size_t size_of(const MailRequest& r) {
  std::size_t size = r.text.value_or("").size() + r.html.value_or("").size();
  for (const Attachment& a : r.attachments) size += a.content.size() / 57 * 78 + 1024;
  return size + 4096;
}

}  // namespace

std::expected<HandedMail, Refusal> compose(MailRequest r, const ComposeFacts& facts) {
  HandedMail out;
  const auto no = [](std::string text) { return std::unexpected(Refusal{422, std::move(text)}); };
  if (r.from.empty()) return no("\"from\" is missing");
  auto from = address_field("from", {r.from});
  if (!from) return std::unexpected(std::move(from).error());
  HandedEnvelope& envelope = out.envelope;
  if (auto bad = put_sender(r, from->addresses.front(), envelope)) return std::unexpected(*std::move(bad));

  std::string header;
  bool ascii = mail::all_ascii(from->value);
  if (!put_field(header, "From", from->value)) return no("from: a word that is too long");
  if (auto bad = put_addresses(r, header, ascii, envelope)) return std::unexpected(*std::move(bad));
  if (r.to.empty() && r.cc.empty()) header += "To: undisclosed-recipients:;\r\n";
  if (!r.subject.empty())
    if (auto bad = put_text(header, "Subject", r.subject)) return std::unexpected(*std::move(bad));
  header += "Date: " + facts.date + "\r\n";
  out.message_id = facts.message_id;
  std::string more;
  if (auto bad = put_headers(more, r, out.message_id)) return std::unexpected(*std::move(bad));
  header += "Message-ID: " + out.message_id + "\r\n" + more + "MIME-Version: 1.0\r\n";

  header.reserve(header.size() + size_of(r));
  out.content = std::move(header);
  if (auto bad = put_body(out.content, r, facts.boundary)) return std::unexpected(*std::move(bad));
  ascii = ascii && mail::all_ascii(envelope.sender) &&
          std::ranges::all_of(envelope.recipients, [](const auto& a) { return mail::all_ascii(a); });
  envelope.needs_smtputf8 = !ascii;
  return out;
}

std::expected<HandedMail, Refusal> take_message(std::string content, const std::map<std::string, std::string>& query) {
  const auto no = [](std::string text) { return std::unexpected(Refusal{422, std::move(text)}); };
  HandedMail out;
  const auto from = query.find("from"), to = query.find("to");
  for (const auto& [name, value] : query)
    if (name != "from" && name != "to") return no("unknown parameter: " + printable(name, 100));
  if (from == query.end() || to == query.end()) return no("the query needs \"from\" and \"to\"");
  if (!from->second.empty()) {
    auto sender = envelope_address(from->second);
    if (!sender) return no(fmt::format("from: {}: {}", printable(from->second, 100), sender.error()));
    out.envelope.sender = *std::move(sender);
  }
  for (const std::string_view one : split(to->second, ",")) {
    auto address = envelope_address(trim(one));
    if (!address) return no(fmt::format("to: {}: {}", printable(one, 100), address.error()));
    out.envelope.recipients.push_back(*std::move(address));
  }
  if (out.envelope.recipients.empty()) return no("to: there is no recipient");
  out.envelope.needs_smtputf8 =
      !mail::all_ascii(out.envelope.sender) ||
      !std::ranges::all_of(out.envelope.recipients, [](const auto& a) { return mail::all_ascii(a); });
  std::size_t bare = 0;
  for (std::size_t i = 0; i < content.size(); ++i) bare += content[i] == '\n' && (i == 0 || content[i - 1] != '\r');
  if (bare == 0 && content.ends_with("\r\n")) {
    out.content = std::move(content);
    return out;
  }
  out.content.reserve(content.size() + bare + 2);
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '\n' && (i == 0 || content[i - 1] != '\r')) out.content += '\r';
    out.content += content[i];
  }
  if (!out.content.ends_with("\r\n")) out.content += kEnd;
  return out;
}

}  // namespace pen::api
