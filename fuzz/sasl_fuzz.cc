/// Lines of an authentication server to smtpd, and challenges of a mail server to the client's mechanisms. The first
/// byte chooses: 0 to 127 Dovecot's lines; else challenges, one a line, for mechanism number byte % 6.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/trust/sasl/client.h"
#include "lib/trust/sasl/dovecot.h"

namespace {

using namespace pen;

void dovecot_lines(std::string_view text) {
  sasl::dovecot::Handshake hello;
  bool greeted = false;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, std::min(end, sasl::dovecot::kMaxLine));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!greeted) {
      const auto fed = hello.feed(line);
      if (!fed) return;
      greeted = *fed;
      if (hello.mechanisms().size() > sasl::dovecot::kMaxMechanisms) std::abort();
      // No name can end the EHLO line that it is put into.
      for (const auto& m : hello.mechanisms())
        for (const char c : m.name)
          if (!ascii_alnum(c) && c != '-' && c != '_') std::abort();
      continue;
    }
    const auto reply = sasl::dovecot::parse_reply(line);
    if (!reply || !*reply) continue;
    const auto& r = **reply;
    if (r.id == 0) std::abort();
    if (r.kind == sasl::dovecot::Reply::Kind::challenge && !valid_base64(r.text)) std::abort();
    if (r.kind == sasl::dovecot::Reply::Kind::ok && r.user.empty()) std::abort();
    // A user name through our own encoder is one line, and decodes to the same.
    const auto escaped = sasl::dovecot::escape(r.user);
    if (escaped.find_first_of("\t\n\r") != std::string::npos) std::abort();
    if (sasl::dovecot::unescape(escaped) != r.user) std::abort();
  }
}

void challenges(unsigned which, std::string_view text) {
  static constexpr const char* kNames[] = {"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256", "XOAUTH2"};
  const auto exchange =
      sasl::choose({kNames[which % 6]}, [](const auto&) { return true; }, {"user", "pencil"}, "nonce");
  (void)exchange->initial();
  for (int round = 0; round < 8 && !text.empty(); ++round) {
    const auto end = text.find('\n');
    const auto response = exchange->respond(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!response) break;
    const auto again = base64_decode(base64_encode(*response));
    if (!again || *again != *response) std::abort();
  }
  // Nobody can prove the password without knowing it: the fuzzer finds no HMAC.
  if (std::string_view(kNames[which % 6]).starts_with("SCRAM") && exchange->satisfied()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const auto decoded = base64_decode(text))
    if (base64_encode(*decoded) != text) std::abort();
  if (data[0] < 128)
    dovecot_lines(text);
  else
    challenges(data[0], text);
  return 0;
}
