#include "smtpd/extensions.h"

#include <fmt/format.h>

#include "lib/base/date.h"
#include "lib/base/log.h"
#include "lib/mail/client_attributes.h"

namespace pen::smtpd {

std::string ehlo_reply(const Conversation& talk, std::string_view mechanisms) {
  const auto& s = talk.settings();
  std::string text = "250-" + s.myhostname + "\r\n";
  std::size_t last = 0;
  const auto add = [&](unsigned bit, std::string_view word) {
    if ((talk.discarded().bits & bit) != 0) return;
    last = text.size();
    text.append("250-").append(word).append("\r\n");
  };
  add(keyword::kPipelining, "PIPELINING");
  add(keyword::kSize, s.message_size_limit > 0 ? fmt::format("SIZE {}", s.message_size_limit) : "SIZE");
  if (!s.disable_vrfy_command) add(keyword::kVrfy, "VRFY");
  if (talk.server.site_flush) add(keyword::kEtrn, "ETRN");
  if (talk.policy().tls.level != TlsLevel::none && !talk.client.secured() && talk.server.tls &&
      talk.server.tls->available())
    add(keyword::kStartTls, "STARTTLS");
  if (talk.client.secured()) add(keyword::kRequireTls, "REQUIRETLS");
  if (!mechanisms.empty()) {
    add(keyword::kAuth, fmt::format("AUTH {}", mechanisms));
    if (s.broken_sasl_auth_clients) add(keyword::kAuth, fmt::format("AUTH={}", mechanisms));
  }
  if (talk.standing.may_verp) add(keyword::kVerp, "XVERP");
  if (talk.standing.may_xclient)
    add(keyword::kXclient, "XCLIENT NAME ADDR PORT PROTO HELO LOGIN REVERSE_NAME DESTADDR DESTPORT");
  if (talk.standing.may_xforward) add(keyword::kXforward, fmt::format("XFORWARD {}", mail::xforward::kAll));
  add(keyword::kEnhancedStatusCodes, "ENHANCEDSTATUSCODES");
  add(keyword::kEightBitMime, "8BITMIME");
  add(keyword::kDsn, "DSN");
  add(keyword::kSmtpUtf8, "SMTPUTF8");
  if (talk.policy().priorities && talk.policy().priorities->takes_parameter()) add(keyword::kMtPriority, "MT-PRIORITY");
  if (s.future_release_limit > milliseconds(0)) {
    const auto longest = std::chrono::ceil<seconds>(s.future_release_limit);
    const auto latest = std::chrono::floor<seconds>(talk.server.loop.clock().wall_now()) + longest;
    add(keyword::kFutureRelease, fmt::format("FUTURERELEASE {} {}", longest.count(), utc_text(latest)));
  }
  add(keyword::kLimits, fmt::format("LIMITS RCPTMAX={}", s.smtpd_recipient_limit));
  add(keyword::kChunking, "CHUNKING");
  text[last + 3] = ' ';
  if (!talk.discarded().words.empty()) log::info("discarding EHLO keywords: {}", talk.discarded().words);
  return text;
}

mail::OddDomains odd_domains(const Conversation& talk) {
  return {.null = talk.settings().resolve_null_domain, .numeric = talk.policy().resolve->options().numeric_domains()};
}

mail::CommandOptions offered_parameters(const Conversation& talk) {
  const unsigned withheld = talk.client.esmtp ? talk.discarded().bits : ~0u;
  const auto offered = [&](unsigned bit) { return (withheld & bit) == 0; };
  // Without its keyword a client does not know of a parameter; these three are still understood, as Postfix does: AUTH=
  // is said by clients that have always said it, to whatever server.
  return {.size = talk.client.esmtp,
          .eight_bit_mime = talk.client.esmtp,
          .dsn = offered(keyword::kDsn),
          .smtputf8 = offered(keyword::kSmtpUtf8),
          .auth = talk.client.esmtp,
          .requiretls = offered(keyword::kRequireTls),
          .strict_paths = talk.settings().strict_rfc821_envelopes,
          .odd_domains = odd_domains(talk),
          .utf8_unasked = !talk.settings().strict_smtputf8,
          .verp = talk.standing.may_verp && offered(keyword::kVerp)
                      ? std::string_view(talk.settings().default_verp_delimiters)
                      : std::string_view(),
          .mt_priority =
              talk.policy().priorities && talk.policy().priorities->takes_parameter() && offered(keyword::kMtPriority),
          .future_release = offered(keyword::kFutureRelease)
                                ? std::chrono::ceil<seconds>(talk.settings().future_release_limit)
                                : seconds(0),
          .now = talk.server.loop.clock().wall_now()};
}

bool beyond_limit(const config::Settings& settings, std::uint64_t size) {
  const auto limit = static_cast<std::uint64_t>(settings.message_size_limit);
  return limit > 0 && size > limit;
}

}  // namespace pen::smtpd
