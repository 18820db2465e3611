#include "lib/mail/delivery_status.h"

namespace pen::mail {

std::string_view peers_words(const DeliveryStatus& status) {
  std::string_view text = status.diagnostic;
  if (text.starts_with("smtp; ")) return text.substr(6);
  if (status.remote_mta.empty()) return {};
  constexpr std::string_view kSaid = " said: ";
  text = status.text;
  const auto said = text.find(kSaid);
  return said == std::string_view::npos ? std::string_view() : text.substr(said + kSaid.size());
}

}  // namespace pen::mail
