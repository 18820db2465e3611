#include "lib/receive/milter/other_filters.h"

#include <fmt/format.h>

#include "lib/mail/client_attributes.h"
#include "lib/mail/logged.h"
#include "lib/net/host_addresses.h"

namespace pen::milter {
namespace {

constexpr std::size_t kNameThreads = 2;

/// The client; for mail that was submitted on this host, the host itself.
mail::Client client_of(intake::Message& message) {
  const mail::Client& given = message.envelope().client;
  if (!given.address.empty()) return given;
  mail::Client own;
  own.name = own.reverse_name = "localhost";
  own.address = "127.0.0.1";
  return own;
}

/// The reply without its code, and with an enhanced one.
std::string text_of(const Verdict& verdict) {
  const std::string& reply = verdict.reply.front();
  std::string text = reply.substr(std::min<std::size_t>(4, reply.size()));
  const char* digit = verdict.permanent() ? "5." : "4.";
  return text.starts_with(digit) ? text : std::string(digit) + "7.1 " + text;
}

}  // namespace

class OtherFilters::Macros final : public MacroSource {
 public:
  Macros(const Settings& settings, const intake::Intake& intake, intake::Message& message)
      : client(client_of(message)), settings_(settings), intake_(intake), message_(message) {}

  const mail::Client client;

  /// Of the sender, or of a recipient.
  struct Address {
    std::string address;
    resolve::Route route;
  };
  Address sender, recipient;

  std::string macro(std::string_view name) const override {
    if (name == "i") return message_.queue_id();
    if (name == "j") return intake_.settings.myhostname;
    if (name == "v") return settings_.version;
    if (name == "daemon_name") return settings_.daemon_name;
    if (name == "daemon_addr") return "127.0.0.1";  // as Postfix has it where nobody has connected
    if (name == "_") return fmt::format("{} [{}]", client.name, client.address);
    if (name == "client_addr") return client.address;
    if (name == "client_name") return client.name;
    if (name == "client_ptr") return client.reverse_name;
    if (name == "client_resolve") return resolution();
    if (name == "client_port") return std::to_string(client.port);
    if (name == "client_connections") return "0";
    if (name == "mail_addr") return sender.address;
    if (name == "mail_host") return sender.route.nexthop;
    if (name == "mail_mailer") return sender.route.transport;
    if (name == "rcpt_addr") return recipient.address;
    if (name == "rcpt_host") return recipient.route.nexthop;
    if (name == "rcpt_mailer") return recipient.route.transport;
    return {};
  }

 private:
  std::string resolution() const {
    if (client.name != "unknown") return "OK";
    return client.reverse_name != "unknown" ? "FORGED" : "FAIL";
  }

  const Settings& settings_;
  const intake::Intake& intake_;
  intake::Message& message_;
};

OtherFilters::OtherFilters(async::Loop& loop, net::ResolverOptions dns, std::shared_ptr<const Settings> settings,
                           intake::Intake& intake)
    : name_threads_(loop, kNameThreads),
      resolver_(loop, name_threads_, std::move(dns)),
      settings_(std::move(settings)),
      intake_(intake),
      tools_{.loop = loop,
             .find_host = [this](std::string host, async::Until until) { return find_host(std::move(host), until); },
             .warn = [this](const std::string& line) { intake_.log_warning(line); }} {}

async::Task<Result<std::vector<std::string>>> OtherFilters::find_host(std::string host, async::Until until) {
  auto found = co_await net::host_addresses(resolver_, name_threads_, "/etc/hosts", host, {}, until);
  if (found.addresses.empty()) co_return fail(MilterError::lost, host + ": " + found.why);
  co_return std::move(found.addresses);
}

async::Task<resolve::Route> OtherFilters::route(std::string sender, std::string address) {
  auto found =
      co_await intake_.tables.ask([&] { return intake_.resolve->route(sender, intake_.resolve->rewrite(address)); });
  co_return found ? *std::move(found) : resolve::Route{};  // the macros are left out
}

async::Task<Verdict> OtherFilters::envelope(Chain& chain, intake::Message& message, Macros& macros,
                                            const char*& where) {
  where = "CONNECT";
  Verdict verdict = co_await chain.connect(macros.client.name, macros.client.address, macros.client.port);
  if (verdict.refused()) co_return verdict;
  where = "EHLO";
  verdict = co_await chain.helo(macros.client.name);
  if (verdict.refused()) co_return verdict;
  where = "MAIL";
  // Completed, as in Postfix: a filter of senders' domains cannot do with "root".
  const std::string sender = intake_.resolve->rewrite(message.envelope().sender);
  macros.sender = {sender, co_await route(sender, sender)};
  verdict = co_await chain.mail(sender, {}, macros);
  if (verdict.refused() || verdict.discard) co_return verdict;
  where = "RCPT";
  const std::size_t count = message.recipients();
  for (std::size_t i = 0; i < count; ++i) {
    macros.recipient.address = intake_.resolve->rewrite(message.envelope().recipients[i].address);
    macros.recipient.route = co_await route(sender, macros.recipient.address);
    verdict = co_await chain.rcpt(macros.recipient.address, {}, macros);
    if (verdict.refused() || verdict.discard) co_return verdict;
  }
  where = "DATA";
  co_return co_await chain.data(macros);
}

void OtherFilters::log_verdict(intake::Message& message, const Verdict& verdict, const char* where) const {
  const char* verb = verdict.refused() ? "milter-reject" : verdict.discard ? "milter-discard" : "milter-hold";
  const std::string text = verdict.refused()             ? text_of(verdict)
                           : verdict.discard             ? "milter triggers DISCARD action"
                           : verdict.hold_reason.empty() ? "milter triggers HOLD action"
                                                         : verdict.hold_reason;
  const mail::Envelope& e = message.envelope();
  const mail::Client client = client_of(message);
  std::string line = fmt::format("{}: {}: {} from {}[{}]: {}; from=<{}>", message.queue_id(), verb, where, client.name,
                                 client.address, text, mail::logged(e.sender));
  if (!e.recipients.empty()) line += fmt::format(" to=<{}>", mail::logged(e.recipients.back().address));
  if (!e.client.address.empty()) line += fmt::format(" proto={}", mail::plain_protocol(client));
  intake_.log_info(line);
}

async::Task<OtherFilters::Judged> OtherFilters::judge(intake::Message& message, async::Until until) {
  Judged out;
  Macros macros(*settings_, intake_, message);
  Chain chain(tools_, settings_, settings_->other, endpoints_, macros);
  const char* where = "";
  Verdict verdict = co_await envelope(chain, message, macros, where);
  if (!verdict.refused() && !verdict.discard) {
    const bool held = verdict.hold;
    where = "END-OF-MESSAGE";
    out.commit = co_await message.hold_content(until);
    if (out.commit.outcome == intake::Outcome::ok) {
      auto judged = co_await chain.content(message, message.bytes_in_front(), intake_, macros, until);
      for (const auto& note : judged.notes) intake_.log_info(note);
      verdict = std::move(judged.verdict);
      out.commit = std::move(judged.commit);
    }
    verdict.hold = verdict.hold || held;
  }
  co_await chain.quit();
  if ((verdict.refused() || verdict.discard || verdict.hold) && !verdict.told) log_verdict(message, verdict, where);
  if (verdict.refused() && (!verdict.permanent() || std::string_view(where) == "RCPT")) {
    out.outcome = Outcome::put_off;
    out.why = fmt::format("milter at {}: {}", where, verdict.reply.front());
    out.reply = verdict.permanent() ? "4.3.0 mail server temporary failure" : text_of(verdict);
    if (verdict.permanent()) out.why += " (a filter must not refuse recipients of mail that did not come by SMTP)";
  } else if (verdict.refused()) {
    message.refused_by_filter(text_of(verdict));
  }
  message.effects().discard = message.effects().discard || verdict.discard;
  message.effects().hold = message.effects().hold || verdict.hold;
  co_return out;
}

async::Task<intake::Commit> OtherFilters::judge_own(intake::Message& message, async::Until until) {
  Judged judged = co_await judge(message, until);
  if (judged.outcome == Outcome::put_off) co_return intake::Commit{intake::Outcome::refused, std::move(judged.why)};
  co_return std::move(judged.commit);
}

intake::Judge OtherFilters::for_own_mail() {
  return [this](intake::Message& message, async::Until until) { return judge_own(message, until); };
}

}  // namespace pen::milter
