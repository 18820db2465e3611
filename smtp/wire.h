#pragma once
/// What goes over the wire in front of the content: the peer's features, and MAIL and RCPT with their parameters.
///
/// Source:  RFC 5321 sections 4.1.1.1-4.1.1.3, 1870 (SIZE), 6152 (BODY), 3030, 3461 (DSN), 6531.
/// Pure functions.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ipc/delivery.h"

namespace pen::smtp {

/// What the peer offers, after smtp_discard_ehlo_keywords.
struct Offers {
  bool pipelining = false, chunking = false, eight_bit_mime = false, binary_mime = false;
  bool dsn = false, smtputf8 = false, enhanced_status = false, starttls = false, size = false;
  bool requiretls = false;
  std::vector<std::string> auth;  // mechanisms
  std::uint64_t size_limit = 0;   // 0: none announced
};

/// Lines of an EHLO or LHLO reply (text after the codes, greeting line first). Unknown keywords are left alone.
Offers parse_offers(const std::vector<std::string>& lines, const std::vector<std::string>& discard);

/// Whether an address can stand between angle brackets without ending the line or the brackets early.
bool sendable_address(std::string_view address);

/// Whether the transaction needs SMTPUTF8 for sender or header (a recipient may need it alone).
bool needs_smtputf8(const ipc::delivery::Job& job);

/// "MAIL FROM:<…> …\r\n", "RCPT TO:<…> …\r\n" with the parameters that the peer offers, appended to out.
void append_mail(std::string& out, const ipc::delivery::Job& job, const Offers& offers);
void append_rcpt(std::string& out, const mail::Recipient& recipient, const Offers& offers);

}  // namespace pen::smtp
