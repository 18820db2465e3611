#pragma once
/// The labels of metrics.def: each a small fixed set of values, so that no peer can add a series.
///
/// Use:     metrics::smtpd_rejects.add(Stage::rcpt, code_of(reply), Reason::relay);
/// Pure; any thread.
#include <array>
#include <cstdint>
#include <string_view>

namespace pen::metrics {

/// How far a session was.
enum class Stage : std::uint8_t { connect, helo, starttls, auth, mail, rcpt, data, end_of_message, other };
/// Why a client was refused.
enum class Reason : std::uint8_t {
  relay,
  unknown_user,
  sender,
  client,
  rbl,
  policy,
  milter,
  sasl,
  tls,
  rate,
  protocol,
  content,
  resources,
  other
};
/// Reply codes; the rare ones of a class share its last value.
enum class Code : std::uint8_t {
  c421,
  c450,
  c451,
  c452,
  c454,
  c4xx,
  c500,
  c501,
  c502,
  c503,
  c504,
  c521,
  c530,
  c535,
  c538,
  c550,
  c551,
  c552,
  c553,
  c554,
  c555,
  c5xx
};
enum class TlsVersion : std::uint8_t { tls10, tls11, tls12, tls13, other };
/// What became of a recipient's attempt.
enum class Fate : std::uint8_t { delivered, deferred, bounced, expired };
/// Of a delivery, as in delays= of the log: before the queue manager, in it, setting up, transmission.
enum class Phase : std::uint8_t { before_queue_manager, queue_manager, connection_setup, transmission };
enum class ReplyClass : std::uint8_t { positive, transient, permanent };
enum class Connected : std::uint8_t { ok, timed_out, refused, unreachable, other };
enum class Answer : std::uint8_t { found, none, failed };
enum class Agent : std::uint8_t { smtp, lmtp, local, virtual_, pipe, error, other };
enum class Notice : std::uint8_t { failure, delay, success };
/// What notices of others say, as Action of lib/mail/returned, and of those that cannot be read.
enum class ReturnedAs : std::uint8_t { failed, delayed, delivered, relayed, expanded, unknown };
/// As FeedbackType of lib/mail/returned.
enum class Complaint : std::uint8_t { abuse, fraud, virus, not_spam, opt_out, auth_failure, other };
/// As Reason of lib/suite/ipc/suppression.h.
enum class SuppressedFor : std::uint8_t { bounce, returned, complaint, order };
/// Where the suppression list has stopped a recipient.
enum class StoppedAt : std::uint8_t { rcpt, queue };
/// An enhanced status code (RFC 3463) of a refusal; the rest of its values have no names here.
enum class Enhanced : std::uint8_t { none, other };

template <class L>
struct Label;

// What this mail system says, and what policy servers and filters mostly say.
#define PEN_ENHANCED(c)                                                                                           \
  c "0.0", c "1.0", c "1.1", c "1.2", c "1.3", c "1.6", c "1.7", c "1.8", c "1.10", c "2.0", c "2.1", c "2.2",    \
      c "2.3", c "3.0", c "3.1", c "3.2", c "3.4", c "3.5", c "4.0", c "4.1", c "4.2", c "4.3", c "4.4", c "4.6", \
      c "5.0", c "5.1", c "5.2", c "5.3", c "5.4", c "5.5", c "5.6", c "6.0", c "6.7", c "7.0", c "7.1", c "7.5", \
      c "7.8", c "7.9", c "7.10", c "7.11", c "7.14", c "7.23", c "7.24", c "7.25", c "7.26", c "7.27"
#define PEN_LABEL(type, word, ...)                                                 \
  template <>                                                                      \
  struct Label<type> {                                                             \
    static constexpr std::string_view name = word;                                 \
    static constexpr auto values = std::to_array<std::string_view>({__VA_ARGS__}); \
  };
PEN_LABEL(Stage, "stage", "connect", "helo", "starttls", "auth", "mail", "rcpt", "data", "end_of_message", "other")
PEN_LABEL(Reason, "reason", "relay", "unknown_user", "sender", "client", "rbl", "policy", "milter", "sasl", "tls",
          "rate", "protocol", "content", "resources", "other")
PEN_LABEL(Code, "code", "421", "450", "451", "452", "454", "4xx", "500", "501", "502", "503", "504", "521", "530",
          "535", "538", "550", "551", "552", "553", "554", "555", "5xx")
PEN_LABEL(TlsVersion, "version", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3", "other")
PEN_LABEL(Fate, "result", "delivered", "deferred", "bounced", "expired")
PEN_LABEL(Phase, "phase", "before_queue_manager", "queue_manager", "connection_setup", "transmission")
PEN_LABEL(ReplyClass, "class", "positive", "transient", "permanent")
PEN_LABEL(Connected, "result", "ok", "timed_out", "refused", "unreachable", "other")
PEN_LABEL(Answer, "answer", "found", "none", "failed")
PEN_LABEL(Agent, "agent", "smtp", "lmtp", "local", "virtual", "pipe", "error", "other")
PEN_LABEL(Notice, "kind", "failure", "delay", "success")
PEN_LABEL(ReturnedAs, "action", "failed", "delayed", "delivered", "relayed", "expanded", "unknown")
PEN_LABEL(Complaint, "type", "abuse", "fraud", "virus", "not_spam", "opt_out", "auth_failure", "other")
PEN_LABEL(SuppressedFor, "reason", "bounce", "returned", "complaint", "order")
PEN_LABEL(StoppedAt, "at", "rcpt", "queue")
PEN_LABEL(Enhanced, "dsn", "none", "other", PEN_ENHANCED("4."), PEN_ENHANCED("5."))
#undef PEN_ENHANCED
#undef PEN_LABEL

/// The code of a reply line: its first three characters. One that refuses nothing is 5xx: there is none.
Code code_of(std::string_view reply);
/// Of a reply that refuses: of the code behind the three digits.
Enhanced enhanced_of(std::string_view reply);
/// "TLSv1.3", as OpenSSL names them.
TlsVersion version_of(std::string_view protocol);
/// Of a command's name or of what stands in the log after "lost connection after".
Stage stage_of(std::string_view command);
/// The name of a delivery program in master.cf.
Agent agent_of(std::string_view program);

}  // namespace pen::metrics
