#pragma once
/// Tells why mail goes unsigned that somebody may expect to be signed, once a day for each cause.
///
/// Use:     if (auto line = unsigned_mail.why(signing, {.author = …, .trusted = …, .client_name = …}, now)) log it
/// Tells:   a trusted client's mail whose author no table names; mail in the name of a domain that is signed, from a
///          client that is neither trusted nor logged in (but for those of ExternalIgnoreList).
/// Bounds:  kMost causes are remembered. While the list is full, others are not told.
/// Thread:  that of its owner. No clock.
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/signing/signing.h"

namespace pen::signing {

class UnsignedMail {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::chrono::hours kFor{24};
  struct Message {
    std::string author;    // its address
    bool trusted = false;  // its client is, or has logged in
    std::string_view client_name, client_address;
  };
  std::optional<std::string> why(const Signing& signing, const Message& message, SteadyTime now);

 private:
  bool first(std::string cause, SteadyTime now);
  std::map<std::string, SteadyTime> told_;
};

}  // namespace pen::signing
