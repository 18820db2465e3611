// The names of Debian's prometheus-postfix-exporter (kumina/postfix_exporter 0.3.0), for dashboards that exist. Only
// figures of the same meaning are here; docs/metrics.md lists them.
#include <fmt/format.h>

#include "penapi/exposition.h"

namespace pen::api {

using metrics::Agent;
using metrics::Fate;
using metrics::Id;
using metrics::Reason;
using metrics::Sums;

namespace {

template <class L>
constexpr std::size_t at(L value) {
  return static_cast<std::size_t>(value);
}

void counter(Exposition& out, std::string_view name, std::string_view help, std::uint64_t value) {
  const std::string full = "postfix_" + std::string(name);
  out.family(full, help, "counter");
  out.sample(full, {}, value);
}

/// Refusals that Postfix's smtpd logs as "reject:", by code. It does not so log broken commands, failed logins, what
/// milters refuse, or the end of a session.
std::uint64_t rejects(const Sums& sums, std::size_t code) {
  std::uint64_t total = 0;
  for (std::size_t stage = 0; stage < metrics::Label<metrics::Stage>::values.size(); ++stage)
    for (std::size_t reason = 0; reason < metrics::Label<Reason>::values.size(); ++reason) {
      const auto r = static_cast<Reason>(reason);
      if (r == Reason::protocol || r == Reason::sasl || r == Reason::milter || r == Reason::rate || r == Reason::other)
        continue;
      total += count_of(sums, Id::smtpd_rejects, {stage, code, reason});
    }
  return total;
}

std::uint64_t over_all(const Sums& sums, Id id) {
  const metrics::Family& f = metrics::family(id);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < f.series; ++i) total += sums[f.first + i];
  return total;
}

void write_delays(Exposition& out, const Sums& sums, std::string_view name, Agent agent) {
  const metrics::Family& f = metrics::family(Id::delivery_delay);
  std::vector<double> bounds;
  for (const std::uint64_t us : f.bounds) bounds.push_back(static_cast<double>(us) / 1e6);
  out.family(name, "Message processing time in seconds.", "histogram");
  for (std::size_t phase = 0; phase < metrics::Label<metrics::Phase>::values.size(); ++phase) {
    const auto series = at(agent) * metrics::Label<metrics::Phase>::values.size() + phase;
    const auto counts = std::span(sums).subspan(f.first + series * f.slots_each(), f.slots_each());
    out.histogram(name, {{"stage", std::string(metrics::Label<metrics::Phase>::values[phase])}}, bounds,
                  counts.first(bounds.size() + 1), static_cast<double>(counts.back()) / 1e6);
  }
}

void write_sizes(Exposition& out, const Sums& sums, std::string_view name, std::string_view help, Id id) {
  const metrics::Family& f = metrics::family(id);
  const std::vector<double> bounds(f.bounds.begin(), f.bounds.end());
  const auto counts = std::span(sums).subspan(f.first, f.slots_each());
  out.family(name, help, "histogram");
  out.histogram(name, {}, bounds, counts.first(bounds.size() + 1), static_cast<double>(counts.back()));
}

void write_queue(Exposition& out, const QueueView& queue) {
  const auto as_double = [](const auto& bounds) { return std::vector<double>(bounds.begin(), bounds.end()); };
  out.family("postfix_showq_message_size_bytes", "Size of messages in the queue, in bytes.", "histogram");
  for (std::size_t i = 0; i < kPlaces; ++i)
    out.histogram("postfix_showq_message_size_bytes", {{"queue", std::string(ipc::queue::kPlaceNames[i])}},
                  as_double(kSizes), queue.states[i].sizes, static_cast<double>(queue.states[i].bytes));
  out.family("postfix_showq_message_age_seconds", "Age of messages in the queue, in seconds.", "histogram");
  for (std::size_t i = 0; i < kPlaces; ++i)
    out.histogram("postfix_showq_message_age_seconds", {{"queue", std::string(ipc::queue::kPlaceNames[i])}},
                  as_double(kWaits), queue.states[i].ages, queue.states[i].age_sum);
}

void write_queue_manager(Exposition& out, const Sums& sums) {
  counter(out, "cleanup_messages_processed_total", "Messages that were taken into the queue.",
          count_of(sums, Id::queue_messages_accepted));
  // The exporters have this name with its slip of the pen.
  write_sizes(out, sums, "postfix_qmgr_messages_inserted_receipients",
              "Number of recipients of messages that became active.", Id::queue_activated_recipients);
  write_sizes(out, sums, "postfix_qmgr_messages_inserted_size_bytes", "Size of messages that became active, in bytes.",
              Id::queue_activated_bytes);
  counter(out, "qmgr_messages_removed_total", "Messages removed from the queue.",
          count_of(sums, Id::queue_messages_removed));
  counter(out, "qmgr_messages_expired_total", "Messages returned because they were too old.",
          count_of(sums, Id::queue_messages_expired));
}

void write_smtpd(Exposition& out, const Sums& sums) {
  counter(out, "smtpd_connects_total", "Connections of clients.", count_of(sums, Id::smtpd_connections));
  counter(out, "smtpd_disconnects_total", "Connections of clients that have ended.",
          count_of(sums, Id::smtpd_disconnections));
  counter(out, "smtpd_forward_confirmed_reverse_dns_errors_total",
          "Clients whose name does not resolve to their address.", count_of(sums, Id::smtpd_unconfirmed_names));
  counter(out, "smtpd_sasl_authentication_failures_total", "Failed attempts to log in.",
          count_of(sums, Id::smtpd_authentication_failures));
  out.family("postfix_smtpd_connections_lost_total", "Connections lost, by the command before.", "counter");
  static constexpr std::string_view kAfter[] = {"CONNECT", "EHLO", "STARTTLS",       "AUTH",   "MAIL",
                                                "RCPT",    "DATA", "END-OF-MESSAGE", "UNKNOWN"};
  for (std::size_t i = 0; i < std::size(kAfter); ++i)
    out.sample("postfix_smtpd_connections_lost_total", {{"after_stage", std::string(kAfter[i])}},
               count_of(sums, Id::smtpd_connections_lost, {i}));
  out.family("postfix_smtpd_messages_processed_total", "Messages of clients that were taken.", "counter");
  const std::uint64_t with_login = count_of(sums, Id::smtpd_messages_authenticated);
  out.sample("postfix_smtpd_messages_processed_total", {{"sasl_method", ""}},
             count_of(sums, Id::smtpd_messages) - std::min(count_of(sums, Id::smtpd_messages), with_login));
  out.sample("postfix_smtpd_messages_processed_total", {{"sasl_method", "any"}}, with_login);
  out.family("postfix_smtpd_messages_rejected_total", "Refusals of clients' commands, by reply code.", "counter");
  for (std::size_t code = 0; code < metrics::Label<metrics::Code>::values.size(); ++code)
    if (const std::uint64_t n = rejects(sums, code))
      out.sample("postfix_smtpd_messages_rejected_total",
                 {{"code", std::string(metrics::Label<metrics::Code>::values[code])}}, n);
  counter(out, "smtpd_tls_connections_total", "TLS sessions with clients.", over_all(sums, Id::smtpd_tls_sessions));
}

void write_smtp(Exposition& out, const Sums& sums) {
  out.family("postfix_smtp_messages_processed_total", "Recipients that the SMTP client tried, by result.", "counter");
  for (const auto& [fate, status] :
       {std::pair{Fate::delivered, "sent"}, std::pair{Fate::deferred, "deferred"}, std::pair{Fate::bounced, "bounced"}})
    out.sample("postfix_smtp_messages_processed_total", {{"status", status}},
               count_of(sums, Id::delivery_attempts, {at(Agent::smtp), at(fate)}));
  counter(out, "smtp_deferred_messages_total", "Recipients that the SMTP client put off.",
          count_of(sums, Id::delivery_attempts, {at(Agent::smtp), at(Fate::deferred)}));
  // The same, as Debian's version of the exporter calls it; as a counter it would have to end in _total.
  out.family("postfix_smtp_status_deferred", "Recipients that the SMTP client put off.", "untyped");
  out.sample("postfix_smtp_status_deferred", {},
             count_of(sums, Id::delivery_attempts, {at(Agent::smtp), at(Fate::deferred)}));
  counter(out, "smtp_connection_timed_out_total", "Connections to servers that timed out.",
          count_of(sums, Id::smtp_connections, {at(metrics::Connected::timed_out)}));
  counter(out, "smtp_tls_connections_total", "TLS sessions with servers.", over_all(sums, Id::smtp_tls_sessions));
}

}  // namespace

void write_as_postfix(Exposition& out, const Sums& sums, const Seen& seen) {
  out.family("postfix_up", "Whether the queue manager answers.", "gauge");
  out.sample("postfix_up", {{"path", "penapi"}}, std::uint64_t{seen.qmgr.empty() ? 0U : 1U});
  if (seen.queue->looked != WallTime{}) write_queue(out, *seen.queue);
  write_queue_manager(out, sums);
  write_smtpd(out, sums);
  write_smtp(out, sums);
  counter(out, "virtual_delivered_total", "Recipients delivered to virtual mailboxes.",
          count_of(sums, Id::delivery_attempts, {at(Agent::virtual_), at(Fate::delivered)}));
  counter(out, "bounce_non_delivery_notification_total", "Notices of failure that were made.",
          count_of(sums, Id::notices, {at(metrics::Notice::failure)}));
  write_delays(out, sums, "postfix_smtp_delivery_delay_seconds", Agent::smtp);
  write_delays(out, sums, "postfix_lmtp_delivery_delay_seconds", Agent::lmtp);
  write_delays(out, sums, "postfix_pipe_delivery_delay_seconds", Agent::pipe);
}

}  // namespace pen::api
