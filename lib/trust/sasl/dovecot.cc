#include "lib/trust/sasl/dovecot.h"

#include <algorithm>
#include <limits>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/trust/sasl/dovecot_fields.h"

namespace pen::sasl::dovecot {
namespace {

constexpr PropertyWord kPropertyWords[] = {{"anonymous", property::kAnonymous},
                                           {"plaintext", property::kPlaintext},
                                           {"dictionary", property::kDictionary},
                                           {"active", property::kActive},
                                           {"forward-secrecy", property::kForwardSecrecy},
                                           {"mutual-auth", property::kMutualAuth},
                                           {"private", property::kPrivate}};

unsigned property_of(std::string_view word) {
  for (const PropertyWord& row : kPropertyWords)
    if (row.word == word) return row.bit;
  return 0;
}

Error bad_line(std::string_view line) { return Error(SaslError::bad_line, "\"" + printable(line, 60) + "\""); }

}  // namespace

std::span<const PropertyWord> property_words() { return kPropertyWords; }

std::string_view take_field(std::string_view& line) {
  const auto tab = line.find('\t');
  const auto field = line.substr(0, tab);
  line = tab == std::string_view::npos ? std::string_view() : line.substr(tab + 1);
  return field;
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto number = parse_unsigned(text);
  if (!number || *number == 0 || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

bool valid_mechanism(std::string_view name) {
  return !name.empty() && name.size() <= 20 &&
         std::ranges::all_of(name, [](char c) { return ascii_alnum(c) || c == '-' || c == '_'; });
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '\0':
        out +=
            "\1"
            "0";
        break;
      case '\1':
        out +=
            "\1"
            "1";
        break;
      case '\t':
        out += "\1t";
        break;
      case '\r':
        out += "\1r";
        break;
      case '\n':
        out += "\1n";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\1' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case '0':
        out += '\0';
        break;
      case '1':
        out += '\1';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'n':
        out += '\n';
        break;
      default:
        out += text[i];
    }
  }
  return out;
}

std::string greeting(unsigned pid) {
  return "VERSION\t" + std::to_string(kMajor) + "\t" + std::to_string(kMinor) + "\nCPID\t" + std::to_string(pid) + "\n";
}

std::string application_line(const Application& application) {
  return "APPLICATION\t" + escape(application.name) + "\trealm=" + escape(application.realm) +
         "\thost=" + escape(application.host) + "\n";
}

std::string auth_line(std::uint32_t id, const Request& request) {
  std::string line =
      "AUTH\t" + std::to_string(id) + "\t" + escape(request.mechanism) + "\tservice=" + escape(request.service);
  line += "\tnologin";  // no master connection will ask for this login afterwards
  if (request.secured) line += "\tsecured";
  const auto add = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    line += '\t';
    line += name;
    line += '=';
    line += escape(value);
  };
  add("lip", request.local_address);
  add("rip", request.remote_address);
  if (request.local_port != 0) add("lport", std::to_string(request.local_port));
  if (request.remote_port != 0) add("rport", std::to_string(request.remote_port));
  if (request.initial) {  // must be the last field
    line += "\tresp=";
    line += escape(*request.initial);
  }
  line += '\n';
  return line;
}

std::string continue_line(std::uint32_t id, std::string_view base64) {
  return "CONT\t" + std::to_string(id) + "\t" + escape(base64) + "\n";
}

std::string cancel_line(std::uint32_t id) { return "CANCEL\t" + std::to_string(id) + "\n"; }

Result<bool> Handshake::feed(std::string_view line) {
  const std::string_view whole = line;
  const auto word = take_field(line);
  if (word == "VERSION") {
    const auto major = parse_unsigned(take_field(line));
    if (!major) return fail(bad_line(whole));
    if (*major != kMajor) return fail(SaslError::wrong_version, std::to_string(*major));
    version_ = true;
  } else if (word == "MECH") {
    Mechanism mechanism;
    mechanism.name = take_field(line);
    if (!valid_mechanism(mechanism.name) || mechanisms_.size() == kMaxMechanisms) return fail(bad_line(whole));
    for (char& c : mechanism.name)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    while (!line.empty()) mechanism.properties |= property_of(take_field(line));
    mechanisms_.push_back(std::move(mechanism));
  } else if (word == "DONE") {
    if (!version_) return fail(bad_line(whole));
    if (mechanisms_.empty()) return fail(SaslError::no_mechanism);
    return true;
  }
  return false;
}

Result<std::optional<Reply>> parse_reply(std::string_view line) {
  const std::string_view whole = line;
  const auto word = take_field(line);
  Reply reply;
  if (word == "OK")
    reply.kind = Reply::Kind::ok;
  else if (word == "FAIL")
    reply.kind = Reply::Kind::fail;
  else if (word == "CONT")
    reply.kind = Reply::Kind::challenge;
  else
    return std::nullopt;
  const auto id = parse_id(take_field(line));
  if (!id) return fail(bad_line(whole));
  reply.id = *id;
  if (reply.kind == Reply::Kind::challenge) {
    reply.text = unescape(take_field(line));
    if (!valid_base64(reply.text)) return fail(bad_line(whole));
    return reply;
  }
  while (!line.empty()) {
    const auto field = take_field(line);
    if (field.starts_with("user=")) {
      reply.user = unescape(field.substr(5));
    } else if (field.starts_with("reason=")) {
      reply.text = unescape(field.substr(7));
    } else if (field == "temp" || field == "code=temp_fail") {
      reply.temporary = true;
    }
  }
  if (reply.kind == Reply::Kind::ok && reply.user.empty()) return fail(bad_line(whole));
  return reply;
}

}  // namespace pen::sasl::dovecot
