#include "lib/trust/signing/unsigned.h"

#include <fmt/format.h>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::signing {

bool UnsignedMail::Told::lacks(const std::string& cause, SteadyTime now) {
  for (; !until_.empty() && until_.front().first <= now; until_.pop_front()) causes_.erase(until_.front().second);
  return causes_.size() < kMost && !causes_.contains(cause);
}

std::string UnsignedMail::Told::add(std::string cause, std::string line, SteadyTime now) {
  until_.emplace_back(now + kFor, cause);
  causes_.insert(std::move(cause));
  if (causes_.size() == kMost)
    line += fmt::format("; {} such causes were told within a day: others are not told until one is a day old", kMost);
  return line;
}

std::optional<std::string> UnsignedMail::why(const Signing& signing, const Message& message, SteadyTime now) {
  const std::string domain = to_lower(mail::domain_part(message.author));
  if (domain.empty()) return std::nullopt;
  if (message.trusted) {
    if (!of_trusted_.lacks(domain, now)) return std::nullopt;
    return of_trusted_.add(domain,
                           fmt::format("mail of {} is not signed: no table of DKIM keys names {}",
                                       printable(domain, 255), printable(message.author, 255)),
                           now);
  }
  // All mail of strangers comes by here: what costs nothing first.
  std::string cause = fmt::format("{} {}", domain, message.client_address);
  if (!of_others_.lacks(cause, now) || signing.ignores(message.client_name, message.client_address))
    return std::nullopt;
  if (const auto named = signing.names(message.author); !named || !*named) return std::nullopt;
  return of_others_.add(std::move(cause),
                        fmt::format("external host {}[{}] sends mail as {}: it is not signed, for the host is not "
                                    "trusted and has not logged in",
                                    message.client_name, message.client_address, printable(domain, 255)),
                        now);
}

}  // namespace pen::signing
