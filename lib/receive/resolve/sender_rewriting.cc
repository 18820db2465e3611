#include "lib/receive/resolve/sender_rewriting.h"

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/srs/secrets.h"

namespace pen::resolve {

Result<std::shared_ptr<const SenderRewriting>> SenderRewriting::open(const Options& options) {
  const SrsOptions& o = options.srs;
  if (o.domain.empty()) return nullptr;
  const auto bad = [](std::string what) { return fail(ResolveError::bad_setting, std::move(what)); };
  if (!mail::valid_hostname(o.domain, true)) return bad("srs_domain: not a domain: \"" + o.domain + "\"");
  if (o.separator.size() != 1 || o.separator.find_first_of("=+-") != 0)
    return bad("srs_separator: not =, + or -: \"" + o.separator + "\"");
  if (o.secrets_file.empty()) return bad("srs_domain is set, but srs_secrets_file is not");
  PEN_TRY(map::declared("srs_secrets_file"));
  auto secrets = srs::read_secrets(o.secrets_file);
  if (!secrets) return fail(std::move(secrets).error().within("srs_secrets_file"));
  auto excluded = map::MatchList::open(map::MatchList::Kind::domain, o.exclude_domains,
                                       {.open = options.open.of("srs_exclude_domains")});
  if (!excluded) return fail(std::move(excluded).error().within("srs_exclude_domains"));
  srs::Srs srs({.secrets = *std::move(secrets),
                .hash_length = o.hash_length,
                .hash_minimum = o.hash_minimum,
                .separator = o.separator.front(),
                .max_age = o.max_age_days});
  return std::shared_ptr<const SenderRewriting>(
      new SenderRewriting(std::move(srs), to_lower(o.domain), *std::move(excluded),
                          options.clock != nullptr ? *options.clock : system_clock()));
}

std::optional<Result<std::string>> SenderRewriting::original(std::string_view recipient) const {
  if (!idn::same_domain(mail::domain_part(recipient), domain_) || !srs::Srs::rewritten(recipient)) return std::nullopt;
  return srs_.reverse(recipient, clock_.wall_now());
}

Result<std::string> SenderRewriting::forward(std::string_view sender) const {
  const std::string domain = to_lower(mail::domain_part(sender));
  if (domain.empty() || idn::same_domain(domain, domain_)) return std::string();
  PEN_TRY_ASSIGN(const bool excluded, excluded_.matches(domain));
  if (excluded) return std::string();
  auto rewritten = srs_.forward(sender, domain_, clock_.wall_now());
  // Of an address literal no bounce could come back: it stays as it is.
  return rewritten ? *std::move(rewritten) : std::string();
}

}  // namespace pen::resolve
