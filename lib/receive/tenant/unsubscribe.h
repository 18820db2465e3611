#pragma once
/// One-click unsubscribing (RFC 8058), which large providers demand of bulk senders: is a message fit for it?
///
/// Use:     PEN_TRY_ASSIGN(auto check, UnsubscribeCheck::open(settings));         // nullptr: nobody is checked
///          auto action = co_await tables.ask([…] { return check->action_for(sender, tenant); });
///          if (*action != Action::none) if (auto fault = one_click_fault(header); !fault.empty()) …
/// Tables:  by tenant:NAME, the sender's address, its domain, the domains above it. Values: warn, reject, dunno. The
///          first key that a table has decides.
/// Errors:  a table that cannot be asked; a value that is not among these.
/// Thread:  any.
/// Source:  RFC 8058 sections 3.1 and 4; RFC 2369 section 2.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/config/settings.h"
#include "lib/map/map.h"

namespace pen::tenant {

/// What the header lacks, in words for the sender's postmaster; "": nothing. header: fields in CRLF lines. Whether it
/// is signed is not looked at.
std::string one_click_fault(std::string_view header);

class UnsubscribeCheck {
 public:
  enum class Action : std::uint8_t { none, warn, reject };
  static Result<std::shared_ptr<const UnsubscribeCheck>> open(const config::Settings& s);
  /// Asks tables: those that wait do so in an Asker.
  Result<Action> action_for(std::string_view sender, std::string_view tenant) const;
  std::vector<Error> problems() const { return maps_.problems(); }

 private:
  UnsubscribeCheck() = default;
  map::MapList maps_;
};

}  // namespace pen::tenant
