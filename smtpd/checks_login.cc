/// Restrictions on the login.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/idn/fold.h"
#include "lib/mail/address.h"
#include "lib/mail/delimiters.h"
#include "smtpd/checks.h"

namespace pen::smtpd {

Checks::Answer Checks::permit_sasl_authenticated(const Restriction& r, const Name&) {
  const bool proved = subject_.client->login && !iequals(subject_.client->login->method, "ANONYMOUS");
  return proved ? permits(r.name, client_name()) : Answer::dunno;
}

async::Task<Checks::Answer> Checks::reject_sender_login_mismatch(const Restriction&, const Name&) {
  return login_mismatch(false);
}

async::Task<Checks::Answer> Checks::reject_authenticated_sender_login_mismatch(const Restriction&, const Name&) {
  if (!subject_.client->login) co_return Answer::dunno;
  co_return co_await login_mismatch(false);
}

async::Task<Checks::Answer> Checks::reject_unauthenticated_sender_login_mismatch(const Restriction&, const Name&) {
  if (subject_.client->login) co_return Answer::dunno;
  co_return co_await login_mismatch(false);
}

async::Task<Checks::Answer> Checks::reject_known_sender_login_mismatch(const Restriction&, const Name&) {
  return login_mismatch(true);
}

async::Task<Checks::Answer> Checks::login_mismatch(bool owned_only) {
  const Login* login = subject_.client->login.get();
  const auto& maps = policy_.auth.sender_logins;
  // As in Postfix: main.cf names the restriction for submission, and at port 25 mail comes back from lists. XCLIENT may
  // have told a login all the same, with what it permits.
  if (!policy_.settings.smtpd_sasl_auth_enable && !login) co_return Answer::dunno;
  if (maps.empty() || !subject_.sender || subject_.sender->empty()) co_return Answer::dunno;

  // Look up the address as routing sees it, in the order of virtual(5): user+ext@domain, user@domain, user (for local
  // domains), @domain.
  const auto address = co_await tools_.tables.ask(
      [resolve = policy_.resolve, sender = *subject_.sender] { return resolve->without_route(sender); });
  if (!address) {
    log::warning("mydestination: {}", address.error().message());
    co_return table_problem(*subject_.sender);
  }
  const auto cls = co_await class_of(mail::domain_part(*address));
  auto owners = co_await tools_.tables.ask(
      [maps, address = *address,
       delimiters = mail::delimiters(policy_.settings.recipient_delimiter, policy_.settings.owner_request_special),
       local = cls.value_or(resolve::AddressClass::other) == resolve::AddressClass::local] {
        return map::find_address(maps, address, {.bare_user = local, .at_domain = true, .delimiters = delimiters});
      });
  if (!cls || !owners) {
    log::warning("smtpd_sender_login_maps: {}", owners ? cls.error().message() : owners.error().message());
    co_return table_problem(*subject_.sender);
  }
  if (!login) {  // an address that has an owner is for its owner only
    if (!*owners) co_return Answer::dunno;
    co_return refuse(553, "5.7.1", sender_label(), "not logged in");
  }
  if (!*owners && owned_only) co_return Answer::dunno;
  if (*owners) {
    const auto names = split((*owners)->value);
    if (std::ranges::any_of(names, [&](auto name) { return idn::equal(name, login->username); }))
      co_return Answer::dunno;
  }
  co_return refuse(553, "5.7.1", sender_label(), fmt::format("not owned by user {}", login->username));
}

}  // namespace pen::smtpd
