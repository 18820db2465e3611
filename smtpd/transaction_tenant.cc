/// The tenant of a message, how urgent it is, and whether one click unsubscribes from it where that is demanded.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/logged.h"
#include "smtpd/told.h"
#include "smtpd/transaction.h"

namespace pen::smtpd {

namespace {
constexpr std::size_t kMostHeader = 1U << 20;  // as what is signed

Response unreadable(const std::string& queue_id, const Error& error) {
  log::warning("{}: {}", queue_id, error.message());
  return Response::refused("451 4.3.0 Error: a table cannot be read", mail::ErrorClass::data);
}
}  // namespace

async::Task<std::optional<Response>> Transaction::take_fields() {
  if (const auto& priorities = policy_.priorities; priorities && !priorities->field().empty())
    if (!(proxied() && says_priority_)) message_.take_field(priorities->field());
  const auto& tenants = policy_.tenants;
  if (!tenants || tenants->field().empty()) co_return std::nullopt;
  auto may = co_await server_.intake.tables.ask(
      [&tenants, &peer = client_.peer] { return tenants->may_say(peer.name, peer.address); });
  if (!may) co_return unreadable(message_.queue_id(), may.error());
  tenant_field_counts_ = *may;
  // The server behind the filter shall see the field if it counts, and otherwise none.
  if (!(proxied() && tenant_field_counts_)) message_.take_field(tenants->field());
  co_return std::nullopt;
}

async::Task<std::optional<Response>> Transaction::find_tenant() {
  const mail::Client* told = client_.forwarded ? &client_.forwarded->client : nullptr;
  tenant::Clues clues;
  if (told != nullptr && !told->address.empty())
    clues.login = told->sasl_username;
  else if (client_.login)
    clues.login = client_.login->username;
  mail::Envelope& envelope = message_.envelope();
  if (!envelope.sender.empty()) clues.sender = policy_.resolve->rewrite(envelope.sender);
  if (tenant_field_counts_) clues.header = message_.taken_field(policy_.tenants->field());
  auto name = co_await server_.intake.tables.ask(
      [tenants = policy_.tenants, clues = std::move(clues)] { return tenants->of(clues); });
  if (!name) co_return unreadable(message_.queue_id(), name.error());
  envelope.tenant = *std::move(name);
  co_return std::nullopt;
}

async::Task<std::optional<Response>> Transaction::find_priority() {
  mail::Envelope& envelope = message_.envelope();
  const auto& priorities = policy_.priorities;
  tenant::PriorityClues clues{.given = priority_given_, .tenant = envelope.tenant, .trusted = says_priority_};
  if (!priorities->field().empty()) clues.header = message_.taken_field(priorities->field());
  if (!envelope.sender.empty()) clues.sender = policy_.resolve->rewrite(envelope.sender);
  auto found =
      co_await server_.intake.tables.ask([priorities, clues = std::move(clues)] { return priorities->of(clues); });
  if (!found) co_return unreadable(message_.queue_id(), found.error());
  if (found->wanted > found->priority)
    log::info("{}: {}: {} becomes {}: {} is none of message_priority_clients", message_.queue_id(), priorities->field(),
              found->wanted, found->priority, client_.peer.shown());
  envelope.priority = found->priority;
  co_return std::nullopt;
}

async::Task<std::optional<Response>> Transaction::check_unsubscribe() {
  using Action = tenant::UnsubscribeCheck::Action;
  const mail::Envelope& envelope = message_.envelope();
  std::string sender = envelope.sender.empty() ? std::string() : policy_.resolve->rewrite(envelope.sender);
  auto action =
      co_await server_.intake.tables.ask([check = policy_.unsubscribe, sender = std::move(sender),
                                          tenant = envelope.tenant] { return check->action_for(sender, tenant); });
  if (!action) co_return unreadable(envelope.queue_id, action.error());
  if (*action == Action::none) co_return std::nullopt;
  const async::Until until{.deadline = server_.loop.now() + settings().smtpd_timeout};
  if (auto shown = co_await message_.show_content(until); shown.outcome != intake::Outcome::ok)
    co_return not_queued(shown);
  intake::HeldContent content(server_.intake.pool, *message_.body(), message_.bytes_in_front());
  std::string header;
  while (header.size() <= kMostHeader && !header.starts_with("\r\n") && !header.contains("\r\n\r\n")) {
    auto piece = co_await content.next();
    if (!piece) co_return not_queued({intake::Outcome::spool_failed, "spool file: " + piece.error().message()});
    if (piece->empty()) break;
    header += *piece;
  }
  std::string fault = tenant::one_click_fault(header);
  if (const auto& signing = server_.intake.settings.signing; fault.empty() && signing && signs_) {
    const auto covered = [&](std::string_view name) {
      return std::ranges::any_of(signing->form().fields, [&](const std::string& f) { return iequals(f, name); });
    };
    if (!covered("List-Unsubscribe") || !covered("List-Unsubscribe-Post"))
      fault = "its signature would not cover both fields (dkim_sign_headers)";
  }
  if (fault.empty()) co_return std::nullopt;
  const bool refused = *action == Action::reject;
  Response response = Response::refused("550 5.7.1 Error: this mail needs one-click unsubscribing (RFC 8058): " + fault,
                                        mail::ErrorClass::policy);
  log::info("{}: {}: END-OF-MESSAGE from {}: {}; from=<{}> tenant={} proto={} helo=<{}>", envelope.queue_id,
            refused ? "reject" : "warning", client_.peer.shown(),
            refused ? response.text : "no one-click unsubscribing (RFC 8058): " + fault, mail::logged(envelope.sender),
            envelope.tenant, client_.protocol(), client_.helo);
  if (!refused) co_return std::nullopt;
  tell_rejected(
      client_,
      {.queue_id = envelope.queue_id, .stage = "END-OF-MESSAGE", .reply = response.text, .sender = envelope.sender});
  co_return std::move(response).because(metrics::Reason::content);
}

}  // namespace pen::smtpd
