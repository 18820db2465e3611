#include "smtpd/returned_mail.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/delimiters.h"
#include "lib/mail/logged.h"
#include "lib/mail/returned/reader.h"
#include "lib/mail/verp.h"
#include "lib/receive/intake/held_content.h"
#include "lib/suite/events/emitter.h"
#include "lib/suite/suppression/returned_failure.h"

namespace pen::smtpd {
namespace {

using events::Event;
using events::Field;
using events::Type;

std::string_view form_name(returned::Form form) {
  switch (form) {
    case returned::Form::dsn:
      return "dsn";
    case returned::Form::qmail:
      return "qmail";
    case returned::Form::exim:
      return "exim";
  }
  return "";
}

/// The address without its extension; empty: it has none.
std::string without_extension(std::string_view address, std::string_view delimiters) {
  const std::string local = mail::unquote_local(mail::local_part(address));
  const auto split = mail::split_extension(local, delimiters);
  if (split.delimiter == '\0') return {};
  std::string out = mail::quote_local(split.user);
  return out.append(1, '@').append(mail::domain_part(address));
}

/// Does the list have the address, the address without extension, or its domain?
Result<bool> listed(const map::MatchList& list, const std::string& address, const std::string& plain) {
  for (const std::string& key : {address, plain, std::string(mail::domain_part(address))}) {
    if (key.empty()) continue;
    PEN_TRY_ASSIGN(const bool yes, list.matches(to_lower(key)));
    if (yes) return true;
  }
  return false;
}

/// Addresses of VERP and SRS have a second delimiter: most others are told apart without a look-up.
bool may_be(const Policy& policy, const std::vector<mail::Recipient>& recipients) {
  if (recipients.size() > ReturnedMail::kMostAddresses) return false;
  if (!policy.returned_recipients.empty()) return true;
  const auto& delimiters = policy.settings.default_verp_delimiters;
  return std::ranges::any_of(recipients, [&](const mail::Recipient& r) {
    return r.address.contains('=') || (delimiters.size() == 2 && r.address.contains(delimiters[1]));
  });
}

}  // namespace

ReturnedMail::ReturnedMail(Server& server, const Policy& policy, const ClientFacts& client, intake::Message& message)
    : server_(server), policy_(policy), message_(message), null_sender_(message.envelope().sender.empty()) {
  // Mail that comes back from a filter is its client's, not the filter's.
  const mail::Client* told = client.forwarded ? &client.forwarded->client : nullptr;
  const bool other = told != nullptr && !told->address.empty();
  client_name_ = other ? told->name : client.peer.name;
  client_address_ = other ? told->address : client.peer.address;
}

async::Task<Result<std::unique_ptr<ReturnedMail>>> ReturnedMail::of(Server& server, const Policy& policy,
                                                                    const ClientFacts& client,
                                                                    intake::Message& message) {
  const auto& recipients = message.envelope().recipients;
  // Mail on its way to a filter is read when it comes back.
  const auto& filter = server.intake.settings.content_filter;
  if (!may_be(policy, recipients) || !filter.empty() || !message.effects().filter.empty()) co_return nullptr;
  std::unique_ptr<ReturnedMail> out(new ReturnedMail(server, policy, client, message));
  for (std::size_t i = 0; i < recipients.size(); ++i)
    PEN_CO_TRY(co_await out->classify(policy.resolve->rewrite(recipients[i].address)));
  if (out->addresses_.empty()) co_return nullptr;
  co_return out;
}

async::Task<Result<void>> ReturnedMail::classify(std::string given) {
  const auto& s = policy_.settings;
  if (const auto original = policy_.resolve->original_sender(given); original && *original) {
    addresses_.push_back({.address = std::move(given), .kind = Kind::srs, .sender = **original, .recipient = {}});
    co_return Result<void>();
  }
  Address found{.address = given, .sender = {}, .recipient = {}};
  if (s.default_verp_delimiters.size() == 2)
    if (auto made = mail::verp_address(given, s.default_verp_delimiters)) {
      found.kind = Kind::verp;
      found.sender = std::move(made->sender);
      found.recipient = std::move(made->recipient);
    }
  bool ours = false;
  if (!policy_.returned_recipients.empty()) {
    auto plain = without_extension(given, mail::delimiters(s.recipient_delimiter, s.owner_request_special));
    PEN_CO_TRY_ASSIGN(
        ours, co_await server_.intake.tables.ask([&] { return listed(policy_.returned_recipients, given, plain); }));
  }
  if (!ours && found.kind == Kind::verp) {
    // To another's address of that form mail may go out from here.
    PEN_CO_TRY_ASSIGN(const auto cls, co_await server_.intake.tables.ask(
                                          [&] { return policy_.resolve->class_of(mail::domain_part(given)); }));
    ours = cls != resolve::AddressClass::other;
  }
  if (ours) addresses_.push_back(std::move(found));
  co_return Result<void>();
}

async::Task<intake::Commit> ReturnedMail::read(async::Until until) {
  const intake::Commit shown = co_await message_.show_content(until);
  if (shown.outcome != intake::Outcome::ok) co_return shown;
  queue_id_ = message_.queue_id();
  if (message_.body()->problem() != intake::Body::Problem::none) {  // checks refuse or discard it
    addresses_.clear();
    co_return shown;
  }
  returned::Reader reader;
  for (intake::HeldContent content(server_.pool, *message_.body()); reader.wants_more();) {
    auto piece = co_await content.next(32 * 1024);
    if (!piece) co_return intake::Commit{intake::Outcome::spool_failed, "spool file: " + piece.error().message()};
    if (piece->empty()) break;
    reader.feed(*piece);
  }
  report_ = reader.finish();
  co_return shown;
}

void ReturnedMail::drop() {
  if (policy_.settings.returned_mail_action != config::ReturnedMail::discard || !report_.parsed()) return;
  const auto dropped = [&](const mail::Recipient& r) {
    const std::string address = policy_.resolve->rewrite(r.address);
    return std::ranges::any_of(addresses_,
                               [&](const Address& a) { return a.kind != Kind::srs && a.address == address; });
  };
  if (std::ranges::all_of(message_.envelope().recipients, dropped))
    message_.effects().discard = true;
  else
    message_.remove_recipients(dropped);
}

void ReturnedMail::tell() const {
  for (const Address& at : addresses_) {
    if (report_.notice)
      tell_notice(at);
    else if (report_.feedback)
      tell_feedback(at);
    else if (at.kind == Kind::verp && null_sender_)
      tell_unreadable(at);
    if (at.kind == Kind::verp && report_.notice && !null_sender_)
      log::info("{}: returned mail to {} is not from the null sender", queue_id_, at.address);
  }
}

std::string ReturnedMail::sender_of(const Address& at) const {
  if (!at.sender.empty()) return at.sender;
  return report_.original.return_path.empty() ? at.address : report_.original.return_path;
}

void ReturnedMail::tell_notice(const Address& at) const {
  const returned::Notice& notice = *report_.notice;
  // A VERP address names the recipient of the mail better than its notice, but it names only one.
  const bool by_verp = at.kind == Kind::verp && notice.recipients.size() == 1 && notice.more == 0;
  const std::string from = sender_of(at);
  for (const auto& r : notice.recipients) {
    const std::string& to = by_verp ? at.recipient : r.address();
    const auto action = returned::action_name(r.action);
    log::info("{}: returned: to=<{}>, returned_to=<{}>, dsn={}, status={}, message-id={} ({})", queue_id_,
              mail::logged(to), mail::logged(at.address), r.status, action, report_.original.message_id, r.diagnostic);
    metrics::smtpd_returned_mail.add(static_cast<metrics::ReturnedAs>(r.action));
    if (!events::wanted()) continue;
    events::tell(Event(Type::returned, events::now())
                     .text(Field::queue_id, queue_id_)
                     .text(Field::message_id, report_.original.message_id)
                     .text(Field::client_name, client_name_)
                     .text(Field::client_address, client_address_)
                     .text(Field::from, from)
                     .text(Field::to, to)
                     .text(Field::envid, notice.envid)
                     .text(Field::dsn, r.status)
                     .text(Field::status, action)
                     .text(Field::reply, r.diagnostic)
                     .text(Field::remote_mta, r.remote_mta)
                     .text(Field::reason, null_sender_ ? "" : "not from the null sender")
                     .text(Field::returned_to, at.address)
                     .text(Field::known_by, by_verp ? "verp" : "report")
                     .text(Field::form, form_name(notice.form))
                     .text(Field::reporting_mta, notice.reporting_mta));
  }
  if (notice.more > 0)
    log::info("{}: returned mail to {} speaks of {} more recipients", queue_id_, at.address, notice.more);
}

ReturnedMail::Complained ReturnedMail::complained() const {
  const returned::Feedback& f = *report_.feedback;
  const auto made = policy_.settings.default_verp_delimiters.size() == 2
                        ? mail::verp_address(f.mail_from, policy_.settings.default_verp_delimiters)
                        : std::nullopt;
  // What a provider has made unreadable, the sender's address may still say.
  if (made) return {made->sender, made->recipient, true};
  return {f.mail_from, f.recipients.empty() ? std::string() : f.recipients.front(), false};
}

async::Task<void> ReturnedMail::suppress() {
  using ipc::suppression::Reason;
  if (!server_.suppression || addresses_.empty()) co_return;
  // Once, though a notice may have come to several addresses of ours.
  const Address& at = addresses_.front();
  if (report_.notice && null_sender_) {
    if (auto failed = suppression::returned_failure(*report_.notice, at.recipient))
      co_await suppress(*std::move(failed), sender_of(at));
  } else if (report_.feedback) {
    using Type = returned::FeedbackType;
    const Type type = report_.feedback->type;
    if (type != Type::abuse && type != Type::fraud && type != Type::opt_out) co_return;
    auto [from, to, by_verp] = complained();
    auto believed = co_await server_.intake.tables.ask(
        [this] { return policy_.complaint_clients.matches_host(client_name_, client_address_); });
    if (!believed)
      log::warning("{}: suppression_complaint_clients: {}: the complaint counts as that of a stranger", queue_id_,
                   believed.error().message());
    co_await suppress({.tenant = {},
                       .address = std::move(to),
                       .reason = Reason::complaint,
                       .certain = believed.value_or(false),
                       .text = std::string(returned::feedback_name(type))},
                      std::move(from));
  }
}

async::Task<void> ReturnedMail::suppress(ipc::suppression::Failure failure, std::string sender) {
  if (policy_.tenants) {
    auto name = co_await server_.intake.tables.ask([tenants = policy_.tenants, sender = std::move(sender)] {
      return tenants->of({.login = {}, .sender = sender, .header = {}});
    });
    if (!name || name->empty()) {
      // For all tenants nothing of this may count.
      if (!name) log::warning("{}: {}: the suppression list does not hear of it", queue_id_, name.error().message());
      co_return;
    }
    failure.tenant = *std::move(name);
  }
  server_.suppression->tell(std::move(failure));
}

void ReturnedMail::tell_feedback(const Address& at) const {
  const returned::Feedback& f = *report_.feedback;
  const auto [from, to, by_verp] = complained();
  log::info("{}: feedback: type={}, from=<{}>, to=<{}>, returned_to=<{}>, message-id={}", queue_id_,
            returned::feedback_name(f.type), mail::logged(f.mail_from), mail::logged(to), mail::logged(at.address),
            report_.original.message_id);
  metrics::smtpd_feedback_reports.add(static_cast<metrics::Complaint>(f.type));
  if (!events::wanted()) return;
  events::tell(Event(Type::feedback, events::now())
                   .text(Field::queue_id, queue_id_)
                   .text(Field::message_id, report_.original.message_id)
                   .text(Field::client_name, client_name_)
                   .text(Field::client_address, client_address_)
                   .text(Field::from, from)
                   .text(Field::to, to)
                   .text(Field::source_address, f.source_ip)
                   .number(Field::count, f.incidents)
                   .text(Field::returned_to, at.address)
                   .text(Field::known_by, to.empty() ? ""
                                          : by_verp  ? "verp"
                                                     : "report")
                   .text(Field::reporting_mta, f.reporting_mta)
                   .text(Field::feedback_type, returned::feedback_name(f.type))
                   .text(Field::user_agent, f.user_agent)
                   .text(Field::reported_domain, f.domains.empty() ? std::string() : f.domains.front())
                   .text(Field::reported_arrival, f.arrival)
                   .text(Field::auth_failure, f.auth_failure)
                   .text(Field::delivery_result, f.delivery_result));
}

void ReturnedMail::tell_unreadable(const Address& at) const {
  log::info("{}: returned: to=<{}>, returned_to=<{}>, a notice of no known form, or an answer", queue_id_,
            mail::logged(at.recipient), mail::logged(at.address));
  metrics::smtpd_returned_mail.add(metrics::ReturnedAs::unknown);
  if (!events::wanted()) return;
  events::tell(Event(Type::returned, events::now())
                   .text(Field::queue_id, queue_id_)
                   .text(Field::client_name, client_name_)
                   .text(Field::client_address, client_address_)
                   .text(Field::from, at.sender)
                   .text(Field::to, at.recipient)
                   .text(Field::returned_to, at.address)
                   .text(Field::known_by, "verp")
                   .text(Field::form, "unknown"));
}

}  // namespace pen::smtpd
