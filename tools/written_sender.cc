#include "tools/written_sender.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/expanded.h"
#include "lib/receive/resolve/from_settings.h"

namespace pen::tools {

WrittenSender::WrittenSender(const config::Config& config) : config_(config) {
  if (config.settings().srs_domain.empty()) return;
  auto opened = resolve::Resolve::open(resolve::from_settings(config.settings()));
  if (opened)
    resolve_ = *std::move(opened);
  else
    problem_ = opened.error().message();
}

bool WrittenSender::always() const { return config_.settings().srs_forward == config::SrsForward::always; }

std::string WrittenSender::of(const std::string& sender, const std::string& recipient, const std::string& transport) {
  if (!resolve_ || sender.empty()) return {};
  const auto& services = config_.master();
  const bool mail_protocol = std::ranges::any_of(services, [&](const config::Service& s) {
    return s.name == transport && s.type == config::ServiceType::unix_stream &&
           (s.command == "smtp" || s.command == "lmtp");
  });
  if (!mail_protocol) return {};
  const auto cls = resolve_->class_of(mail::domain_part(recipient));
  if (cls && *cls != resolve::AddressClass::other) return {};
  auto written = resolve_->forwarded_sender(sender);
  if (!cls || !written) {
    problem_ = (cls ? written.error() : cls.error()).message();
    return {};
  }
  return *std::move(written);
}

std::string WrittenSender::of(const mail::Envelope& envelope, const mail::Recipient& recipient,
                              const std::string& transport) {
  if (!envelope.verp.empty() || !envelope.filter.empty()) return {};
  const bool forwarded = always() || !iequals(recipient.shown_original(), recipient.address) ||
                         (recipient.notify & mail::notify::kCopy) != 0;
  return forwarded ? of(envelope.sender, recipient.address, transport) : std::string();
}

}  // namespace pen::tools
