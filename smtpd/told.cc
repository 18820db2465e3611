#include "smtpd/told.h"

#include <algorithm>

#include "lib/mail/reply.h"
#include "lib/suite/events/emitter.h"

namespace pen::smtpd {
namespace {

using events::Event;
using events::Field;
using events::Type;

Event about(Type type, const ClientFacts& client) {
  Event e(type, events::now());
  e.text(Field::client_name, client.peer.name)
      .text(Field::client_address, client.peer.address)
      .number(Field::client_port, client.peer.port)
      .text(Field::helo, client.helo)
      .text(Field::proto, client.protocol())
      .text(Field::session, events::session_text(client.session));
  return e;
}

}  // namespace

void tell_rejected(const ClientFacts& client, const Refused& what) {
  if (!events::wanted()) return;
  Event e = about(Type::rejected, client);
  if (what.queue_id != "NOQUEUE") e.text(Field::queue_id, what.queue_id);
  if (client.login) e.text(Field::sasl_username, client.login->username);
  events::tell(e.text(Field::stage, what.stage)
                   .text(Field::action, what.action)
                   .text(Field::from, what.sender)
                   .text(Field::to, what.recipient)
                   .text(Field::dsn, mail::enhanced_code(what.reply.substr(std::min<std::size_t>(4, what.reply.size())))
                                         .value_or(std::string_view()))
                   .text(Field::reply, what.reply));
}

void tell_auth_failed(const ClientFacts& client, std::string_view mechanism, std::string_view user,
                      std::string_view why) {
  if (!events::wanted()) return;
  events::tell(about(Type::auth_failed, client)
                   .text(Field::sasl_method, mechanism)
                   .text(Field::sasl_username, user)
                   .text(Field::reason, why));
}

void tell_tls(const ClientFacts& client, std::string_view protocol, std::string_view cipher, bool trusted,
              std::string_view why) {
  if (!events::wanted()) return;
  events::tell(about(protocol.empty() ? Type::tls_failed : Type::tls, client)
                   .text(Field::direction, "in")
                   .text(Field::tls_protocol, protocol)
                   .text(Field::tls_cipher, cipher)
                   .flag(Field::tls_trusted, trusted)
                   .text(Field::reason, why));
}

}  // namespace pen::smtpd
