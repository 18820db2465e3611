// JSON that clients hand in as mail: no crash; what becomes a message has lines of a length that mail may have, no bare
// CR or LF, no NUL, and only the fields that the request may set.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "penapi/compose.h"
#include "penapi/mail_request.h"

using namespace pen::api;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  auto request = parse_mail_request(input);
  if (!request) {
    PEN_CHECK(request.error().status == 400 || request.error().status == 422);
    return 0;
  }
  const auto mail = compose(
      *std::move(request), {.message_id = "<1@mx.example>", .date = "Thu, 1 Jan 2026 00:00:00 +0000", .boundary = "b"});
  if (!mail) {
    PEN_CHECK(mail.error().status == 422);
    return 0;
  }
  PEN_CHECK(!mail->envelope.recipients.empty());
  for (const std::string& address : mail->envelope.recipients)
    for (const char c : address) PEN_CHECK(static_cast<unsigned char>(c) >= 32 && c != 127);
  std::size_t line = 0;
  bool header = true;
  const std::string& text = mail->content;
  PEN_CHECK(text.starts_with("From:") && text.ends_with("\r\n"));
  for (std::size_t i = 0; i < text.size(); ++i) {
    PEN_CHECK(text[i] != '\0');
    PEN_CHECK(text[i] != '\n' || (i > 0 && text[i - 1] == '\r'));
    PEN_CHECK(text[i] != '\r' || (i + 1 < text.size() && text[i + 1] == '\n'));
    if (text[i] == '\n') {
      if (line == 1) header = false;  // its CR alone
      line = 0;
      const std::string_view rest = std::string_view(text).substr(i + 1);
      if (header) PEN_CHECK(!rest.starts_with("From:") && !rest.starts_with("Bcc:") && !rest.starts_with("Received:"));
    } else {
      PEN_CHECK(++line <= 999);
    }
  }
  return 0;
}
