#include "lib/trust/sasl/dovecot_requests.h"

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/trust/sasl/dovecot_fields.h"

namespace pen::sasl::dovecot {
namespace {

std::unexpected<Error> wrong(std::string_view what) {
  // Not the line: it may hold a password.
  return fail(SaslError::bad_line, std::string(what));
}

/// The value of a field; false: it is too long.
bool take(std::string_view field, std::string_view name, std::string& out) {
  out = unescape(field.substr(name.size()));
  return out.size() <= kMaxField;
}

bool take_port(std::string_view text, std::uint16_t& out) {
  const auto number = parse_unsigned(text);
  if (!number || *number > 65535) return false;
  out = static_cast<std::uint16_t>(*number);
  return true;
}

/// One field of AUTH; what is unknown is ignored. False: it is wrong.
bool take_field_of(std::string_view field, Request& request) {
  if (field == "secured") request.secured = true;
  if (field.starts_with("service=")) return take(field, "service=", request.service);
  if (field.starts_with("lip=")) return take(field, "lip=", request.local_address);
  if (field.starts_with("rip=")) return take(field, "rip=", request.remote_address);
  if (field.starts_with("lport=")) return take_port(field.substr(6), request.local_port);
  if (field.starts_with("rport=")) return take_port(field.substr(6), request.remote_port);
  if (field.starts_with("resp=")) {
    auto decoded = base64_decode(unescape(field.substr(5)));
    if (!decoded) return false;
    request.initial = *std::move(decoded);
  }
  return true;
}

std::string with_id(std::string_view word, std::uint32_t id) {
  return std::string(word) + "\t" + std::to_string(id) + "\t";
}

void add_properties(unsigned properties, std::string& line) {
  for (const PropertyWord& row : property_words())
    if ((properties & row.bit) != 0) (line += '\t') += row.word;
}

}  // namespace

Result<bool> ClientHello::feed(std::string_view line) {
  const auto word = take_field(line);
  if (word == "VERSION") {
    const auto major = parse_unsigned(take_field(line));
    if (!major) return wrong("VERSION");
    if (*major != kMajor) return fail(SaslError::wrong_version, std::to_string(*major));
    version_ = true;
    return false;
  }
  if (word != "APPLICATION") return false;
  if (!version_) return wrong("no VERSION before APPLICATION");
  bool good = take(take_field(line), "", application_.name) && !application_.name.empty();
  while (!line.empty()) {
    const auto field = take_field(line);
    if (field.starts_with("realm=")) good = good && take(field, "realm=", application_.realm);
    if (field.starts_with("host=")) good = good && take(field, "host=", application_.host);
  }
  for (const std::string* text : {&application_.name, &application_.realm, &application_.host})
    good = good && !text->contains('\0');  // the library takes them as strings of C
  if (!good) return wrong("APPLICATION");
  return true;
}

Result<std::optional<Asked>> parse_request(std::string_view line) {
  using Kind = Asked::Kind;
  const auto word = take_field(line);
  Asked asked;
  if (word == "AUTH")
    asked.kind = Kind::start;
  else if (word == "CONT")
    asked.kind = Kind::respond;
  else if (word != "CANCEL")
    return std::nullopt;
  const auto id = parse_id(take_field(line));
  if (!id) return wrong("no number");
  asked.id = *id;
  if (asked.kind == Kind::respond) {
    auto decoded = base64_decode(unescape(take_field(line)));
    if (!decoded) return wrong("CONT without base 64");
    asked.response = *std::move(decoded);
  }
  if (asked.kind != Kind::start) return asked;
  asked.request.mechanism = unescape(take_field(line));
  if (!valid_mechanism(asked.request.mechanism)) return wrong("AUTH without a mechanism");
  while (!line.empty())
    if (!take_field_of(take_field(line), asked.request)) return wrong("a field of AUTH");
  for (const std::string* text : {&asked.request.service, &asked.request.local_address, &asked.request.remote_address})
    if (text->contains('\0')) return wrong("a field of AUTH");
  return asked;
}

std::string server_greeting(const std::vector<Mechanism>& mechanisms, unsigned pid, std::string_view cookie) {
  std::string out = "VERSION\t" + std::to_string(kMajor) + "\t" + std::to_string(kMinor) + "\n";
  for (const Mechanism& mechanism : mechanisms) {
    out += "MECH\t" + mechanism.name;
    add_properties(mechanism.properties, out);
    out += '\n';
  }
  out += "SPID\t" + std::to_string(pid) + "\nCUID\t1\nCOOKIE\t" + std::string(cookie) + "\nDONE\n";
  return out;
}

std::string challenge_line(std::uint32_t id, std::string_view bytes) {
  return with_id("CONT", id) + base64_encode(bytes) + "\n";
}

std::string ok_line(std::uint32_t id, std::string_view user) {
  return with_id("OK", id) + "user=" + escape(user) + "\n";
}

std::string fail_line(std::uint32_t id, std::string_view user, std::string_view reason, bool temporary) {
  std::string line = with_id("FAIL", id) + "reason=" + escape(reason);
  if (!user.empty()) line += "\tuser=" + escape(user);
  if (temporary) line += "\ttemp";
  return line + "\n";
}

}  // namespace pen::sasl::dovecot
