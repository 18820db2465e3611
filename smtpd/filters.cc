#include "smtpd/filters.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/command.h"
#include "lib/mail/logged.h"
#include "smtpd/access.h"
#include "smtpd/told.h"

namespace pen::smtpd {
namespace {

/// The parameters behind the path of "FROM:<a@b> SIZE=1".
std::string_view parameters(std::string_view args) {
  const auto colon = args.find(':');
  if (colon == std::string_view::npos) return {};
  args = trim(args.substr(colon + 1));
  if (!mail::take_path(args, false)) return {};
  return trim(args);
}

/// A filter in place of smtpd_milter_maps' value that cannot be read: all mail is put off.
std::shared_ptr<const milter::Filter> unusable() {
  auto filter = std::make_shared<milter::Filter>();
  filter->name = "smtpd_milter_maps";
  filter->default_action = milter::DefaultAction::tempfail;
  return filter;
}

/// Whether a list of macros names one that needs a route.
bool wants_routes(const milter::Settings& settings) {
  for (const auto& list : settings.macros)
    for (const auto& name : list)
      if (name.contains("mail_host") || name.contains("mail_mailer") || name.contains("rcpt_host") ||
          name.contains("rcpt_mailer"))
        return true;
  return false;
}

Response response_of(const milter::Verdict& verdict) {
  Response out = Response::refused(verdict.reply.back(), mail::ErrorClass::policy).because(metrics::Reason::milter);
  out.before.assign(verdict.reply.begin(), verdict.reply.end() - 1);
  return out;
}

/// As Postfix's cleanup logs a reply.
std::string_view without_code(std::string_view reply) { return reply.substr(std::min<std::size_t>(4, reply.size())); }

std::string_view resolution_word(NameState verified, NameState reverse) {
  if (verified == NameState::ok) return "OK";
  if (reverse == NameState::temporary || verified == NameState::temporary) return "TEMP";
  return reverse == NameState::ok ? "FORGED" : "FAIL";
}

}  // namespace

SessionFilters::SessionFilters(Server& server, const Policy& policy, const ClientFacts& client,
                               const milter::Filters& filters)
    : server_(server),
      policy_(policy),
      client_(client),
      routes_wanted_(wants_routes(*policy.milters)),
      chain_(server.milter_tools, policy.milters, filters, server.milters, *this) {}

async::Task<std::unique_ptr<SessionFilters>> SessionFilters::open(Server& server, const Policy& policy,
                                                                  const ClientFacts& client) {
  if (!policy.milters || !policy.milters->smtpd_filters()) co_return nullptr;
  milter::Filters filters = policy.milters->smtpd;
  if (!policy.milters->by_client.empty()) {
    const auto found = co_await server.intake.tables.ask(
        [maps = &policy.milters->by_client, key = client.peer.address] { return maps->lookup(key); });
    if (!found) {
      log::warning("smtpd_milter_maps: {}", found.error().message());
      filters = {unusable()};
    } else if (*found) {
      auto own = policy.milters->parse_list(**found);
      if (!own) log::warning("smtpd_milter_maps: {}: {}", client.peer.address, own.error().message());
      filters = own ? *std::move(own) : milter::Filters{unusable()};
    }
  }
  if (filters.empty()) co_return nullptr;
  co_return std::unique_ptr<SessionFilters>(new SessionFilters(server, policy, client, filters));
}

void SessionFilters::log_line(std::string_view verb, const char* where, std::string_view text,
                              std::string_view recipient) const {
  const std::string id = message_ && !message_->queue_id().empty() ? message_->queue_id() : "NOQUEUE";
  const bool end = where == std::string_view("END-OF-MESSAGE");
  if (message_ && message_->recipients() > 0 && (end || where == std::string_view("DATA"))) {
    const auto& recipients = message_->envelope().recipients;
    recipient = (end ? recipients.back() : recipients.front()).address;  // as Postfix's cleanup and its smtpd have it
  }
  const std::string_view shown = end && verb == "milter-reject" ? without_code(text) : text;
  std::string line = fmt::format("{}: {}: {} from {}: {};", id, verb, where, client_.peer.shown(), shown);
  if (message_) line += fmt::format(" from=<{}>", mail::logged(message_->envelope().sender));
  if (!recipient.empty()) line += fmt::format(" to=<{}>", mail::logged(recipient));
  line += fmt::format(" proto={}", protocol_);
  if (!client_.helo.empty()) line += fmt::format(" helo=<{}>", client_.helo);
  log::info("{}", line);
  if (verb == "milter-reject")
    tell_rejected(client_, {.queue_id = id,
                            .stage = where,
                            .reply = text,
                            .sender = message_ ? std::string_view(message_->envelope().sender) : std::string_view(),
                            .recipient = recipient,
                            .action = verb});
}

std::optional<Response> SessionFilters::settle(const milter::Verdict& verdict, const char* where,
                                               std::string_view recipient) {
  if (verdict.refused()) {
    if (!verdict.told) log_line("milter-reject", where, verdict.reply.front(), recipient);
    return response_of(verdict);
  }
  if (!message_) return std::nullopt;
  if (verdict.discard && !message_->effects().discard) {
    log_line("milter-discard", where, "milter triggers DISCARD action", recipient);
    message_->effects().discard = message_->effects().discard_by_filter = true;
  }
  if (verdict.hold && !message_->effects().hold) {
    log_line("milter-hold", where,
             verdict.hold_reason.empty() ? std::string_view("milter triggers HOLD action") : verdict.hold_reason,
             recipient);
    message_->effects().hold = true;
  }
  return std::nullopt;
}

async::Task<std::optional<Response>> SessionFilters::connect() {
  const Peer& peer = client_.peer;
  const std::string name = peer.name != "unknown"            ? peer.name
                           : peer.address == kUnknownAddress ? std::string("unknown")
                                                             : "[" + peer.address + "]";
  const milter::Verdict verdict = co_await chain_.connect(name, peer.address, peer.port);
  // A filter that is away is asked again at MAIL.
  if (verdict.by_default && !verdict.permanent() && !verdict.ends_session()) co_return std::nullopt;
  auto response = settle(verdict, "CONNECT");
  if (!response) co_return response;
  if (verdict.ends_session()) co_return response;
  refused_ = response;
  if (!verdict.permanent()) co_return std::nullopt;
  co_return Response::refused(fmt::format("554 {} ESMTP not accepting connections", policy_.settings.myhostname),
                              mail::ErrorClass::policy)
      .because(metrics::Reason::milter);
}

async::Task<std::optional<Response>> SessionFilters::helo() {
  struct Said {  // whatever comes of it
    const char*& protocol;
    const ClientFacts& client;
    ~Said() { protocol = client.protocol(); }
  } said{protocol_, client_};
  if (refused_) {
    log_line("milter-reject", client_.esmtp ? "EHLO" : "HELO", refused_->text, {});
    co_return std::nullopt;
  }
  const milter::Verdict verdict = co_await chain_.helo(client_.helo);
  if (verdict.by_default && !verdict.permanent() && !verdict.ends_session()) co_return std::nullopt;
  auto response = settle(verdict, client_.esmtp ? "EHLO" : "HELO");
  if (!response || verdict.ends_session()) co_return response;
  refused_ = std::move(response);
  co_return std::nullopt;
}

async::Task<std::optional<Response>> SessionFilters::unknown(std::string_view line) {
  const milter::Verdict verdict = co_await chain_.unknown(line);
  if (!verdict.refused() || verdict.by_default) co_return std::nullopt;
  co_return settle(verdict, "UNKNOWN");
}

async::Task<resolve::Route> SessionFilters::route(std::string address) const {
  if (!routes_wanted_ || address.empty()) co_return resolve::Route{};
  auto found = co_await server_.intake.tables.ask([&] {
    const auto& resolve = *policy_.resolve;
    return resolve.route(message_->envelope().sender, resolve.rewrite(address));
  });
  // The macros are left out; routing itself is done later, and again.
  co_return found ? *std::move(found) : resolve::Route{};
}

async::Task<std::optional<Response>> SessionFilters::mail(std::string_view args) {
  if (refused_) {
    log_line("milter-reject", "MAIL", refused_->text, {});
    co_return refused_;
  }
  const std::string sender = message_->envelope().sender;
  sender_ = {.address = policy_.resolve->rewrite(sender), .route = co_await route(sender)};
  co_return settle(co_await chain_.mail(sender, parameters(args), *this), "MAIL");
}

async::Task<std::optional<Response>> SessionFilters::rcpt(std::string recipient, std::string_view args) {
  if (message_->effects().discard) co_return std::nullopt;  // decided
  recipient_ = {.address = policy_.resolve->rewrite(recipient), .route = co_await route(recipient)};
  const auto verdict = co_await chain_.rcpt(recipient, parameters(args), *this);
  co_return settle(verdict, "RCPT", recipient);
}

async::Task<void> SessionFilters::refused_rcpt(std::string recipient, std::string_view args, std::string_view reply) {
  if (message_->effects().discard) co_return;
  // "550 5.7.1 <a@b>: Recipient address rejected: no"
  std::string_view text = reply.substr(std::min<std::size_t>(reply.size(), 4));
  recipient_.route.transport = "error";
  recipient_.route.nexthop = take_dsn(text);
  if (const std::string shown = "<" + recipient + ">: "; text.starts_with(shown)) text.remove_prefix(shown.size());
  recipient_.address = text;
  co_await chain_.refused_rcpt(recipient, parameters(args), *this);
}

async::Task<std::optional<Response>> SessionFilters::data() {
  if (message_->effects().discard) co_return std::nullopt;
  co_return settle(co_await chain_.data(*this), "DATA");
}

async::Task<SessionFilters::Judged> SessionFilters::content(async::Until until) {
  Judged out;
  if (message_->effects().discard) co_return out;
  out.commit = co_await message_->hold_content(until);
  if (out.commit.outcome != intake::Outcome::ok) co_return out;
  auto judged = co_await chain_.content(*message_, message_->bytes_in_front(), server_.intake, *this, until);
  for (const auto& note : judged.notes) log::info("{}", note);
  out.refusal = settle(judged.verdict, "END-OF-MESSAGE");
  out.commit = std::move(judged.commit);
  co_return out;
}

void SessionFilters::end() {
  chain_.abort();
  message_ = nullptr;
  sender_ = recipient_ = {};
}

std::string SessionFilters::tls_macro(std::string_view name) const {
  const SecureClient* tls = client_.tls.get();
  if (!tls) return {};
  if (name == "tls_version") return tls->protocol;
  if (name == "cipher") return tls->cipher;
  if (name == "cipher_bits") return std::to_string(tls->used_bits);
  if (name == "tls_sni") return tls->server_name;
  if (name == "cert_subject" && tls->trusted) return tls->subject;
  if (name == "cert_issuer" && tls->trusted) return tls->issuer;
  return {};
}

std::string SessionFilters::message_macro(std::string_view name) const {
  if (!message_) return {};
  if (name == "i") return message_->queue_id();
  if (name == "auth_author") return message_->envelope().client.sasl_sender;
  if (name == "mail_addr") return sender_.address;
  if (name == "mail_host") return sender_.route.nexthop;
  if (name == "mail_mailer") return sender_.route.transport;
  if (name == "rcpt_addr") return recipient_.address;
  if (name == "rcpt_host") return recipient_.route.nexthop;
  if (name == "rcpt_mailer") return recipient_.route.transport;
  return {};
}

std::string SessionFilters::macro(std::string_view name) const {
  const Peer& peer = client_.peer;
  const milter::Settings& s = *policy_.milters;
  if (name == "j") return policy_.settings.myhostname;
  if (name == "v") return s.version;
  if (name == "daemon_name") return s.daemon_name;
  if (name == "daemon_addr" || name == "daemon_port") {
    async::SocketAddress here;
    if (client_.reached)
      here = *client_.reached;
    else if (auto own = async::local_address(client_.socket))
      here = *std::move(own);
    return name == "daemon_addr" ? here.host : std::to_string(here.port);
  }
  if (name == "_") {
    std::string text = peer.reverse_name + " [" + peer.address + "]";
    if (peer.name_state != NameState::ok && peer.reverse_state == NameState::ok) text += " (may be forged)";
    return text;
  }
  if (name == "client_addr") return peer.address.contains(':') ? "IPv6:" + peer.address : peer.address;
  if (name == "client_port") return std::to_string(peer.port);
  if (name == "client_name") return peer.name;
  if (name == "client_ptr") return peer.reverse_name;
  if (name == "client_resolve") return std::string(resolution_word(peer.name_state, peer.reverse_state));
  if (name == "client_connections") return std::to_string(client_.connections);
  if (name == "auth_type") return client_.login ? client_.login->method : std::string();
  if (name == "auth_authen") return client_.login ? client_.login->username : std::string();
  if (auto value = tls_macro(name); !value.empty()) return value;
  return message_macro(name);
}

}  // namespace pen::smtpd
