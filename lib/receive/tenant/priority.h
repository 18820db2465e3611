#pragma once
/// The priority of a message, where it comes in (docs/priorities.md): what it says of itself, and what tables say of
/// its sender and its tenant.
///
/// Use:     PEN_TRY_ASSIGN(auto priorities, Priorities::open(settings));        // nullptr: there are no priorities
///          auto found = co_await tables.ask([…] { return priorities->of({.given = …, .sender = …}); });
/// Trust:   a client that may not say it can only make its mail less urgent: what is above 0 becomes 0, as RFC 6710
///          permits. What tables say is the administrator's word.
/// Errors:  a table that cannot be asked now, or that says no priority. The mail must wait.
/// Source:  RFC 6710 (MT-PRIORITY), RFC 6758 (the field MT-Priority).
/// Thread:  any.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/settings.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"

namespace pen::tenant {

enum class PriorityError { word = 1, field, value };
inline std::string_view error_module(PriorityError) { return "priorities"; }
std::string_view describe(PriorityError e);

/// What is known of a message; empty: nothing.
struct PriorityClues {
  std::optional<std::int8_t> given = {};  // MT-PRIORITY
  std::string header = {};                // the value of message_priority_header
  std::string sender = {};                // with its domain
  std::string tenant = {};
  bool trusted = false;  // the client may say how urgent its mail is
};

class Priorities {
 public:
  static Result<std::shared_ptr<const Priorities>> open(const config::Settings& s);

  struct Found {
    std::int8_t priority = 0;
    std::int8_t wanted = 0;  // what the client said; more than `priority`: it may not say so
  };
  /// Asks tables: those that wait do so in an Asker.
  Result<Found> of(const PriorityClues& clues) const;
  /// Whether MT-PRIORITY counts: then it is offered.
  bool takes_parameter() const { return parameter_; }
  /// The field that is taken out of messages and says their priority; "": there is no such field.
  const std::string& field() const { return field_; }
  /// Whether this client is one of message_priority_clients.
  Result<bool> may_say(std::string_view name, std::string_view address) const;
  /// Tables that cannot be read now, for the log at start.
  std::vector<Error> problems() const { return maps_.problems(); }

 private:
  enum class By : std::uint8_t { mt_priority, header, sender, sender_domain, tenant };
  Priorities() = default;
  /// What the tables say of a key.
  Result<std::optional<std::int8_t>> look_up(std::string_view key) const;

  std::vector<By> by_;
  bool parameter_ = false;
  std::string field_;
  map::MatchList clients_;
  map::MapList maps_;
};

}  // namespace pen::tenant
