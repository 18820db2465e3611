/// ETRN: a host that is not always there asks for the mail of a domain (RFC 1985).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<Flow> Session::etrn(const mail::CommandLine& line) {
  if (talk_.settings().smtpd_helo_required && talk_.client.helo.empty())
    co_return co_await talk_.refuse("503 Error: send HELO/EHLO first", mail::ErrorClass::policy);
  if (talk_.transaction) co_return co_await talk_.refuse("503 Error: MAIL transaction in progress");
  const auto words = split(line.args, " \t");
  if (words.size() != 1) co_return co_await talk_.refuse("500 Syntax: ETRN domain");
  std::string domain = to_lower(words.front());
  if (domain.starts_with('@') || domain.starts_with('#')) domain.erase(0, 1);
  const bool valid = domain.starts_with('[') ? mail::literal_address(domain).has_value()
                                             : mail::valid_hostname(domain, talk_.settings().smtputf8_enable);
  if (!valid || domain.size() > 255) co_return co_await talk_.refuse("501 Error: invalid parameter syntax");
  Subject about = talk_.subject();
  about.where = "ETRN";
  about.etrn_domain = domain;
  const Verdict verdict = co_await talk_.ask(&Checks::etrn, std::move(about));
  if (verdict.rejected()) co_return co_await talk_.refuse(verdict);
  const auto listed =
      co_await talk_.server.intake.tables.ask([this, &domain] { return talk_.policy().fast_flush.matches(domain); });
  if (!listed) {
    log::warning("fast_flush_domains: {}", listed.error().message());
    co_return co_await talk_.refuse("458 Unable to queue messages", mail::ErrorClass::data);
  }
  if (!*listed) {
    log::warning("reject: ETRN {} from {}", domain, talk_.client.peer.shown());
    co_return co_await talk_.refuse(fmt::format("459 <{}>: service unavailable", domain), mail::ErrorClass::policy);
  }
  if (!talk_.server.site_flush || !talk_.server.site_flush->ask(domain)) {
    log::warning("ETRN {} from {}: too many domains wait for their flush", domain, talk_.client.peer.shown());
    co_return co_await talk_.refuse("458 Unable to queue messages", mail::ErrorClass::resource);
  }
  talk_.reply("250 Queuing started");
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
