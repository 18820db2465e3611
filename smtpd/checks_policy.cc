/// check_policy_service: what a policy server learns of the session, and what is done with its answer.
#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/mail/command.h"
#include "smtpd/authentication.h"
#include "smtpd/policy_protocol.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

/// One value for all requests of a transaction, of which no other process has the like: servers count messages by it.
std::string instance_of(std::uint64_t transaction) {
  if (transaction == 0) return {};
  static const auto started = system_clock().wall_now().time_since_epoch();
  const auto whole = std::chrono::duration_cast<seconds>(started);
  return fmt::format("{:x}.{:x}.{:x}.{:x}", ::getpid(), whole.count(),
                     std::chrono::duration_cast<std::chrono::microseconds>(started - whole).count(), transaction);
}

/// The end of the connection that the client has reached.
async::SocketAddress reached_by(const ClientFacts& client) {
  if (client.reached) return *client.reached;
  return async::local_address(client.socket).value_or(async::SocketAddress());
}

std::string port_text(std::uint16_t port) { return port == 0 ? "unknown" : std::to_string(port); }

std::string policy_request_for(Evaluation& e, const PolicyService& service) {
  const Subject& about = e.subject;
  const ClientFacts& client = *about.client;
  const auto& s = e.policy.settings;
  const async::SocketAddress server = reached_by(client);
  const std::string client_port = port_text(client.peer.port), server_port = port_text(server.port);
  const std::string instance = instance_of(about.transaction);
  const std::string_view where = about.where;
  const bool content = where == "DATA" || where == "END-OF-MESSAGE";
  PolicyQuery query;
  query.protocol_state = where;
  query.protocol_name = client.protocol();
  query.client_address = client.peer.address;
  query.client_name = client.peer.name;
  query.client_port = client_port;
  query.reverse_client_name = client.peer.reverse_name;
  query.server_address = server.is_unix() || server.host.empty() ? std::string_view("unknown") : server.host;
  query.server_port = server_port;
  query.helo_name = client.helo;
  // Without the quotes that a command needs, as Postfix has them.
  const std::string sender = about.sender ? mail::to_internal(*about.sender) : std::string();
  const std::string recipient =
      mail::to_internal(about.recipient ? std::string_view(*about.recipient) : about.only_recipient);
  query.sender = sender;
  query.recipient = recipient;
  query.recipient_count = content ? about.recipient_count : 0;
  query.queue_id = about.queue_id;
  query.instance = instance;
  query.size = about.size;
  query.etrn_domain = about.etrn_domain;
  query.stress = e.policy.stress;
  if (client.login) {
    query.sasl_method = client.login->method;
    query.sasl_username = client.login->username;
  }
  query.sasl_sender = about.sasl_sender;
  std::string ccert_subject, ccert_issuer;
  if (const SecureClient* tls = client.tls.get()) {
    if (tls->trusted) {
      ccert_subject = mail::encode_xtext(tls->subject);
      ccert_issuer = mail::encode_xtext(tls->issuer);
    }
    query.ccert_subject = ccert_subject;
    query.ccert_issuer = ccert_issuer;
    query.ccert_fingerprint = tls->fingerprint;
    query.ccert_pubkey_fingerprint = tls->key_fingerprint;
    query.encryption_protocol = tls->protocol;
    query.encryption_cipher = tls->cipher;
    query.encryption_keysize = static_cast<std::uint64_t>(tls->used_bits);
    query.tls_sni = tls->server_name;
  }
  query.policy_context = service.context;
  query.compatibility_level = s.compatibility_level;
  query.mail_version = s.mail_version;
  if (about.authentication) {
    query.spf_result = about.authentication->spf_word();
    query.dkim_result = about.authentication->dkim_word();
    query.dmarc_result = about.authentication->dmarc_word();
  }
  return policy_request(query);
}

}  // namespace

async::Task<Answer> check_policy_service(Evaluation& e, const Restriction& r, const Name& about) {
  const std::shared_ptr<const PolicyService> service = r.service;
  const Name name = about;
  Restriction server = r;  // for messages: the name of the server stands where a table's name would
  server.name = service->name;
  if (e.subject.authentication && e.subject.authentication->asks_spf()) (void)co_await e.subject.authentication->spf();
  const auto action = co_await e.tools.policies.ask(
      service, e.subject.transaction, [&e, &service] { return policy_request_for(e, *service); },
      e.policy.settings.smtputf8_enable);
  if (action && trim(*action).empty()) co_return Answer::dunno;
  if (!action && e.by_default)
    co_return e.refuse(451, "4.3.5", Name{}, "Server configuration problem", mail::ErrorClass::software);
  const bool outer = std::exchange(e.by_default, e.by_default || !action);
  const map::AddressHit said{
      .value = action ? *action : service->default_action, .key = "policy query", .extension = {}};
  const Answer answer = co_await act_on(e, map::AddressValue(said), server, name);
  e.by_default = outer;
  co_return answer;
}

}  // namespace pen::smtpd::restrictions
