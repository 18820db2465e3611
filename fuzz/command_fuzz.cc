// Command lines of any shape: no crash, and accepted commands can be written and parsed again.
#include <cstdlib>

#include "lib/mail/command.h"

using namespace pen::mail;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto command = split_command(line);
  const CommandOptions options{.auth = true, .verp = "+="};
  if (auto mail = parse_mail(command.args, options)) {
    const auto again = parse_mail("FROM:<" + mail->sender + ">" + (mail->smtputf8 ? " SMTPUTF8" : ""), options);
    if (!again || again->sender != mail->sender) std::abort();
  }
  for (const bool utf8 : {false, true})
    if (auto rcpt = parse_rcpt(command.args, options, utf8)) {
      const auto again = parse_rcpt("TO:<" + rcpt->recipient + ">", options, utf8);
      if (!again || again->recipient != rcpt->recipient) std::abort();
    }
  (void)parse_bdat(command.args);
  if (auto text = decode_xtext(line); text && decode_xtext(encode_xtext(*text)) != text) std::abort();
  return 0;
}
