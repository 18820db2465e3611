#include "lib/receive/resolve/probe_sender.h"

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::resolve {
namespace {

// No vowels: a number must not be a word.
constexpr std::string_view kDigits = "0123456789bcdfghjklmnpqrstvwxyz";

}  // namespace

ProbeSender::ProbeSender(std::string_view setting, seconds ttl, std::string_view myorigin) : ttl_(ttl) {
  setting = trim(setting);
  if (setting.empty() || setting == "<>") return;
  local_ = mail::local_part(setting);
  domain_ = mail::domain_part(setting);
  if (domain_.empty()) domain_ = myorigin;
}

std::string ProbeSender::in_span(long long span) const {
  std::string digits;
  for (; span > 0; span /= static_cast<long long>(kDigits.size()))
    digits += kDigits[static_cast<std::size_t>(span) % kDigits.size()];
  return local_ + digits + "@" + domain_;
}

std::string ProbeSender::at(WallTime now) const {
  if (local_.empty()) return {};
  return ttl_ <= seconds(0) ? local_ + "@" + domain_ : in_span(unix_seconds(now) / ttl_.count());
}

bool ProbeSender::accepts(std::string_view address, WallTime now) const {
  if (local_.empty()) return false;
  return iequals(address, at(now)) || (ttl_ > seconds(0) && iequals(address, at(now - ttl_)));
}

}  // namespace pen::resolve
