#pragma once
/// What somebody else's mail system says of mail that we sent: a notice about its delivery, or a reader's complaint.
///
/// Use:     reader.h makes one of a message's content.
/// Form:    texts are from outside: one line each, without control bytes, cut at kMaxText; addresses are without angle
///          brackets and may be anything.
/// Pure data; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pen::returned {

inline constexpr std::size_t kMaxText = 1000;
// A notice of ours has at most this many recipients per message too; what comes behind them is counted.
inline constexpr std::size_t kMostRecipients = 200;
inline constexpr std::size_t kMostDomains = 20;  // of a feedback report

/// What a notice says of a recipient (RFC 3464 section 2.3.3).
enum class Action : std::uint8_t { failed, delayed, delivered, relayed, expanded };
std::string_view action_name(Action action);

struct ReturnedRecipient {
  std::string original;  // as the sender knew him; empty: not said
  std::string final;     // as he was called in the end; empty: not said
  Action action = Action::failed;
  std::string status;      // "5.1.1"
  std::string diagnostic;  // "550 5.1.1 No such user"
  std::string remote_mta;
  bool operator==(const ReturnedRecipient&) const = default;
  /// The recipient that the notice is about, for people.
  const std::string& address() const { return original.empty() ? final : original; }
};

enum class Form : std::uint8_t { dsn, qmail, exim };

/// A notice: RFC 3464, or what some programs send in its place.
struct Notice {
  Form form = Form::dsn;
  std::string reporting_mta, envid;
  std::vector<ReturnedRecipient> recipients;
  std::size_t more = 0;  // beyond kMostRecipients
};

enum class FeedbackType : std::uint8_t { abuse, fraud, virus, not_spam, opt_out, auth_failure, other };
/// The words of RFC 5965 and 6591: "not-spam".
std::string_view feedback_name(FeedbackType type);

/// A feedback report: RFC 5965, and the fields of RFC 6591.
struct Feedback {
  FeedbackType type = FeedbackType::other;
  std::string user_agent;
  std::string mail_from;                // "": none said, or the null sender
  std::vector<std::string> recipients;  // Original-Rcpt-To; often redacted
  std::string source_ip;                // numeric; empty: none, or malformed
  std::vector<std::string> domains;     // Reported-Domain
  std::string arrival;                  // a date in the words of the report
  std::string reporting_mta;
  std::uint64_t incidents = 0;                // 0: not said
  std::string auth_failure, delivery_result;  // RFC 6591: "dmarc", "reject"
};

/// What is left of the message that came back.
struct Original {
  std::string message_id;   // with its angle brackets
  std::string return_path;  // its sender as the last host had it
  std::string from, to;     // header fields
};

struct Report {
  std::optional<Notice> notice;
  std::optional<Feedback> feedback;
  Original original;
  bool parsed() const { return notice || feedback; }
};

}  // namespace pen::returned
