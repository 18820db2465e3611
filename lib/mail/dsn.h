#pragma once
/// Builds delivery status notifications: failure, delay and success reports about one message.
///
/// Use:     request.recipients = dsn_due(request.kind, envelope, reported);
///          if (!request.recipients.empty()) {
///            DsnReport report = build_dsn(request, settings, random);
///            content = a Received: field of the caller's + report.before
///                      + first report.original_bytes bytes of the original content + report.after;
///          }
///          The original is never copied here: a report on a message of any size takes a few KiB.
/// Format:  multipart/report with a text for people, message/delivery-status, and the original or its header; the
///          message/global forms when the original came by SMTPUTF8 and the report needs them.
/// Words:   lib/mail/notice_template.h. Where the report must be in UTF-8, a template in a character set other than
///          US-ASCII and UTF-8 is replaced by the built-in one.
/// Bounds:  text from peers is cut (kMaxText) and cleaned of control bytes; the caller bounds the recipients.
/// Source:  RFC 3461 sections 4-6, RFC 3462, RFC 3464, RFC 3834 section 3.1.7, RFC 6533; bounce_size_limit.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/random.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/mail/notice_template.h"

namespace pen::mail {

/// verify: the report on a probe or on a traced delivery (sendmail -bv, -v).
enum class DsnKind : std::uint8_t { failure, delay, success, verify };

struct DsnRecipient {
  Recipient recipient;
  DeliveryStatus status;
  WallTime when{};  // last attempt
};

struct DsnRequest {
  DsnKind kind = DsnKind::failure;
  const Envelope* original = nullptr;  // must outlive the call
  std::vector<DsnRecipient> recipients;
  WallTime will_retry_until{};  // for delay reports; the epoch: not stated
  WallTime now{};
  /// For a notice to the postmaster instead of the original's sender: its recipient, and its envelope sender (mail
  /// from that address never causes a notice). Empty: the notice goes to the sender, from the null sender.
  std::string postmaster, postmaster_from;
  bool headers_only = false;  // whatever RET says
};

struct DsnSettings {
  std::string hostname;                // myhostname
  std::string origin;                  // myorigin
  std::string mail_name = "Penstock";  // mail_name
  // bounce_size_limit: a longer original is returned as its header only
  std::uint64_t size_limit = 50000;
  bool redact_requiretls = true;  // requiretls_redact_dsn
  // Used when the template has no From; the origin is appended to an address without a domain.
  std::string from = "Mail Delivery System <MAILER-DAEMON>";
  bool threaded = false;  // enable_threaded_bounces: In-Reply-To and References name the original
  // The texts are expanded already. plain: ASCII, for a report in UTF-8 that the other template's character set does
  // not fit.
  NoticeTemplates templates = builtin_notice_templates(), plain = builtin_notice_templates();
};

struct DsnReport {
  // The sender is "", the recipient is the original sender (or as the request says); the caller fills queue_id,
  // client, facts.
  Envelope envelope;
  std::string before;  // CRLF lines
  // How many bytes of the original content, from its start, come between before and after.
  std::uint64_t original_bytes = 0;
  std::string after;
};

inline constexpr std::size_t kMaxText = 900;

/// The recipients for which a report of this kind is due. None for a message from the null sender. RFC 3461's NOTIFY
/// is obeyed; without the parameter, failure and delay are reported and success is not.
std::vector<DsnRecipient> dsn_due(DsnKind kind, const Envelope& original, std::span<const DsnRecipient> recipients);

/// request.recipients must not be empty. The original's sender must not be null, unless the report is for the
/// postmaster.
DsnReport build_dsn(const DsnRequest& request, const DsnSettings& settings, Random& random);

}  // namespace pen::mail
