#pragma once
/// Settings by which strangers can send to everybody through this host.
///
/// Use:     for (const OpenRelay& relay : open_relays(config)) … relay.setting, relay.what …
/// Finds:   in main.cf and in the -o of each smtpd and qmqpd service that others can reach: networks in mynetworks,
///          smtpd_authorized_xclient_hosts and qmqpd_authorized_clients that are not one's own; a permit before
///          anything refuses relaying, also within a restriction class or as the answer of an access table;
///          relay_domains that has every domain.
/// How:     tables are asked for hosts, domains and addresses that nobody has. Tables that other servers answer for
///          are not asked.
/// Thread:  any. Reads tables.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct OpenRelay {
  config::Severity severity = config::Severity::error;  // a warning: the network is only large
  std::string setting, what, advice;
  const config::Service* service = nullptr;  // the setting is one of its -o; nullptr: of main.cf
};
std::vector<OpenRelay> open_relays(const config::Config& config);

/// The item of a list of restrictions that permits everybody before anything refuses relaying, in words; empty: there
/// is none.
std::string permits_everybody(const config::Config& config, const std::vector<std::string>& restrictions);
/// Why a network should not be trusted as a whole; empty: it may be. Pure.
std::string too_wide(std::string_view network);

}  // namespace pen::tools
