#pragma once
/// The sender of address probes: address_verify_sender, with a part that depends on the time if
/// address_verify_sender_ttl says so.
///
/// Use:     const auto sender = probe_sender(settings);  sender.at(now);  sender.accepts(recipient, now)
/// Rules:   the part is the number of the current span of ttl, in letters and digits. Mail to the sender of this span
///          and of the one before is taken, so that a host may ask back.
/// Source:  Postfix address_verify_sender_ttl.
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/config/settings.h"

namespace pen::resolve {

class ProbeSender {
 public:
  /// setting: "" and "<>" are the null sender; a name without domain gets myorigin.
  ProbeSender(std::string_view setting, seconds ttl, std::string_view myorigin);
  std::string at(WallTime now) const;
  /// Whether this is its address, now or a short while ago.
  bool accepts(std::string_view address, WallTime now) const;

 private:
  std::string in_span(long long span) const;
  std::string local_, domain_;
  seconds ttl_;
};

inline ProbeSender probe_sender(const config::Settings& s) {
  return {s.address_verify_sender, std::chrono::ceil<seconds>(s.address_verify_sender_ttl), s.myorigin};
}

}  // namespace pen::resolve
