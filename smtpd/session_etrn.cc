/// ETRN: a host that is not always there asks for the mail of a domain (RFC 1985).
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<Session::Flow> Session::etrn(const mail::CommandLine& line) {
  if (settings().smtpd_helo_required && client_.helo.empty())
    co_return co_await refuse("503 Error: send HELO/EHLO first", mail::ErrorClass::policy);
  if (transaction_) co_return co_await refuse("503 Error: MAIL transaction in progress");
  const auto words = split(line.args, " \t");
  if (words.size() != 1) co_return co_await refuse("500 Syntax: ETRN domain");
  std::string domain = to_lower(words.front());
  if (domain.starts_with('@') || domain.starts_with('#')) domain.erase(0, 1);
  const bool valid = domain.starts_with('[') ? mail::literal_address(domain).has_value()
                                             : mail::valid_hostname(domain, settings().smtputf8_enable);
  if (!valid || domain.size() > 255) co_return co_await refuse("501 Error: invalid parameter syntax");
  Subject about = subject();
  about.where = "ETRN";
  about.etrn_domain = domain;
  const Verdict verdict = co_await ask(&Checks::etrn, std::move(about));
  if (verdict.rejected()) co_return co_await refuse(verdict);
  const auto listed =
      co_await server_.intake.tables.ask([this, &domain] { return policy_->fast_flush.matches(domain); });
  if (!listed) {
    log::warning("fast_flush_domains: {}", listed.error().message());
    co_return co_await refuse("458 Unable to queue messages", mail::ErrorClass::data);
  }
  if (!*listed) {
    log::warning("reject: ETRN {} from {}", domain, client_.peer.shown());
    co_return co_await refuse(fmt::format("459 <{}>: service unavailable", domain), mail::ErrorClass::policy);
  }
  if (!server_.site_flush || !server_.site_flush->ask(domain)) {
    log::warning("ETRN {} from {}: too many domains wait for their flush", domain, client_.peer.shown());
    co_return co_await refuse("458 Unable to queue messages", mail::ErrorClass::resource);
  }
  reply("250 Queuing started");
  co_return Flow::go_on;
}

}  // namespace pen::smtpd
