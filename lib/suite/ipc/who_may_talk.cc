#include "lib/suite/ipc/who_may_talk.h"

#include <algorithm>
#include <array>

namespace pen::ipc {
namespace {

constexpr std::string_view kAll = "*";

// A program that is missing in a row cannot do its work; in a row with one too many, an attacker in that program can
// do more.
constexpr std::array kPartners = {
    // conversation, servers, clients, users
    Partners{"enqueue", "qmgr", "smtpd pickup qmqpd bounce verify local tlsrpt dmarcrpt"},
    Partners{"queue", "qmgr", "penapi smtpd", true},
    Partners{"destinations", "qmgr", "penapi", true},
    Partners{"route", "trivial-rewrite", "qmgr"},
    Partners{"delivery", "smtp lmtp local virtual pipe error retry discard", "qmgr"},
    Partners{"bounce", "bounce", "qmgr"},
    Partners{"session_errors", "bounce", "smtpd smtp lmtp"},
    Partners{"sessions", "anvil", "smtpd qmgr penapi"},
    Partners{"clients", "anvil", "smtpd"},
    Partners{"sender_memory", "anvil", "smtpd"},
    Partners{"suppression", "anvil", "smtpd qmgr"},
    Partners{"suppression_orders", "anvil", "penapi"},
    Partners{"tls_report", "tlsrpt", "smtp trivial-rewrite"},
    Partners{"dmarc_report", "dmarcrpt", "smtpd"},
    Partners{"verify", "verify", "smtpd"},
    Partners{"probed", "verify", "qmgr"},
    Partners{"events", "penevents", kAll},
    Partners{"logins", "cyrus", "smtpd"},
    Partners{"tls_server_keys", "keys", "smtpd"},
    Partners{"tls_client_keys", "keys", "smtp lmtp"},
    Partners{"dkim_keys", "keys", "smtpd pickup qmqpd bounce"},
    Partners{"trace", "smtpd smtp lmtp", ""},
};

template <class... Fields>
constexpr std::uint16_t set_of(Fields... fields) {
  return static_cast<std::uint16_t>((0U | ... | static_cast<unsigned>(fields)));
}

using enum EnvelopeField;
constexpr std::array kCarriers = {
    Carrier{"smtpd", set_of(filter, hold, verp, tenant, priority, release, signer)},
    Carrier{"qmqpd", set_of(filter, hold, tenant, priority, signer)},
    Carrier{"pickup", set_of(error_transport, filter, hold, traced, probe, verp, tenant, priority, release, signer)},
    Carrier{"local", set_of(error_transport, transport, tenant, priority, signer)},
    Carrier{"bounce", set_of(filter, hold, discharges, tenant, priority, signer)},
    Carrier{"verify", set_of(verification)},
    Carrier{"tlsrpt", set_of()},
    Carrier{"dmarcrpt", set_of()},
};

bool lists(std::string_view names, std::string_view program) {
  if (names == kAll) return true;
  while (!names.empty()) {
    const auto end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == program) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

const Partners* row_of(std::string_view conversation) {
  const auto at = std::ranges::find(kPartners, conversation, &Partners::conversation);
  return at == kPartners.end() ? nullptr : &*at;
}

EnvelopeField field_of(mail::Purpose purpose) {
  switch (purpose) {
    case mail::Purpose::mail:
    case mail::Purpose::traced:
      return traced;
    case mail::Purpose::probe:
      return probe;
    case mail::Purpose::verification:
      return verification;
  }
  return verification;
}

}  // namespace

std::span<const Partners> all_partners() { return kPartners; }
std::span<const Carrier> all_carriers() { return kCarriers; }

bool may_hold(std::string_view program, std::string_view conversation) {
  const Partners* row = row_of(conversation);
  return row != nullptr && !program.empty() && lists(row->clients, program);
}

bool open_to_users(std::string_view conversation) {
  const Partners* row = row_of(conversation);
  return row != nullptr && row->users;
}

bool may_talk(std::string_view client, std::string_view server) {
  return std::ranges::any_of(
      kPartners, [&](const Partners& row) { return lists(row.servers, server) && lists(row.clients, client); });
}

Carrier carrier_of(std::string_view program) {
  const auto at = std::ranges::find(kCarriers, program, &Carrier::program);
  return at == kCarriers.end() ? Carrier{program, 0} : *at;
}

std::string_view forbidden_field(const mail::Envelope& envelope, const Carrier& carrier) {
  if (!envelope.transport.empty()) {
    const auto kind = envelope.transport.starts_with("error:") ? error_transport : transport;
    if (!carrier.may(kind)) return name_of(kind);
  }
  if (envelope.purpose != mail::Purpose::mail && !carrier.may(field_of(envelope.purpose)))
    return name_of(field_of(envelope.purpose));
  if (!envelope.filter.empty() && !carrier.may(filter)) return name_of(filter);
  if (envelope.hold && !carrier.may(hold)) return name_of(hold);
  if (!envelope.discharges.empty() && !carrier.may(discharges)) return name_of(discharges);
  if (!envelope.verp.empty() && !carrier.may(verp)) return name_of(verp);
  if (!envelope.tenant.empty() && !carrier.may(tenant)) return name_of(tenant);
  if (envelope.priority != 0 && !carrier.may(priority)) return name_of(priority);
  if ((envelope.release != WallTime{} || !envelope.release_request.empty()) && !carrier.may(release))
    return name_of(release);
  if (!envelope.signer.empty() && !carrier.may(signer)) return name_of(signer);
  return {};
}

std::string refused_field(const Carrier& carrier, std::string_view field) {
  return "an envelope of " + std::string(carrier.program) + " may not have this: " + std::string(field);
}

std::string_view name_of(EnvelopeField field) {
  switch (field) {
    case error_transport:
      return "transport error:";
    case transport:
      return "transport";
    case filter:
      return "filter";
    case hold:
      return "hold";
    case traced:
      return "purpose traced";
    case probe:
      return "purpose probe";
    case verification:
      return "purpose verification";
    case discharges:
      return "discharges";
    case verp:
      return "verp";
    case tenant:
      return "tenant";
    case priority:
      return "priority";
    case release:
      return "release";
    case signer:
      return "signer";
  }
  return "?";
}

}  // namespace pen::ipc
