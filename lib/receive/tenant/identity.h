#pragma once
/// The owner of a message: the tenant, by which mail is shared out, limited and shown (docs/tenants.md).
///
/// Use:     PEN_TRY_ASSIGN(auto identity, Identity::open(settings));            // nullptr: there are no tenants
///          auto name = co_await tables.ask([…] { return identity->of({.login = …, .sender = …, .header = …}); });
/// Names:   lower case, at most kMaxName bytes, without blanks and control characters: they stand in the log, in keys
///          of tables ("tenant:NAME") and in the queue.
/// Errors:  a table that cannot be asked now. The mail must wait: without a tenant it would pass its tenant's limits.
/// Thread:  any.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/settings.h"
#include "lib/mail/message_facts.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"

namespace pen::tenant {

enum class TenantError { identity = 1, unsubscribe };
inline std::string_view error_module(TenantError) { return "tenants"; }
std::string_view describe(TenantError e);

inline constexpr std::size_t kMaxName = mail::kMaxTenant;

/// What somebody or a table calls a tenant, as its name: "" when nothing is left of it.
std::string name_of(std::string_view called);

/// What is known of a message's origin; empty: nothing.
struct Clues {
  std::string login;   // SASL, or the account that handed it in
  std::string sender;  // with its domain
  std::string header;  // the value of tenant_header, from a client that may say so
};

class Identity {
 public:
  static Result<std::shared_ptr<const Identity>> open(const config::Settings& s);

  /// "": nobody's. Asks tables: those that wait do so in an Asker.
  Result<std::string> of(const Clues& clues) const;
  /// The field that is taken out of messages and names their tenant; "": there is no such field.
  const std::string& field() const { return field_; }
  /// Whether this client's field counts.
  Result<bool> may_say(std::string_view name, std::string_view address) const;
  /// Tables that cannot be read now, for the log at start.
  std::vector<Error> problems() const { return maps_.problems(); }

 private:
  enum class By : std::uint8_t { sasl_login, sender_domain, sender, header };
  Identity() = default;

  std::vector<By> by_;
  std::string field_;
  map::MatchList clients_;
  map::MapList maps_;
};

}  // namespace pen::tenant
