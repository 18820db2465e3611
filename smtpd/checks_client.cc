/// Restrictions that need neither DNS nor tables, and those on the HELO name.
#include <fmt/format.h>

#include "lib/mail/address.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
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

Answer client_named(Evaluation& e, NameState state, std::string_view what) {
  if (state == NameState::ok) return Answer::dunno;
  return e.refuse(state == NameState::temporary ? 450 : e.policy.settings.unknown_client_reject_code, "4.7.25", Name{},
                  fmt::format("Client host rejected: cannot find your {}, [{}]", what, e.subject.client->peer.address));
}

Answer valid_helo(Evaluation& e) {
  const std::string& helo = e.subject.client->helo;
  if (helo.empty()) return Answer::dunno;
  const auto& s = e.policy.settings;
  // RFC 6531 section 3.7.1: A-labels here, with SMTPUTF8 too.
  const auto name = without_dot(helo);
  const bool valid = helo.front() == '[' ? is_literal(helo) : mail::valid_hostname(name) || mail::valid_address(name);
  if (valid) return Answer::dunno;
  return e.refuse(s.invalid_hostname_reject_code, "5.5.2", e.helo_label(), "Invalid name");
}

}  // namespace
Answer permit(Evaluation& e, const Restriction& r, const Name& name) { return e.permits(r.name, name); }

Answer reject(Evaluation& e, const Restriction&, const Name& name) {
  return e.refuse(e.policy.settings.reject_code, "5.7.1", name, "Access denied");
}

Answer defer(Evaluation& e, const Restriction&, const Name& name) {
  return e.refuse(e.policy.settings.defer_code, "4.3.2", name, "Try again later");
}

Answer defer_if_permit(Evaluation& e, const Restriction&, const Name& name) {
  return e.refuse_if_permitted(450, "4.7.0", name, "defer_if_permit requested");
}

Answer defer_if_reject(Evaluation& e, const Restriction&, const Name& name) {
  return e.defer_if_refused("4.7.0", name, "defer_if_reject requested");
}

async::Task<Answer> sleep(Evaluation& e, const Restriction& r, const Name&) {
  (void)co_await e.tools.loop.sleep(r.pause, {.cancel = e.tools.stopping});  // cut short when the process ends
  co_return Answer::dunno;
}

Answer warn_if_reject(Evaluation& e, const Restriction&, const Name&) {
  e.warn_next = true;
  return Answer::dunno;
}

async::Task<Answer> restriction_class(Evaluation& e, const Restriction& r, const Name& name) {
  return e.run(e.policy.classes[r.class_index], name);
}

Answer unsupported(Evaluation& e, const Restriction& r, const Name&) {
  const config::RestrictionName* known = config::find_restriction(r.name);
  return e.server_error(known ? config::cannot_act(*known) : r.name);
}

Answer unknown(Evaluation& e, const Restriction& r, const Name&) {
  return e.server_error(fmt::format("unknown smtpd restriction: \"{}\"", r.name));
}

Answer reject_unauth_pipelining(Evaluation& e, const Restriction&, const Name& name) {
  if (!e.subject.client->improper_pipelining) return Answer::dunno;
  return e.refuse(503, "5.5.0", name, "Improper use of SMTP command pipelining", mail::ErrorClass::protocol);
}

Answer reject_multi_recipient_bounce(Evaluation& e, const Restriction&, const Name& name) {
  // The recipient of this RCPT is not counted yet.
  const std::size_t recipients = e.subject.recipient_count + (std::string_view(e.subject.where) == "RCPT" ? 1 : 0);
  if (e.subject.sender != "" || recipients <= 1) return Answer::dunno;
  return e.refuse(e.policy.settings.multi_recipient_bounce_reject_code, "5.5.3", name, "Multi-recipient bounce");
}

Answer reject_plaintext_session(Evaluation& e, const Restriction&, const Name&) {
  if (e.subject.client->tls) return Answer::dunno;
  return e.refuse(e.policy.settings.plaintext_reject_code, "4.7.1", Name{}, "Session encryption is required");
}

// The client.

Answer permit_mynetworks(Evaluation& e, const Restriction& r, const Name&) {
  const Peer& peer = e.subject.client->peer;
  if (!peer.trusted) return e.table_problem(peer.shown());
  return *peer.trusted ? e.permits(r.name, e.client_name()) : Answer::dunno;
}

Answer permit_inet_interfaces(Evaluation& e, const Restriction& r, const Name&) {
  return e.subject.client->peer.own_address ? e.permits(r.name, e.client_name()) : Answer::dunno;
}

Answer reject_unknown_client_hostname(Evaluation& e, const Restriction&, const Name&) {
  return client_named(e, e.subject.client->peer.name_state, "hostname");
}

Answer reject_unknown_reverse_client_hostname(Evaluation& e, const Restriction&, const Name&) {
  return client_named(e, e.subject.client->peer.reverse_state, "reverse hostname");
}

Answer reject_unknown_forward_client_hostname(Evaluation& e, const Restriction&, const Name&) {
  return client_named(e, e.subject.client->peer.forward_state, "hostname");
}

// Its HELO name.

Answer reject_invalid_helo_hostname(Evaluation& e, const Restriction&, const Name&) { return valid_helo(e); }

Answer reject_non_fqdn_helo_hostname(Evaluation& e, const Restriction&, const Name&) {
  const std::string& helo = e.subject.client->helo;
  if (helo.empty()) return Answer::dunno;
  const auto& s = e.policy.settings;
  const bool full = helo.front() == '[' ? is_literal(helo) : mail::fully_qualified(without_dot(helo));
  if (full) return Answer::dunno;
  return e.refuse(s.non_fqdn_reject_code, "5.5.2", e.helo_label(), "need fully-qualified hostname");
}

async::Task<Answer> reject_unknown_helo_hostname(Evaluation& e, const Restriction&, const Name&) {
  const std::string helo = e.subject.client->helo;
  if (helo.empty()) co_return Answer::dunno;
  if (helo.front() == '[') co_return valid_helo(e);
  const NameState state = co_await e.tools.names.host(std::string(without_dot(helo)), {});
  const auto& s = e.policy.settings;
  if (state == NameState::missing)
    co_return e.refuse(s.unknown_hostname_reject_code, "4.7.1", e.helo_label(), "Host not found");
  if (state == NameState::temporary) {
    if (s.unknown_helo_hostname_tempfail_action == config::TempfailAction::defer)
      co_return e.refuse(450, "4.7.1", e.helo_label(), "Host not found");
    co_return e.refuse_if_permitted(450, "4.7.1", e.helo_label(), "Host not found");
  }
  co_return Answer::dunno;
}

}  // namespace pen::smtpd::restrictions
