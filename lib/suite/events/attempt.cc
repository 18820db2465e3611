#include "lib/suite/events/attempt.h"

namespace pen::events {
namespace {

Type type_of(const Attempt& a) {
  if (a.status.action == mail::Action::deferred) return Type::deferred;
  if (a.status.action != mail::Action::failed) return Type::delivered;
  return a.wording == mail::Wording::soft_bounce ? Type::deferred : Type::bounced;
}

}  // namespace

void tell_attempt(const Attempt& a) {
  if (!wanted() || a.wording == mail::Wording::probe) return;
  const Type type = type_of(a);
  Event e(type, now());
  e.text(Field::queue_id, a.queue_id).text(Field::from, a.message.sender).text(Field::to, a.recipient.address);
  if (a.recipient.shown_original() != a.recipient.address) e.text(Field::orig_to, a.recipient.original);
  e.text(Field::orcpt, a.recipient.orcpt)
      .text(Field::envid, a.message.envid)
      .number(Field::size, a.message.body.size)
      .time(Field::arrival, a.message.arrival)
      .text(Field::nexthop, a.nexthop)
      .text(Field::relay, a.relay)
      .text(Field::source_address, a.source_address)
      .number(Field::conn_use, a.connection_use)
      .duration(Field::delay, a.delays.total())
      .duration(Field::delay_before_queue_manager, a.delays.before_active)
      .duration(Field::delay_queue_manager, a.delays.active)
      .duration(Field::delay_connection_setup, a.delays.setup)
      .duration(Field::delay_transmission, a.delays.transmission)
      .text(Field::dsn, a.ended.empty() ? a.status.dsn : kExpiredCode)
      .text(Field::status, !a.ended.empty()                          ? a.ended
                           : type == Type::delivered                 ? "sent"
                           : type == Type::bounced                   ? "bounced"
                           : a.status.action == mail::Action::failed ? "SOFTBOUNCE"
                                                                     : "deferred")
      .text(Field::reply, a.status.text)
      .text(Field::reason, a.ended.empty() ? std::string_view() : kExpiredReason)
      .text(Field::remote_mta, a.status.remote_mta)
      .flag(Field::final, type != Type::deferred)
      .text(Field::sasl_username, a.message.client.sasl_username)
      .text(Field::client_address, a.message.client.address)
      .text(Field::tenant, a.message.tenant)
      .text(Field::priority, a.message.priority == 0 ? std::string() : std::to_string(a.message.priority))
      .number(Field::attempt, a.number)
      .text(Field::session, a.session)
      .text(Field::tls_protocol, a.tls_protocol)
      .text(Field::tls_cipher, a.tls_cipher)
      .flag(Field::tls_trusted, a.tls_trusted)
      .text(Field::source, a.source);
  tell(e);
}

}  // namespace pen::events
