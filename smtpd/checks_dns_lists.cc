/// Restrictions that ask DNS lists, and the replies to listed clients.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/meaning/smtpd/reply_text.h"
#include "lib/net/dnsbl/question.h"
#include "smtpd/access.h"
#include "smtpd/attributes.h"
#include "smtpd/lists_ahead.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

constexpr std::string_view kUnknown = "unknown";  // a client without that name

struct ListQuestion {
  std::string what;                 // as the reply shows it
  std::string_view kind;            // the same: "Client host", …
  std::optional<std::string> name;  // the question; nullopt: there is nothing to ask
};

ListQuestion ask_of_address(const Evaluation& e, const Restriction& r) {
  const std::string& address = e.subject.client->peer.address;
  return {address, "Client host", dnsbl::about_address(address, r.dns_list->domain)};
}

ListQuestion ask_of_name(const Restriction& r, std::string name, std::string_view kind) {
  auto question = dnsbl::about_name(host_of(name), r.dns_list->domain);
  return {std::move(name), kind, std::move(question)};
}

/// Refuses with a whole reply: code, status code if it has one, text.
Answer refuse_with(Evaluation& e, std::string_view reply) {
  const bool coded = reply.size() > 3 && (reply[0] == '4' || reply[0] == '5') && ascii_digit(reply[1]) &&
                     ascii_digit(reply[2]) && reply[3] == ' ';
  if (!coded) {
    log::warning("rbl response code configuration error: {}", reply);
    return e.refuse(450, "4.7.1", Name{}, "Service unavailable");
  }
  const int code = (reply[0] - '0') * 100 + (reply[1] - '0') * 10 + (reply[2] - '0');
  reply.remove_prefix(4);
  const std::string dsn = take_dsn(reply);
  return e.refuse(code, dsn.empty() ? "4.7.1" : dsn, Name{}, reply.empty() ? "Service unavailable" : reply);
}

[[gnu::noinline]] async::Task<Answer> listed_reply(Evaluation& e, const dnsbl::List& list, ListQuestion question) {
  const std::string reason = co_await e.tools.lists.reason(list.domain, *question.name);
  const auto& s = e.policy.settings;
  const config::Lookup names = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "rbl_code") return std::to_string(s.maps_rbl_reject_code);
    if (name == "rbl_domain") return list.domain;
    if (name == "rbl_reason" || name == "rbl_txt") return reason;
    if (name == "rbl_what") return question.what;
    if (name == "rbl_class") return std::string(question.kind);
    return session_attribute(name, e.subject, s, e.tools.loop.clock().wall_now());
  };
  std::string text = s.default_rbl_reply;
  if (!e.policy.rbl_reply_maps.empty()) {
    const auto found = co_await e.tools.tables.ask([maps = e.policy.rbl_reply_maps, &list]() -> map::Value {
      auto value = maps.lookup(list.text);
      if (value && !*value && list.text != list.domain) value = maps.lookup(list.domain);
      return value;
    });
    if (!found) co_return e.server_error("rbl_reply_maps: " + found.error().message());
    if (const auto why = *found ? template_problem(**found, ReplyNames::of_dns_lists) : std::string(); !why.empty())
      log::warning("bad rbl reply template for domain {}: {}: {}", list.text, why, **found);
    else if (*found)
      text = **found;
  }
  co_return refuse_with(e, expand_reply(text, names, e.policy.expansion_filter).text);
}

/// Refuses what the list has.
[[gnu::noinline]] async::Task<Answer> refuse_listed(Evaluation& e, const Restriction& r, ListQuestion question) {
  if (!question.name) co_return Answer::dunno;
  const dnsbl::Answer said = co_await e.tools.lists.ask(r.dns_list->domain, *question.name);
  if (!dnsbl::hits(*r.dns_list, said)) co_return Answer::dunno;
  co_return co_await listed_reply(e, *r.dns_list, std::move(question));
}

/// Permits what the list has, where that opens no relay.
[[gnu::noinline]] async::Task<Answer> permit_listed(Evaluation& e, const Restriction& r, ListQuestion question) {
  if (!question.name) co_return Answer::dunno;
  // The operator of a list must not be able to make an open relay of this host.
  if (e.subject.recipient) {
    const auto authorized = co_await authorized_destination(e);
    if (!authorized.value_or(false)) co_return Answer::dunno;
  }
  const dnsbl::Answer said = co_await e.tools.lists.ask(r.dns_list->domain, *question.name);
  const auto refusal = std::ranges::find_if(said.addresses, dnsbl::means_refused_by_allow_list);
  if (refusal != said.addresses.end()) e.tools.lists.refused_by(r.dns_list->domain, *question.name, *refusal);
  if (refusal != said.addresses.end() || said.state == dnsbl::Answer::State::unknown) {
    co_return e.defer_if_refused("4.7.1", Name{question.what, question.kind}, "Service unavailable");
  }
  co_return dnsbl::hits(*r.dns_list, said) ? Answer::permit : Answer::dunno;
}

}  // namespace

async::Task<Answer> reject_rbl_client(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_listed(e, r, ask_of_address(e, r));
}

async::Task<Answer> permit_dnswl_client(Evaluation& e, const Restriction& r, const Name&) {
  return permit_listed(e, r, ask_of_address(e, r));
}

async::Task<Answer> reject_rhsbl_client(Evaluation& e, const Restriction& r, const Name&) {
  const std::string& name = e.subject.client->peer.name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await refuse_listed(e, r, ask_of_name(r, name, "Client host"));
}

async::Task<Answer> permit_rhswl_client(Evaluation& e, const Restriction& r, const Name&) {
  const std::string& name = e.subject.client->peer.name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await permit_listed(e, r, ask_of_name(r, name, "Client host"));
}

async::Task<Answer> reject_rhsbl_reverse_client(Evaluation& e, const Restriction& r, const Name&) {
  const std::string& name = e.subject.client->peer.reverse_name;
  if (iequals(name, kUnknown)) co_return Answer::dunno;
  co_return co_await refuse_listed(e, r, ask_of_name(r, name, "Unverified Client host"));
}

async::Task<Answer> reject_rhsbl_helo(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_listed(e, r, ask_of_name(r, e.subject.client->helo, "Helo command"));
}

async::Task<Answer> reject_rhsbl_sender(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_listed(e, r, ask_of_name(r, e.subject.sender.value_or(""), "Sender address"));
}

async::Task<Answer> reject_rhsbl_recipient(Evaluation& e, const Restriction& r, const Name&) {
  return refuse_listed(e, r, ask_of_name(r, e.subject.recipient.value_or(""), "Recipient address"));
}

void ask_ahead_of_recipient(Evaluation& e) {
  if (!e.policy.named_lists || !asked_ahead(*e.subject.client)) return;
  ask_ahead_about_name(e.tools.lists, e.policy.named_lists->recipient, host_of(*e.subject.recipient));
}

}  // namespace pen::smtpd::restrictions
