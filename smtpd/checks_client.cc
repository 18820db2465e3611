/// Restrictions that need neither DNS nor tables, and those on the HELO name.
#include <fmt/format.h>

#include "lib/mail/address.h"
#include "smtpd/checks.h"

namespace pen::smtpd {

Checks::Answer Checks::permit(const Restriction& r, const Name& name) { return permits(r.name, name); }

Checks::Answer Checks::reject(const Restriction&, const Name& name) {
  return refuse(policy_.settings.reject_code, "5.7.1", name, "Access denied");
}

Checks::Answer Checks::defer(const Restriction&, const Name& name) {
  return refuse(policy_.settings.defer_code, "4.3.2", name, "Try again later");
}

Checks::Answer Checks::defer_if_permit(const Restriction&, const Name& name) {
  return refuse_if_permitted(450, "4.7.0", name, "defer_if_permit requested");
}

Checks::Answer Checks::defer_if_reject(const Restriction&, const Name& name) {
  return defer_if_refused("4.7.0", name, "defer_if_reject requested");
}

async::Task<Checks::Answer> Checks::sleep(const Restriction& r, const Name&) {
  (void)co_await tools_.loop.sleep(r.pause, {.cancel = tools_.stopping});  // cut short when the process ends
  co_return Answer::dunno;
}

Checks::Answer Checks::warn_if_reject(const Restriction&, const Name&) {
  warn_next_ = true;
  return Answer::dunno;
}

async::Task<Checks::Answer> Checks::restriction_class(const Restriction& r, const Name& name) {
  return run(policy_.classes[r.class_index], name);
}

Checks::Answer Checks::unsupported(const Restriction& r, const Name&) {
  const config::RestrictionName* known = config::find_restriction(r.name);
  return server_error(known ? config::cannot_act(*known) : r.name);
}

Checks::Answer Checks::unknown(const Restriction& r, const Name&) {
  return server_error(fmt::format("unknown smtpd restriction: \"{}\"", r.name));
}

Checks::Answer Checks::reject_unauth_pipelining(const Restriction&, const Name& name) {
  if (!subject_.client->improper_pipelining) return Answer::dunno;
  return refuse(503, "5.5.0", name, "Improper use of SMTP command pipelining", mail::ErrorClass::protocol);
}

Checks::Answer Checks::reject_multi_recipient_bounce(const Restriction&, const Name& name) {
  // The recipient of this RCPT is not counted yet.
  const std::size_t recipients = subject_.recipient_count + (std::string_view(subject_.where) == "RCPT" ? 1 : 0);
  if (subject_.sender != "" || recipients <= 1) return Answer::dunno;
  return refuse(policy_.settings.multi_recipient_bounce_reject_code, "5.5.3", name, "Multi-recipient bounce");
}

Checks::Answer Checks::reject_plaintext_session(const Restriction&, const Name&) {
  if (subject_.client->tls) return Answer::dunno;
  return refuse(policy_.settings.plaintext_reject_code, "4.7.1", Name{}, "Session encryption is required");
}

// The client.

Checks::Answer Checks::permit_mynetworks(const Restriction& r, const Name&) {
  const Peer& peer = subject_.client->peer;
  if (!peer.trusted) return table_problem(peer.shown());
  return *peer.trusted ? permits(r.name, client_name()) : Answer::dunno;
}

Checks::Answer Checks::permit_inet_interfaces(const Restriction& r, const Name&) {
  return subject_.client->peer.own_address ? permits(r.name, client_name()) : Answer::dunno;
}

Checks::Answer Checks::client_named(NameState state, std::string_view what) {
  if (state == NameState::ok) return Answer::dunno;
  return refuse(state == NameState::temporary ? 450 : policy_.settings.unknown_client_reject_code, "4.7.25", Name{},
                fmt::format("Client host rejected: cannot find your {}, [{}]", what, subject_.client->peer.address));
}

Checks::Answer Checks::reject_unknown_client_hostname(const Restriction&, const Name&) {
  return client_named(subject_.client->peer.name_state, "hostname");
}

Checks::Answer Checks::reject_unknown_reverse_client_hostname(const Restriction&, const Name&) {
  return client_named(subject_.client->peer.reverse_state, "reverse hostname");
}

Checks::Answer Checks::reject_unknown_forward_client_hostname(const Restriction&, const Name&) {
  return client_named(subject_.client->peer.forward_state, "hostname");
}

// Its HELO name.

Checks::Answer Checks::reject_invalid_helo_hostname(const Restriction&, const Name&) { return valid_helo(); }

namespace {

/// The root's dot at the end is left out: many hosts have it there.
std::string_view without_dot(std::string_view name) {
  return name.ends_with('.') && !name.ends_with("..") ? name.substr(0, name.size() - 1) : name;
}
/// An address literal as RFC 5321 section 4.1.3 has it.
bool is_literal(std::string_view name) {
  return mail::literal_address(name).has_value() &&
         (name.find(':') == std::string_view::npos || istarts_with(name, "[ipv6:"));
}

}  // namespace

Checks::Answer Checks::valid_helo() {
  const std::string& helo = subject_.client->helo;
  if (helo.empty()) return Answer::dunno;
  const auto& s = policy_.settings;
  // RFC 6531 section 3.7.1: A-labels here, with SMTPUTF8 too.
  const auto name = without_dot(helo);
  const bool valid = helo.front() == '[' ? is_literal(helo) : mail::valid_hostname(name) || mail::valid_address(name);
  if (valid) return Answer::dunno;
  return refuse(s.invalid_hostname_reject_code, "5.5.2", helo_label(), "Invalid name");
}

Checks::Answer Checks::reject_non_fqdn_helo_hostname(const Restriction&, const Name&) {
  const std::string& helo = subject_.client->helo;
  if (helo.empty()) return Answer::dunno;
  const auto& s = policy_.settings;
  const bool full = helo.front() == '[' ? is_literal(helo) : mail::fully_qualified(without_dot(helo));
  if (full) return Answer::dunno;
  return refuse(s.non_fqdn_reject_code, "5.5.2", helo_label(), "need fully-qualified hostname");
}

async::Task<Checks::Answer> Checks::reject_unknown_helo_hostname(const Restriction&, const Name&) {
  const std::string helo = subject_.client->helo;
  if (helo.empty()) co_return Answer::dunno;
  if (helo.front() == '[') co_return valid_helo();
  const NameState state = co_await tools_.names.host(std::string(without_dot(helo)), {});
  const auto& s = policy_.settings;
  if (state == NameState::missing)
    co_return refuse(s.unknown_hostname_reject_code, "4.7.1", helo_label(), "Host not found");
  if (state == NameState::temporary) {
    if (s.unknown_helo_hostname_tempfail_action == config::TempfailAction::defer)
      co_return refuse(450, "4.7.1", helo_label(), "Host not found");
    co_return refuse_if_permitted(450, "4.7.1", helo_label(), "Host not found");
  }
  co_return Answer::dunno;
}

}  // namespace pen::smtpd
