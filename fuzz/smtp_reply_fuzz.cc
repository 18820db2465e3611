// SMTP replies from a hostile peer: lines in, bounded replies out.
#include <cstdint>
#include <cstdlib>

#include "lib/mail/reply.h"
#include "lib/mail/stated_delay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pen::mail::ReplyParser parser;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  parser.keep_lines(size % 2 != 0);
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const auto reply = parser.feed(line);
    if (const auto wait = pen::mail::stated_delay(line);
        wait && (wait->count() <= 0 || *wait > pen::mail::kMaxStatedDelay))
      std::abort();
    if (!reply) continue;
    if (reply->malformed != (reply->code == 0)) std::abort();
    if (!reply->malformed && (reply->code < 200 || reply->code > 599)) std::abort();
    if (reply->text.size() > pen::mail::ReplyParser::kMaxText) std::abort();
    if (!reply->dsn.empty() && reply->dsn[0] - '0' != reply->first_digit()) std::abort();
    if (parser.partial()) std::abort();
  }
  return 0;
}
