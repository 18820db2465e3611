/// Restrictions on the login.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/idn/fold.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/delimiters.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

/// owned_only: a client that has logged in may use addresses without an owner.
[[gnu::noinline]] async::Task<Answer> login_mismatch(Evaluation& e, bool owned_only) {
  const Login* login = e.subject.client->login.get();
  const auto& maps = e.policy.auth.sender_logins;
  // As in Postfix: main.cf names the restriction for submission, and at port 25 mail comes back from lists. XCLIENT may
  // have told a login all the same, with what it permits.
  if (!e.policy.settings.smtpd_sasl_auth_enable && !login) co_return Answer::dunno;
  if (maps.empty() || !e.subject.sender || e.subject.sender->empty()) co_return Answer::dunno;

  // Look up the address as routing sees it, in the order of virtual(5): user+ext@domain, user@domain, user (for local
  // domains), @domain.
  const auto address = co_await e.tools.tables.ask(
      [resolve = e.policy.resolve, sender = *e.subject.sender] { return resolve->without_route(sender); });
  if (!address) {
    log::warning("mydestination: {}", address.error().message());
    co_return e.table_problem(*e.subject.sender);
  }
  const auto cls = co_await class_of(e, mail::domain_part(*address));
  auto owners = co_await e.tools.tables.ask(
      [maps, address = *address,
       delimiters = mail::delimiters(e.policy.settings.recipient_delimiter, e.policy.settings.owner_request_special),
       local = cls.value_or(resolve::AddressClass::other) == resolve::AddressClass::local] {
        return map::find_address(maps, address, {.bare_user = local, .at_domain = true, .delimiters = delimiters});
      });
  if (!cls || !owners) {
    log::warning("smtpd_sender_login_maps: {}", owners ? cls.error().message() : owners.error().message());
    co_return e.table_problem(*e.subject.sender);
  }
  if (!login) {  // an address that has an owner is for its owner only
    if (!*owners) co_return Answer::dunno;
    co_return e.refuse(553, "5.7.1", e.sender_label(), "not logged in");
  }
  if (!*owners && owned_only) co_return Answer::dunno;
  if (*owners) {
    const auto names = split((*owners)->value);
    if (std::ranges::any_of(names, [&](auto name) { return idn::equal(name, login->username); }))
      co_return Answer::dunno;
  }
  co_return e.refuse(553, "5.7.1", e.sender_label(), fmt::format("not owned by user {}", login->username));
}

}  // namespace

Answer permit_sasl_authenticated(Evaluation& e, const Restriction& r, const Name&) {
  const bool proved = e.subject.client->login && !iequals(e.subject.client->login->method, "ANONYMOUS");
  return proved ? e.permits(r.name, e.client_name()) : Answer::dunno;
}

async::Task<Answer> reject_sender_login_mismatch(Evaluation& e, const Restriction&, const Name&) {
  return login_mismatch(e, false);
}

async::Task<Answer> reject_authenticated_sender_login_mismatch(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.client->login) co_return Answer::dunno;
  co_return co_await login_mismatch(e, false);
}

async::Task<Answer> reject_unauthenticated_sender_login_mismatch(Evaluation& e, const Restriction&, const Name&) {
  if (e.subject.client->login) co_return Answer::dunno;
  co_return co_await login_mismatch(e, false);
}

async::Task<Answer> reject_known_sender_login_mismatch(Evaluation& e, const Restriction&, const Name&) {
  return login_mismatch(e, true);
}

}  // namespace pen::smtpd::restrictions
