#pragma once
/// Looks at the host for penstock doctor: certificates, disk, clock, kernel, and which servers answer on connections.
///
/// Use:     DiskFacts disk = look_at_disk(settings);
/// Bounds:  kConnectTime for each connection and its greeting; kMostSyncs small files.
/// Thread:  any, each function by itself. They block.
#include <functional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "tools/doctor_judge.h"

namespace pen::tools {

inline constexpr milliseconds kConnectTime{5000};
inline constexpr int kMostSyncs = 8;

/// Those of smtpd, of main.cf and of the services. `tlsa`: what DNS says of the host.
std::vector<CertificateFacts> look_at_certificates(const config::Config& config, const Told& tlsa);
DiskFacts look_at_disk(const config::Settings& settings, const std::string& directory);
ClockFacts look_at_clock(const config::Settings& settings);
KernelFacts look_at_kernel(const config::Config& config);

/// One connection to be tried.
struct Target {
  ServerFacts facts;
  std::string host, path;  // host: a name or address; path: of a Unix socket
  unsigned short port = 0;
};
/// The inet services of the instance, as clients reach them.
std::vector<Target> own_services(const config::Config& config, bool running);
/// Filters, policy and authentication servers, redis, and the host that takes outgoing mail, as the settings name them.
std::vector<Target> servers_of(const config::Config& config);
/// There is a relayhost, so that port 25 of others is not needed.
bool goes_out_by_one_host(const config::Config& config);
/// Port 25 of each address of a host elsewhere.
std::vector<Target> outgoing(const std::string& host);
/// Connects, and reads the greeting of SMTP.
ServerFacts try_target(Target target);

/// Tables that database and other servers answer for: "mysql:/etc/…".
std::vector<std::string> served_tables(const config::Config& config);
ServerFacts try_table(const std::string& table);

}  // namespace pen::tools
