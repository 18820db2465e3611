#include "lib/mail/received.h"

#include "lib/base/text.h"

namespace pen::mail {
namespace {

/// Appends text; control characters, and characters that would unbalance a comment, become '?'; UTF-8 passes.
void append_safe(std::string& out, std::string_view text, bool comment) {
  const std::size_t start = out.size();
  out += text;
  for (std::size_t i = start; i < out.size(); ++i) {
    const char c = out[i];
    const bool bad =
        (static_cast<unsigned char>(c) < 32 || c == 127) || (comment && (c == '(' || c == ')' || c == '\\'));
    out[i] = bad ? '?' : c;
  }
}

/// "UTF8SMTPS" for "ESMTPS" and so on: RFC 6531 section 4.3.
void append_protocol(std::string& out, std::string_view protocol, bool smtputf8) {
  if (smtputf8 && protocol.starts_with("ESMTP")) {
    out += "UTF8SMTP";
    out += protocol.substr(5);
  } else {
    out += protocol;
  }
}

}  // namespace

std::string received_field(const ReceivedField& f) {
  std::string out;
  out.reserve(256);
  out += "Received: ";
  const bool shown = !f.client.address.empty() && !f.hide_client;
  if (shown) {
    out += "from ";
    append_safe(out, f.client.helo.empty() ? std::string_view(f.client.name) : std::string_view(f.client.helo), true);
    out += " (";
    append_safe(out, f.client.name, true);
    out += " [";
    if (f.client.address.find(':') != std::string::npos) out += "IPv6:";
    append_safe(out, f.client.address, true);
    out += "])\r\n\t";
    if (!f.tls.empty()) {
      out += f.tls;
      out += "\r\n\t";
    }
    if (f.show_login && !f.client.sasl_username.empty()) {
      out += "(Authenticated sender: ";
      append_safe(out, f.client.sasl_username, true);
      out += ")\r\n\t";
    }
  }
  out += "by ";
  out += f.myhostname;
  out += " (";
  out += f.mail_name;
  if (!f.submitted_by.empty()) {
    out += ", ";
    append_safe(out, f.submitted_by, true);
  }
  out += ")";
  if (!f.client.protocol.empty() && shown) {
    out += " with ";
    append_protocol(out, f.client.protocol, f.smtputf8);
  }
  if (!f.queue_id.empty()) {
    out += " id ";
    out += f.queue_id;
  }
  if (!f.only_recipient.empty()) {
    out += "\r\n\tfor <";
    append_safe(out, f.only_recipient, false);
    out += '>';
  }
  if (f.priority != 0) {
    out += f.only_recipient.empty() ? "\r\n\tpriority " : " priority ";
    out += std::to_string(f.priority);
  }
  out += "; ";
  out += rfc5322_date(f.when);
  return out;
}

}  // namespace pen::mail
