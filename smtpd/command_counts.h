#pragma once
/// How many commands of each kind a client has given, and how many were served: for the line of the log about its end.
///
/// Use:     counts.add(Verb::mail, true);   "disconnect from …" + counts.text()
/// Memory:  nothing before the first command.
/// Thread:  any, one at a time.
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/mail/command.h"

namespace pen::smtpd {

class CommandCounts {
 public:
  void add(mail::Verb verb, bool ok);
  /// " ehlo=1 mail=1/2 commands=2/3": those that were served of those that were given.
  std::string text() const;

 private:
  struct Counts {
    std::array<std::uint32_t, mail::kVerbs> tried{}, succeeded{};
  };
  std::unique_ptr<Counts> counts_;  // nullptr: there was no command
};

}  // namespace pen::smtpd
