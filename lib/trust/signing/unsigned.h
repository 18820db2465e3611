#pragma once
/// Reports why mail goes unsigned that its sender may expect to be signed, once a day for each cause.
///
/// Use:     if (auto line = unsigned_mail.why(signing, {.author = …, .trusted = …, .client_name = …}, now)) log it
/// Reports: a trusted client's mail with an author that no table names; mail in the name of a domain that is signed,
///          from a client that is neither trusted nor logged in (but for those of ExternalIgnoreList). No key is
///          asked for.
/// Bounds:  kMost causes of either kind are remembered, each for kFor: strangers can fill their own list, and hide
///          nothing of trusted clients. The line that fills a list says so, and further causes are not reported until
///          one is forgotten.
/// Thread:  that of its owner. No clock.
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "lib/base/time.h"
#include "lib/trust/signing/signing.h"

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
  class Told {
   public:
    /// Whether it is to be reported now. Forgets what is older than kFor.
    bool lacks(const std::string& cause, SteadyTime now);
    /// The line, with what follows from a list that is full now.
    std::string add(std::string cause, std::string line, SteadyTime now);

   private:
    std::unordered_set<std::string> causes_;
    std::deque<std::pair<SteadyTime, std::string>> until_;  // the same, the first that is forgotten first
  };
  Told of_trusted_, of_others_;
};

}  // namespace pen::signing
