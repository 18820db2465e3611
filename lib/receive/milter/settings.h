#pragma once
/// The milter settings of main.cf: which filters, how to talk to each, which macros it gets.
///
/// Use:     auto settings = Settings::read(config.settings(), open);     // once per configuration
///          settings->smtpd, settings->other; Settings::parse_list(value_of_smtpd_milter_maps, …)
/// Errors:  bad_setting, with the setting's name: an endpoint or an option that cannot be read.
/// Source:  Postfix MILTER_README, postconf(5) milter_*, smtpd_milters, non_smtpd_milters, smtpd_milter_maps.
/// Thread:  immutable; any.
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/config/settings.h"
#include "lib/map/map.h"
#include "lib/net/helper/server_address.h"
#include "lib/receive/intake/checks.h"
#include "lib/receive/milter/protocol.h"

namespace pen::milter {

/// What happens to mail when a filter cannot be asked.
enum class DefaultAction : std::uint8_t { accept, reject, tempfail, shutdown, quarantine };

/// One filter and how it is spoken to.
struct Filter {
  std::string name;  // the endpoint as written, for the log
  helper::ServerAddress address;
  milliseconds connect_timeout{seconds(30)}, command_timeout{seconds(30)}, content_timeout{seconds(300)};
  milliseconds total_timeout{seconds(1800)};  // for an answer, with all progress that is reported
  DefaultAction default_action = DefaultAction::tempfail;
  Offer offer;
};
using Filters = std::vector<std::shared_ptr<const Filter>>;

struct Settings {
  Filters smtpd, other;    // smtpd_milters, non_smtpd_milters
  map::MapList by_client;  // smtpd_milter_maps; their values are for parse_list()
  /// The names of the macros that go before an event, by Stage; empty: none.
  std::array<std::vector<std::string>, kStages> macros;
  /// Values of macros for which the message has none: milter_macro_defaults.
  std::map<std::string, std::string, std::less<>> defaults;
  std::string daemon_name, version;                          // milter_macro_daemon_name, milter_macro_v
  std::shared_ptr<const intake::CheckTables> header_checks;  // milter_header_checks; nullptr: none
  bool soft_bounce = false;
  std::uint64_t size_limit = 0;  // message_size_limit, for bodies that filters write; 0: none

  Filter usual;  // what the milter_* settings say of all filters

  /// The clients whose mail the filters see; smtp: their table by client is opened.
  enum class Clients : std::uint8_t { none, smtp };
  static Result<std::shared_ptr<const Settings>> read(const config::Settings& s, const map::OpenOptions& open,
                                                      Clients clients = Clients::none);
  /// A list of endpoints as smtpd_milters has them. DISABLE gives none.
  Result<Filters> parse_list(std::string_view text) const;
  bool smtpd_filters() const { return !smtpd.empty() || !by_client.empty(); }

  std::string queue_directory;  // relative paths of sockets are below it
};

}  // namespace pen::milter
