#include "pickup/filters.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/net/dns_native.h"

namespace pen::pickup {
namespace {

constexpr std::size_t kNameThreads = 2;
constexpr std::string_view kClient = "localhost", kAddress = "127.0.0.1";

}  // namespace

class LocalFilters::Macros final : public milter::MacroSource {
 public:
  Macros(const milter::Settings& settings, const intake::Intake& intake, intake::Message& message)
      : settings_(settings), intake_(intake), message_(message) {}

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
    if (name == "_") return fmt::format("{} [{}]", kClient, kAddress);
    if (name == "client_addr") return std::string(kAddress);
    if (name == "client_name" || name == "client_ptr") return std::string(kClient);
    if (name == "client_resolve") return "OK";
    if (name == "client_connections" || name == "client_port") return "0";
    if (name == "mail_addr") return sender.address;
    if (name == "mail_host") return sender.route.nexthop;
    if (name == "mail_mailer") return sender.route.transport;
    if (name == "rcpt_addr") return recipient.address;
    if (name == "rcpt_host") return recipient.route.nexthop;
    if (name == "rcpt_mailer") return recipient.route.transport;
    return {};
  }

 private:
  const milter::Settings& settings_;
  const intake::Intake& intake_;
  intake::Message& message_;
};

LocalFilters::LocalFilters(async::Loop& loop, std::shared_ptr<const milter::Settings> settings, intake::Intake& intake)
    : name_threads_(loop, kNameThreads),
      settings_(std::move(settings)),
      intake_(intake),
      tools_{.loop = loop,
             .find_host = [this](std::string host, async::Until) { return find_host(std::move(host)); },
             .warn = log::as_warning} {}

async::Task<Result<std::vector<std::string>>> LocalFilters::find_host(std::string host) {
  auto addresses = co_await name_threads_.run([host] {
    std::vector<std::string> out;
    for (const auto type : {net::RecordType::a, net::RecordType::aaaa})
      for (auto& record : net::lookup_native(host, type).records) out.push_back(std::move(record.data));
    return out;
  });
  if (addresses.empty()) co_return fail(milter::MilterError::lost, host + ": no address");
  co_return addresses;
}

async::Task<resolve::Route> LocalFilters::route(std::string sender, std::string address) {
  auto found =
      co_await intake_.tables.ask([&] { return intake_.resolve->route(sender, intake_.resolve->rewrite(address)); });
  co_return found ? *std::move(found) : resolve::Route{};  // the macros are left out
}

async::Task<milter::Verdict> LocalFilters::envelope(milter::Chain& chain, intake::Message& message, Macros& macros,
                                                    const char*& where) {
  where = "CONNECT";
  milter::Verdict verdict = co_await chain.connect(kClient, kAddress, 0);
  if (verdict.refused()) co_return verdict;
  where = "EHLO";
  verdict = co_await chain.helo(kClient);
  if (verdict.refused()) co_return verdict;
  where = "MAIL";
  const std::string sender = message.envelope().sender;
  macros.sender = {sender, co_await route(sender, sender)};
  verdict = co_await chain.mail(message.envelope().sender, {}, macros);
  if (verdict.refused() || verdict.discard) co_return verdict;
  where = "RCPT";
  const std::size_t count = message.recipients();
  for (std::size_t i = 0; i < count; ++i) {
    macros.recipient.address = message.envelope().recipients[i].address;
    macros.recipient.route = co_await route(sender, macros.recipient.address);
    verdict = co_await chain.rcpt(macros.recipient.address, {}, macros);
    if (verdict.refused() || verdict.discard) co_return verdict;
  }
  where = "DATA";
  co_return co_await chain.data(macros);
}

void LocalFilters::log_verdict(intake::Message& message, const milter::Verdict& verdict, const char* where) const {
  const char* verb = verdict.refused() ? "milter-reject" : verdict.discard ? "milter-discard" : "milter-hold";
  const std::string text = verdict.refused()             ? verdict.reply.front()
                           : verdict.discard             ? "milter triggers DISCARD action"
                           : verdict.hold_reason.empty() ? "milter triggers HOLD action"
                                                         : verdict.hold_reason;
  const mail::Envelope& e = message.envelope();
  log::info("{}: {}: {} from {}[{}]: {}; from=<{}>{}", message.queue_id(), verb, where, kClient, kAddress, text,
            e.sender, e.recipients.size() == 1 ? fmt::format(" to=<{}>", e.recipients.front().address) : "");
}

async::Task<LocalFilters::Judged> LocalFilters::judge(intake::Message& message, async::Until until) {
  Judged out;
  Macros macros(*settings_, intake_, message);
  milter::Chain chain(tools_, settings_, settings_->other, endpoints_, macros);
  const char* where = "";
  milter::Verdict verdict = co_await envelope(chain, message, macros, where);
  if (!verdict.refused() && !verdict.discard) {
    const bool held = verdict.hold;
    where = "END-OF-MESSAGE";
    out.commit = co_await message.hold_content(until);
    if (out.commit.outcome == intake::Outcome::ok) {
      auto judged = co_await chain.content(message, message.fields_in_front(), intake_, macros, until);
      for (const auto& note : judged.notes) log::info("{}", note);
      verdict = std::move(judged.verdict);
      out.commit = std::move(judged.commit);
    }
    verdict.hold = verdict.hold || held;
  }
  co_await chain.quit();
  if (verdict.refused() || verdict.discard || verdict.hold) log_verdict(message, verdict, where);
  if (verdict.refused() && (!verdict.permanent() || std::string_view(where) == "RCPT")) {
    out.outcome = Outcome::put_off;
    out.why = fmt::format("milter at {}: {}", where, verdict.reply.front());
    if (verdict.permanent()) out.why += " (a filter must not refuse recipients of local mail)";
  } else if (verdict.refused()) {
    std::string text = verdict.reply.front().substr(std::min<std::size_t>(4, verdict.reply.front().size()));
    if (!text.starts_with("5.")) text.insert(0, "5.7.1 ");
    message.refused_by_filter(std::move(text));
  }
  message.effects().discard = message.effects().discard || verdict.discard;
  message.effects().hold = message.effects().hold || verdict.hold;
  co_return out;
}

}  // namespace pen::pickup
