#pragma once
/// The envelope commands of an SMTP client: MAIL and RCPT with the parameters that the server offers.
///
/// Use:     const Offers offers = parse_offers(ehlo_reply.lines, {});
///          append_mail(out, {.sender = …}, offers); append_rcpt(out, recipient, offers);
/// Source:  RFC 5321 sections 4.1.1.1-4.1.1.3, 1870 (SIZE), 6152 (BODY), 3030, 3461 (DSN), 6531, 6710 (MT-PRIORITY),
///          9422.
/// Pure functions.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/envelope.h"

namespace pen::mail {

/// The extensions that the server offers, without those in smtp_discard_ehlo_keywords.
struct Offers {
  bool pipelining = false, chunking = false, eight_bit_mime = false, binary_mime = false;
  bool dsn = false, smtputf8 = false, enhanced_status = false, starttls = false, size = false;
  bool requiretls = false, mt_priority = false;
  bool null_auth = false;         // after a login: MAIL says AUTH=<>, that we do not vouch for the sender (RFC 4954)
  std::uint8_t xforward = 0;      // attributes, as bits (client_attributes.h)
  std::vector<std::string> auth;  // mechanisms
  std::uint64_t size_limit = 0;   // 0: none announced
  // LIMITS (RFC 9422), 0: none announced: messages of a session, recipients of a message, domains among them.
  std::uint64_t mail_max = 0, rcpt_max = 0, rcpt_domain_max = 0;
};

/// Reads the lines of an EHLO or LHLO reply (text after the codes, greeting line first). Unknown keywords are ignored.
Offers parse_offers(const std::vector<std::string>& lines, const std::vector<std::string>& discard);

/// Whether an address can stand between angle brackets without ending the line or the brackets early.
bool sendable_address(std::string_view address);

/// The facts of a message that MAIL states.
struct MailLine {
  std::string_view sender;
  std::optional<std::uint64_t> size = {};  // bytes; nullopt: not known
  BodyType body_type = BodyType::unspecified;
  bool eight_bit_body = false;  // send BODY=8BITMIME whatever the client said
  bool smtputf8 = false;
  std::string_view envid = {};
  Ret ret = Ret::unspecified;
  bool requiretls = false;
  std::int8_t priority = 0;
};
/// "MAIL FROM:<…> …\r\n", "RCPT TO:<…> …\r\n" with the parameters that the server offers, appended to out.
void append_mail(std::string& out, const MailLine& line, const Offers& offers);
void append_rcpt(std::string& out, const Recipient& recipient, const Offers& offers);

}  // namespace pen::mail
