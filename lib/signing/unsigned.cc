#include "lib/signing/unsigned.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::signing {

bool UnsignedMail::first(std::string cause, SteadyTime now) {
  if (const auto found = told_.find(cause); found != told_.end()) {
    if (now < found->second) return false;
    found->second = now + kFor;
    return true;
  }
  if (told_.size() >= kMost) std::erase_if(told_, [&](const auto& one) { return one.second <= now; });
  if (told_.size() >= kMost) return false;
  told_.emplace(std::move(cause), now + kFor);
  return true;
}

std::optional<std::string> UnsignedMail::why(const Signing& signing, const Message& message, SteadyTime now) {
  const std::string domain = to_lower(mail::domain_part(message.author));
  if (domain.empty()) return std::nullopt;
  if (message.trusted) {
    if (!first(domain, now)) return std::nullopt;
    return fmt::format("mail of {} is not signed: no table of DKIM keys names {}", printable(domain, 255),
                       printable(message.author, 255));
  }
  const auto keys = signing.keys_for(message.author);
  if (!keys || keys->empty() || signing.ignores(message.client_name, message.client_address)) return std::nullopt;
  if (!first(domain + " " + std::string(message.client_address), now)) return std::nullopt;
  return fmt::format(
      "external host {}[{}] sends mail as {}: it is not signed, for the host is not trusted and has not "
      "logged in",
      message.client_name, message.client_address, printable(domain, 255));
}

}  // namespace pen::signing
