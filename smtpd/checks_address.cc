/// Restrictions on the sender's and the recipient's address: destinations, listed users, existing domains.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/reply.h"
#include "smtpd/checks.h"

namespace pen::smtpd {

Checks::Answer Checks::fully_qualified(std::string_view address, const Name& name) {
  if (address.empty()) return Answer::dunno;
  const auto domain = mail::domain_part(address);
  const bool literal = domain.starts_with('[') && mail::literal_address(domain);
  if (literal || mail::fully_qualified(domain, policy_.settings.smtputf8_enable)) return Answer::dunno;
  return refuse(policy_.settings.non_fqdn_reject_code, "5.5.2", name, "need fully-qualified address");
}

Checks::Answer Checks::reject_non_fqdn_sender(const Restriction&, const Name&) {
  return subject_.sender ? fully_qualified(*subject_.sender, sender_label()) : Answer::dunno;
}

Checks::Answer Checks::reject_non_fqdn_recipient(const Restriction&, const Name&) {
  return subject_.recipient ? fully_qualified(*subject_.recipient, recipient_label()) : Answer::dunno;
}

async::Task<Result<resolve::AddressClass>> Checks::class_of(std::string_view domain) {
  if (domain.empty()) co_return resolve::AddressClass::local;
  co_return co_await tools_.tables.ask([&] { return policy_.resolve->class_of(domain); });
}

async::Task<Result<bool>> Checks::authorized_destination() {
  const std::string address = policy_.resolve->rewrite(*subject_.recipient);
  PEN_CO_TRY_ASSIGN(const auto cls, co_await class_of(mail::domain_part(address)));
  co_return cls != resolve::AddressClass::other && !routed_elsewhere(address);
}

bool Checks::routed_elsewhere(std::string_view address) const {
  // Quotes hide nothing, whatever resolve_dequoted_address says of us: the next host may look into them.
  const std::string local = mail::unquote_local(mail::local_part(address));
  if (local.find_first_of("@%!") == std::string::npos || policy_.settings.allow_untrusted_routing) return false;
  // What stands in the local part of a rewritten sender of ours routes nothing.
  const auto original = policy_.resolve->original_sender(address);
  return !original || !*original;
}

async::Task<Checks::Answer> Checks::permit_auth_destination(const Restriction& r, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  // If the class cannot be found out, reject_unauth_destination will answer.
  const auto authorized = co_await authorized_destination();
  co_return authorized.value_or(false) ? permits(r.name, recipient_label()) : Answer::dunno;
}

async::Task<Checks::Answer> Checks::reject_unauth_destination(const Restriction&, const Name&) {
  return guard_relaying(policy_.settings.relay_domains_reject_code, "5.7.1");
}

async::Task<Checks::Answer> Checks::defer_unauth_destination(const Restriction&, const Name&) {
  return guard_relaying(454, "4.7.1");
}

async::Task<Checks::Answer> Checks::guard_relaying(int code, std::string_view dsn) {
  if (!subject_.recipient) co_return Answer::dunno;
  const auto authorized = co_await authorized_destination();
  if (!authorized) {
    log::warning("{}: address class: {}", *subject_.recipient, authorized.error().message());
    co_return table_problem(*subject_.recipient);
  }
  if (*authorized) co_return Answer::dunno;
  co_return refuse(code, dsn, Name{*subject_.recipient, ""}, "Relay access denied");
}

async::Task<Checks::Answer> Checks::reject_unlisted_sender(const Restriction&, const Name&) {
  if (!subject_.sender) co_return Answer::dunno;
  co_return co_await unlisted(*subject_.sender, sender_label(), true);
}

async::Task<Checks::Answer> Checks::reject_unlisted_recipient(const Restriction&, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  co_return co_await unlisted(*subject_.recipient, recipient_label(), false);
}

Checks::Answer Checks::unreadable(const std::string& given, const std::string& address, const Error& error) {
  log::warning("{}: recipient tables: {}", address, error.message());
  return table_problem(given);
}

async::Task<Checks::Answer> Checks::unlisted(std::string given, Name name, bool sender) {
  if (given.empty()) co_return Answer::dunno;
  using resolve::AddressClass;
  const std::string address = policy_.resolve->rewrite(given);
  const auto cls = co_await class_of(mail::domain_part(address));
  if (!cls) co_return unreadable(given, address, cls.error());
  const auto listed = co_await tools_.tables.ask(
      [resolve = policy_.resolve, address, sender] { return resolve->listed(address, sender); });
  if (!listed) co_return unreadable(given, address, listed.error());
  if (*listed == resolve::Listed::moved) co_return co_await moved_away(given, address, name, sender);
  if (*listed == resolve::Listed::elsewhere) co_return Answer::dunno;
  if (*cls != AddressClass::virtual_alias) {  // for that class the table alone decides
    const auto refused = co_await refused_by_route(address, name, sender);
    if (!refused) co_return unreadable(given, address, refused.error());
    if (*refused != Answer::dunno) co_return *refused;
  }
  if (*listed != resolve::Listed::no || sends_probes(address)) co_return Answer::dunno;
  if (*cls == AddressClass::local && iequals(mail::local_part(address), "postmaster"))
    co_return Answer::dunno;  // RFC 5321 section 4.5.1: postmaster of every local domain takes mail
  co_return refuse(unlisted_code(*cls), sender ? "5.1.0" : "5.1.1", name, unlisted_text(*cls),
                   mail::ErrorClass::bounce);
}

int Checks::unlisted_code(resolve::AddressClass cls) const {
  using resolve::AddressClass;
  const auto& s = policy_.settings;
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

std::string Checks::unlisted_text(resolve::AddressClass cls) const {
  std::string text = "User unknown";
  if (policy_.settings.show_user_unknown_table_name) {
    const auto shown = policy_.resolve->unlisted_text(cls);
    if (istarts_with(shown, "user unknown"))
      text = std::string(shown);
    else if (!shown.empty())
      text = "User " + std::string(shown);
  }
  return text;
}

async::Task<Checks::Answer> Checks::moved_away(std::string given, std::string address, Name name, bool sender) {
  const auto moved =
      co_await tools_.tables.ask([resolve = policy_.resolve, address] { return resolve->moved(address); });
  if (!moved) co_return unreadable(given, address, moved.error());
  if (!*moved) co_return Answer::dunno;  // the table has changed since
  const std::string_view says = **moved;
  const auto dsn = mail::enhanced_code(says).value_or("5.1.6");
  const bool of_mailbox = dsn.substr(1) == ".1.6";  // this status is for recipients only
  co_return refuse(dsn.front() == '4' ? 450 : 550, sender && of_mailbox ? "5.1.0" : dsn, name,
                   trim(says.substr(dsn.size())), mail::ErrorClass::bounce);
}

async::Task<Result<Checks::Answer>> Checks::refused_by_route(std::string address, Name name, bool sender) {
  const std::string from = subject_.sender.value_or("");
  PEN_CO_TRY_ASSIGN(const auto route,
                    co_await tools_.tables.ask([&] { return policy_.resolve->route(from, address); }));
  const bool retry = route.transport == "retry";
  if (!retry && route.transport != "error") co_return Answer::dunno;
  // Where the mail goes is decided for the address that a table puts in this one's place.
  PEN_CO_TRY_ASSIGN(
      const bool changed, co_await tools_.tables.ask([resolve = policy_.resolve, address]() -> Result<bool> {
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
  co_return refuse(retry ? 450 : 550, dsn, name, text, mail::ErrorClass::bounce);
}

async::Task<Checks::Answer> Checks::reject_unknown_sender_domain(const Restriction&, const Name&) {
  if (!subject_.sender) co_return Answer::dunno;
  co_return co_await domain_known(*subject_.sender, sender_label(), "4.1.8", "5.7.27", 550);
}

async::Task<Checks::Answer> Checks::reject_unknown_recipient_domain(const Restriction&, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  co_return co_await domain_known(*subject_.recipient, recipient_label(), "4.1.2", "5.1.10", 556);
}

async::Task<Checks::Answer> Checks::domain_known(const std::string& given, Name name, std::string_view missing_dsn,
                                                 std::string_view null_mx_dsn, int null_mx_code) {
  const std::string address = policy_.resolve->rewrite(given);
  std::string domain(mail::domain_part(address));
  if (given.empty() || domain.empty() || domain.front() == '[') co_return Answer::dunno;
  const auto cls = co_await class_of(domain);
  using resolve::AddressClass;  // where mail ends here, DNS has no say; where it only passes, it has
  if (cls && *cls != AddressClass::relay && *cls != AddressClass::other) co_return Answer::dunno;
  const NameState state = co_await tools_.names.mail_domain(std::move(domain), {});
  const auto& s = policy_.settings;
  switch (state) {
    case NameState::ok:
      co_return Answer::dunno;
    case NameState::missing:
      co_return refuse(s.unknown_address_reject_code, missing_dsn, name, "Domain not found");
    case NameState::null_mx:
      co_return refuse(null_mx_code, null_mx_dsn, name,
                       fmt::format("Domain {} does not accept mail (nullMX)", mail::domain_part(address)));
    case NameState::temporary:
      break;
  }
  if (s.unknown_address_tempfail_action == config::TempfailAction::defer)
    co_return refuse(450, missing_dsn, name, "Domain not found");
  co_return refuse_if_permitted(450, missing_dsn, name, "Domain not found");
}

}  // namespace pen::smtpd
