/// Restrictions that ask DNS lists, and the replies to listed clients.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/dnsbl/question.h"
#include "lib/mail/address.h"
#include "lib/smtpd/reply_text.h"
#include "smtpd/access.h"
#include "smtpd/attributes.h"
#include "smtpd/checks.h"
#include "smtpd/lists_ahead.h"

namespace pen::smtpd {
namespace {

constexpr std::string_view kUnknown = "unknown";  // a client without that name

}  // namespace

std::string_view Checks::host_of(std::string_view address) {
  return address.contains('@') ? mail::domain_part(address) : address;
}

Checks::ListQuestion Checks::ask_of_address(const Restriction& r) const {
  const std::string& address = subject_.client->peer.address;
  return {address, "Client host", dnsbl::about_address(address, r.dns_list->domain)};
}

Checks::ListQuestion Checks::ask_of_name(const Restriction& r, std::string name, std::string_view kind) {
  auto question = dnsbl::about_name(host_of(name), r.dns_list->domain);
  return {std::move(name), kind, std::move(question)};
}

async::Task<Checks::Answer> Checks::reject_rbl_client(const Restriction& r, const Name&) {
  return refuse_listed(r, ask_of_address(r));
}

async::Task<Checks::Answer> Checks::permit_dnswl_client(const Restriction& r, const Name&) {
  return permit_listed(r, ask_of_address(r));
}

async::Task<Checks::Answer> Checks::reject_rhsbl_client(const Restriction& r, const Name&) {
  const std::string& name = subject_.client->peer.name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await refuse_listed(r, ask_of_name(r, name, "Client host"));
}

async::Task<Checks::Answer> Checks::permit_rhswl_client(const Restriction& r, const Name&) {
  const std::string& name = subject_.client->peer.name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await permit_listed(r, ask_of_name(r, name, "Client host"));
}

async::Task<Checks::Answer> Checks::reject_rhsbl_reverse_client(const Restriction& r, const Name&) {
  const std::string& name = subject_.client->peer.reverse_name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await refuse_listed(r, ask_of_name(r, name, "Unverified Client host"));
}

async::Task<Checks::Answer> Checks::reject_rhsbl_helo(const Restriction& r, const Name&) {
  return refuse_listed(r, ask_of_name(r, subject_.client->helo, "Helo command"));
}

async::Task<Checks::Answer> Checks::reject_rhsbl_sender(const Restriction& r, const Name&) {
  return refuse_listed(r, ask_of_name(r, subject_.sender.value_or(""), "Sender address"));
}

async::Task<Checks::Answer> Checks::reject_rhsbl_recipient(const Restriction& r, const Name&) {
  return refuse_listed(r, ask_of_name(r, subject_.recipient.value_or(""), "Recipient address"));
}

void Checks::ask_ahead_of_recipient() {
  if (!policy_.named_lists || !asked_ahead(*subject_.client)) return;
  ask_ahead_about_name(tools_.lists, policy_.named_lists->recipient, host_of(*subject_.recipient));
}

async::Task<Checks::Answer> Checks::refuse_listed(const Restriction& r, ListQuestion question) {
  if (!question.name) co_return Answer::dunno;
  const dnsbl::Answer said = co_await tools_.lists.ask(r.dns_list->domain, *question.name);
  if (!dnsbl::hits(*r.dns_list, said)) co_return Answer::dunno;
  co_return co_await listed_reply(*r.dns_list, std::move(question));
}

async::Task<Checks::Answer> Checks::permit_listed(const Restriction& r, ListQuestion question) {
  if (!question.name) co_return Answer::dunno;
  // The operator of a list must not be able to make an open relay of this host.
  if (subject_.recipient) {
    const auto authorized = co_await authorized_destination();
    if (!authorized.value_or(false)) co_return Answer::dunno;
  }
  const dnsbl::Answer said = co_await tools_.lists.ask(r.dns_list->domain, *question.name);
  const auto refusal = std::ranges::find_if(said.addresses, dnsbl::means_refused_by_allow_list);
  if (refusal != said.addresses.end()) tools_.lists.refused_by(r.dns_list->domain, *question.name, *refusal);
  if (refusal != said.addresses.end() || said.state == dnsbl::Answer::State::unknown) {
    co_return defer_if_refused("4.7.1", Name{question.what, question.kind}, "Service unavailable");
  }
  co_return dnsbl::hits(*r.dns_list, said) ? Answer::permit : Answer::dunno;
}

async::Task<Checks::Answer> Checks::listed_reply(const dnsbl::List& list, ListQuestion question) {
  const std::string reason = co_await tools_.lists.reason(list.domain, *question.name);
  const auto& s = policy_.settings;
  const config::Lookup names = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "rbl_code") return std::to_string(s.maps_rbl_reject_code);
    if (name == "rbl_domain") return list.domain;
    if (name == "rbl_reason" || name == "rbl_txt") return reason;
    if (name == "rbl_what") return question.what;
    if (name == "rbl_class") return std::string(question.kind);
    return session_attribute(name, subject_, s, tools_.loop.clock().wall_now());
  };
  std::string text = s.default_rbl_reply;
  if (!policy_.rbl_reply_maps.empty()) {
    const auto found = co_await tools_.tables.ask([maps = policy_.rbl_reply_maps, &list]() -> map::Value {
      auto value = maps.lookup(list.text);
      if (value && !*value && list.text != list.domain) value = maps.lookup(list.domain);
      return value;
    });
    if (!found) co_return server_error("rbl_reply_maps: " + found.error().message());
    if (const auto why = *found ? template_problem(**found, ReplyNames::of_dns_lists) : std::string(); !why.empty())
      log::warning("bad rbl reply template for domain {}: {}: {}", list.text, why, **found);
    else if (*found)
      text = **found;
  }
  co_return refuse_with(expand_reply(text, names, policy_.expansion_filter).text);
}

Checks::Answer Checks::refuse_with(std::string_view reply) {
  const bool coded = reply.size() > 3 && (reply[0] == '4' || reply[0] == '5') && ascii_digit(reply[1]) &&
                     ascii_digit(reply[2]) && reply[3] == ' ';
  if (!coded) {
    log::warning("rbl response code configuration error: {}", reply);
    return refuse(450, "4.7.1", Name{}, "Service unavailable");
  }
  const int code = (reply[0] - '0') * 100 + (reply[1] - '0') * 10 + (reply[2] - '0');
  reply.remove_prefix(4);
  const std::string dsn = take_dsn(reply);
  return refuse(code, dsn.empty() ? "4.7.1" : dsn, Name{}, reply.empty() ? "Service unavailable" : reply);
}

}  // namespace pen::smtpd
