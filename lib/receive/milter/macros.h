#pragma once
/// The macros that a filter gets: names such as "i" or "{auth_authen}", values from the session and the message.
///
/// Use:     class SessionMacros : public MacroSource { … };   std::string packet = macro_data(Command::mail, names, …);
/// Source:  Postfix MILTER_README "Sendmail macro emulation".
/// Thread:  the loop's.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/receive/milter/protocol.h"

namespace pen::milter {

class MacroSource {
 public:
  virtual ~MacroSource() = default;
  /// The value of a macro, its name without braces. Empty: there is none.
  virtual std::string macro(std::string_view name) const = 0;
};

struct NoMacros final : MacroSource {
  std::string macro(std::string_view) const override { return {}; }
};

/// The data of a macro packet: the event that the macros belong to, then name and value of each that has a value.
/// Names go as they are written in the list. What does not fit into a packet is left out.
std::string macro_data(Command event, const std::vector<std::string>& names, const MacroSource& source,
                       const std::map<std::string, std::string, std::less<>>& defaults);

}  // namespace pen::milter
