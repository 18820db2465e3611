#include "lib/config/ways.h"

#include "lib/base/text.h"
#include "lib/config/restrictions.h"

namespace pen::config {
namespace {

/// Calls with the configuration of each service of the program.
template <class Function>
void for_each_service(const Config& config, std::string_view program, Function call) {
  for (const Service& service : config.master())
    if (service.command == program) call(config.with(service));
}

void add(const std::string& way, Ways& ways) {
  const std::string_view text = trim(way);
  if (!text.empty() && !ways.has(text)) ways.named.emplace_back(text);
}

bool looks_at_content(const Settings& s) {
  return !s.header_checks.empty() || !s.mime_header_checks.empty() || !s.nested_header_checks.empty() ||
         !s.body_checks.empty() || !s.milter_header_checks.empty();
}

/// Whether some restriction asks a table, whose type may be left out, or a policy server.
bool asks(const std::vector<std::string>& restrictions) {
  return std::ranges::any_of(restrictions, [](const std::string& word) {
    const RestrictionName* known = find_restriction(word);
    return word.contains(':') || (known != nullptr && known->takes_argument == RestrictionName::table);
  });
}

bool asks_about_clients(const Config& config) {
  return !config.settings().smtpd_restriction_classes.empty() || std::ranges::any_of(rows(), [&](const Row& row) {
    return row.names == Names::restrictions && asks(config.list(row.name).value_or(std::vector<std::string>()));
  });
}

}  // namespace

Ways filters_named(const Config& config, std::string_view program) {
  Ways ways;
  for_each_service(config, program, [&](const Config& own) {
    add(own.settings().content_filter, ways);
    ways.any = ways.any || looks_at_content(own.settings()) || (program == "smtpd" && asks_about_clients(own));
  });
  return ways;
}

Ways transports_named(const Config& config, std::string_view program) {
  Ways ways;
  for_each_service(config, program, [&](const Config& own) {
    const Settings& s = own.settings();
    add(s.mailbox_transport, ways);
    add(s.fallback_transport, ways);
    ways.any = ways.any || !s.mailbox_transport_maps.empty() || !s.fallback_transport_maps.empty();
  });
  return ways;
}

}  // namespace pen::config
