/// Restrictions on the sender's and the recipient's address: destinations, listed users, existing domains.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/reply.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

Answer fully_qualified(Evaluation& e, std::string_view address, const Name& name) {
  if (address.empty()) return Answer::dunno;
  const auto domain = mail::domain_part(address);
  const bool literal = domain.starts_with('[') && mail::literal_address(domain);
  if (literal || mail::fully_qualified(domain, e.policy.settings.smtputf8_enable)) return Answer::dunno;
  return e.refuse(e.policy.settings.non_fqdn_reject_code, "5.5.2", name, "need fully-qualified address");
}

[[gnu::noinline]] async::Task<Answer> guard_relaying(Evaluation& e, int code, std::string_view dsn) {
  if (!e.subject.recipient) co_return Answer::dunno;
  const auto authorized = co_await authorized_destination(e);
  if (!authorized) {
    log::warning("{}: address class: {}", *e.subject.recipient, authorized.error().message());
    co_return e.table_problem(*e.subject.recipient);
  }
  if (*authorized) co_return Answer::dunno;
  co_return e.refuse(code, dsn, Name{*e.subject.recipient, ""}, "Relay access denied");
}

Answer unreadable(Evaluation& e, const std::string& given, const std::string& address, const Error& error) {
  log::warning("{}: recipient tables: {}", address, error.message());
  return e.table_problem(given);
}

int unlisted_code(Evaluation& e, resolve::AddressClass cls) {
  using resolve::AddressClass;
  const auto& s = e.policy.settings;
  switch (cls) {
    case AddressClass::relay:
      return s.unknown_relay_recipient_reject_code;
    case AddressClass::virtual_alias:
      return s.unknown_virtual_alias_reject_code;
    case AddressClass::virtual_mailbox:
      return s.unknown_virtual_mailbox_reject_code;
    case AddressClass::local:
    case AddressClass::other:
      break;
  }
  return s.unknown_local_recipient_reject_code;
}

std::string unlisted_text(Evaluation& e, resolve::AddressClass cls) {
  std::string text = "User unknown";
  if (e.policy.settings.show_user_unknown_table_name) {
    const auto shown = e.policy.resolve->unlisted_text(cls);
    if (istarts_with(shown, "user unknown"))
      text = std::string(shown);
    else if (!shown.empty())
      text = "User " + std::string(shown);
  }
  return text;
}

/// Refuses with the text of relocated_maps.
[[gnu::noinline]] async::Task<Answer> moved_away(Evaluation& e, std::string given, std::string address, Name name,
                                                 bool sender) {
  const auto moved =
      co_await e.tools.tables.ask([resolve = e.policy.resolve, address] { return resolve->moved(address); });
  if (!moved) co_return unreadable(e, given, address, moved.error());
  if (!*moved) co_return Answer::dunno;  // the table has changed since
  const std::string_view says = **moved;
  const auto dsn = mail::enhanced_code(says).value_or("5.1.6");
  const bool of_mailbox = dsn.substr(1) == ".1.6";  // this status is for recipients only
  co_return e.refuse(dsn.front() == '4' ? 450 : 550, sender && of_mailbox ? "5.1.0" : dsn, name,
                     trim(says.substr(dsn.size())), mail::ErrorClass::bounce);
}

/// Refuses if the routing tables lead to the transport error, with its text.
[[gnu::noinline]] async::Task<Result<Answer>> refused_by_route(Evaluation& e, std::string address, Name name,
                                                               bool sender) {
  const std::string from = e.subject.sender.value_or("");
  PEN_CO_TRY_ASSIGN(const auto route,
                    co_await e.tools.tables.ask([&] { return e.policy.resolve->route(from, address); }));
  const bool retry = route.transport == "retry";
  if (!retry && route.transport != "error") co_return Answer::dunno;
  // Where the mail goes is decided for the address that a table puts in this one's place.
  PEN_CO_TRY_ASSIGN(
      const bool changed, co_await e.tools.tables.ask([resolve = e.policy.resolve, address]() -> Result<bool> {
        PEN_TRY_ASSIGN(const std::string canonical, resolve->canonical(address, resolve::Place::envelope_recipient));
        PEN_TRY_ASSIGN(const auto expansion, resolve->expand_virtual(canonical));
        return canonical != address || expansion.changed;
      }));
  if (changed) co_return Answer::dunno;
  const char digit = retry ? '4' : '5';
  std::string_view text = route.nexthop;
  std::string dsn = take_dsn(text);
  if (dsn.empty()) dsn = "5.1.1";
  dsn.front() = digit;  // as in Postfix, the transport decides the class, and the text the rest
  if (sender && dsn.substr(1).starts_with(".1.")) dsn = std::string(1, digit) + ".1.0";  // x.1.x is for recipients
  if (text.empty()) text = "Address is undeliverable";
  co_return e.refuse(retry ? 450 : 550, dsn, name, text, mail::ErrorClass::bounce);
}

[[gnu::noinline]] async::Task<Answer> domain_known(Evaluation& e, const std::string& given, Name name,
                                                   std::string_view missing_dsn, std::string_view null_mx_dsn,
                                                   int null_mx_code) {
  const std::string address = e.policy.resolve->rewrite(given);
  std::string domain(mail::domain_part(address));
  if (given.empty() || domain.empty() || domain.front() == '[') co_return Answer::dunno;
  const auto cls = co_await class_of(e, domain);
  using resolve::AddressClass;  // where mail ends here, DNS has no say; where it only passes, it has
  if (cls && *cls != AddressClass::relay && *cls != AddressClass::other) co_return Answer::dunno;
  const NameState state = co_await e.tools.names.mail_domain(std::move(domain), {});
  const auto& s = e.policy.settings;
  switch (state) {
    case NameState::ok:
      co_return Answer::dunno;
    case NameState::missing:
      co_return e.refuse(s.unknown_address_reject_code, missing_dsn, name, "Domain not found");
    case NameState::null_mx:
      co_return e.refuse(null_mx_code, null_mx_dsn, name,
                         fmt::format("Domain {} does not accept mail (nullMX)", mail::domain_part(address)));
    case NameState::temporary:
      break;
  }
  if (s.unknown_address_tempfail_action == config::TempfailAction::defer)
    co_return e.refuse(450, missing_dsn, name, "Domain not found");
  co_return e.refuse_if_permitted(450, missing_dsn, name, "Domain not found");
}

}  // namespace

Answer reject_non_fqdn_sender(Evaluation& e, const Restriction&, const Name&) {
  return e.subject.sender ? fully_qualified(e, *e.subject.sender, e.sender_label()) : Answer::dunno;
}

Answer reject_non_fqdn_recipient(Evaluation& e, const Restriction&, const Name&) {
  return e.subject.recipient ? fully_qualified(e, *e.subject.recipient, e.recipient_label()) : Answer::dunno;
}

std::string_view host_of(std::string_view address) {
  return address.contains('@') ? mail::domain_part(address) : address;
}

async::Task<Result<resolve::AddressClass>> class_of(Evaluation& e, std::string_view domain) {
  if (domain.empty()) co_return resolve::AddressClass::local;
  co_return co_await e.tools.tables.ask([&] { return e.policy.resolve->class_of(domain); });
}

async::Task<Result<bool>> authorized_destination(Evaluation& e) {
  const std::string address = e.policy.resolve->rewrite(*e.subject.recipient);
  PEN_CO_TRY_ASSIGN(const auto cls, co_await class_of(e, mail::domain_part(address)));
  co_return cls != resolve::AddressClass::other && !routed_elsewhere(e, address);
}

bool routed_elsewhere(const Evaluation& e, std::string_view address) {
  // Quotes hide nothing, whatever resolve_dequoted_address says of us: the next host may look into them.
  const std::string local = mail::unquote_local(mail::local_part(address));
  if (local.find_first_of("@%!") == std::string::npos || e.policy.settings.allow_untrusted_routing) return false;
  // What stands in the local part of a rewritten sender of ours routes nothing.
  const auto original = e.policy.resolve->original_sender(address);
  return !original || !*original;
}

async::Task<Answer> permit_auth_destination(Evaluation& e, const Restriction& r, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  // If the class cannot be found out, reject_unauth_destination will answer.
  const auto authorized = co_await authorized_destination(e);
  co_return authorized.value_or(false) ? e.permits(r.name, e.recipient_label()) : Answer::dunno;
}

async::Task<Answer> reject_unauth_destination(Evaluation& e, const Restriction&, const Name&) {
  return guard_relaying(e, e.policy.settings.relay_domains_reject_code, "5.7.1");
}

async::Task<Answer> defer_unauth_destination(Evaluation& e, const Restriction&, const Name&) {
  return guard_relaying(e, 454, "4.7.1");
}

async::Task<Answer> reject_unlisted_sender(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.sender) co_return Answer::dunno;
  co_return co_await unlisted(e, *e.subject.sender, e.sender_label(), true);
}

async::Task<Answer> reject_unlisted_recipient(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  co_return co_await unlisted(e, *e.subject.recipient, e.recipient_label(), false);
}

async::Task<Answer> unlisted(Evaluation& e, std::string given, Name name, bool sender) {
  if (given.empty()) co_return Answer::dunno;
  using resolve::AddressClass;
  const std::string address = e.policy.resolve->rewrite(given);
  const auto cls = co_await class_of(e, mail::domain_part(address));
  if (!cls) co_return unreadable(e, given, address, cls.error());
  const auto listed = co_await e.tools.tables.ask(
      [resolve = e.policy.resolve, address, sender] { return resolve->listed(address, sender); });
  if (!listed) co_return unreadable(e, given, address, listed.error());
  if (*listed == resolve::Listed::moved) co_return co_await moved_away(e, given, address, name, sender);
  if (*listed == resolve::Listed::elsewhere) co_return Answer::dunno;
  if (*cls != AddressClass::virtual_alias) {  // for that class the table alone decides
    const auto refused = co_await refused_by_route(e, address, name, sender);
    if (!refused) co_return unreadable(e, given, address, refused.error());
    if (*refused != Answer::dunno) co_return *refused;
  }
  if (*listed != resolve::Listed::no || sends_probes(e, address)) co_return Answer::dunno;
  if (*cls == AddressClass::local && iequals(mail::local_part(address), "postmaster"))
    co_return Answer::dunno;  // RFC 5321 section 4.5.1: postmaster of every local domain takes mail
  // Postfix has the status for a recipient in the text of this class, and makes one for senders of that.
  const std::string_view of_sender = *cls == AddressClass::virtual_alias ? "5.1.7" : "5.1.0";
  co_return e.refuse(unlisted_code(e, *cls), sender ? of_sender : "5.1.1", name, unlisted_text(e, *cls),
                     mail::ErrorClass::bounce);
}

async::Task<Answer> reject_unknown_sender_domain(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.sender) co_return Answer::dunno;
  co_return co_await domain_known(e, *e.subject.sender, e.sender_label(), "4.1.8", "5.7.27", 550);
}

async::Task<Answer> reject_unknown_recipient_domain(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  co_return co_await domain_known(e, *e.subject.recipient, e.recipient_label(), "4.1.2", "5.1.10", 556);
}

}  // namespace pen::smtpd::restrictions
