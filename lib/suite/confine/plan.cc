#include "lib/suite/confine/plan.h"

#include <algorithm>
#include <array>

#include "lib/suite/confine/secrets.h"

namespace pen::confine {
namespace {

// What the C library, OpenSSL and libcurl read, and the libraries of modules that are loaded when a table is first
// asked. Names of hosts, accounts and zones are all below /etc, where editors replace files by renaming: the directory
// must be readable, and what must not be read there is closed by its mode. None of these holds mail.
constexpr std::array<const char*, 23> kSystem = {"/usr",
                                                 "/lib",
                                                 "/lib32",
                                                 "/lib64",
                                                 "/etc",
                                                 "/run/systemd/resolve",
                                                 "/run/systemd/userdb",
                                                 "/var/lib/sss/mc",  // accounts: sssd, extrausers, NIS, files of nss_db
                                                 "/var/lib/extrausers",
                                                 "/var/yp/binding",
                                                 "/var/db",
                                                 "/run/resolvconf",
                                                 "/run/NetworkManager",
                                                 "/proc/self",
                                                 "/proc/sys",
                                                 "/proc/stat",
                                                 "/proc/meminfo",
                                                 "/proc/cpuinfo",
                                                 "/sys/devices/system/cpu",
                                                 "/dev/urandom",
                                                 "/dev/random",
                                                 "/dev/zero",
                                                 "/sys/fs/cgroup"};
constexpr std::uint16_t kDnsPort = 53;

/// A program that signs asks DNS for the records of keys that have a first date.
bool asks_for_keys(const Program& row, const config::Settings& s) {
  return !s.dkim_key_dates.empty() && reads(*config::find_row("dkim_key_dates"), settings_name(row.name));
}

/// Whether the program may talk to others over the internet at all, and to which ports by TCP.
void add_network(const Program& row, const config::Settings& s, const Named& named, Plan& plan) {
  plan.any_port = row.network == Network::any || (row.network != Network::none && named.any_port);
  std::set<std::uint16_t> ports;
  if (row.network != Network::none) ports = named.ports;
  // The addresses of what settings name are asked for, too, and by TCP where the answer is long.
  const bool named_dns = row.network == Network::named && (!ports.empty() || asks_for_keys(row, s));
  if (row.network == Network::dns || named_dns) {
    ports.insert(kDnsPort);
    ports.insert(static_cast<std::uint16_t>(s.dns_resolver_port));
  }
  if (row.name == "trivial-rewrite") ports.insert(static_cast<std::uint16_t>(s.smtp_mta_sts_port));
  plan.ports.assign(ports.begin(), ports.end());
  plan.internet = row.network == Network::any || row.network == Network::dns || plan.any_port || !plan.ports.empty();
}

/// The directory of a table's file: lmdb:/path and its like, which may stand behind proxy:.
std::string cache_of(std::string_view map) { return std::string(map.substr(std::min(map.find('/'), map.size()))); }

std::string directory_of(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? std::string() : file.substr(0, slash);
}

void add_read(const config::Config& config, const Surroundings& around, const Named& named, Plan& plan) {
  using Kind = Place::Kind;
  for (const char* path : kSystem) plan.places.push_back({path, Kind::tree, false});
  plan.places.push_back({"/dev/null", Kind::tree, true});
  plan.places.push_back({around.own_directory, Kind::tree, false});
  plan.places.push_back({config.directory(), Kind::tree, false});
  for (const std::string& path : named.paths) plan.places.push_back({path, Kind::named, false});
  for (const std::string& path : config.settings().confine_extra_files)
    plan.places.push_back({path, Kind::tree, false});
}

std::vector<std::string> kept_out(const config::Settings& s, const Secrets& secrets) {
  std::vector<std::string> out{s.queue_directory, s.data_directory, s.queue_log_directory, s.spool_directory};
  out.insert(out.end(), secrets.hidden.begin(), secrets.hidden.end());
  return out;
}

}  // namespace

std::vector<Place> written_places(const Program& row, const config::Settings& s, bool screens) {
  std::vector<Place> out;
  using enum Place::Kind;
  const auto add = [&](Writes which, std::string path, Place::Kind kind = directory, bool writable = true) {
    if ((row.writes & which) != 0) out.push_back({std::move(path), kind, writable});
  };
  const auto add_locked = [&](Writes which, const std::string& path) {  // the lock stands beside the directory
    if (path.empty()) return;
    add(which, path);
    add(which, path + ".lock", file);
  };
  add(kQueueLog, s.queue_log_directory);
  add(kSpool, s.spool_directory);
  add(kMaildrop, s.queue_directory + "/maildrop", tree);
  add(kCorrupt, s.queue_directory + "/corrupt", tree);
  add(kTicketKeys, s.data_directory + "/tls_ticket_keys", file);
  add(kDestinations, s.data_directory + "/destdb");
  add_locked(kSenders, s.data_directory + "/senders");
  if (s.suppression_list) add_locked(kSenders, s.data_directory + "/suppressed");
  const std::string policies = s.data_directory + "/mta_sts";
  add(kPolicies, policies);
  add(kPolicyLocks, policies, directory, false);
  add(kPolicyLocks, policies + "/lock.mdb", file);
  add(kPolicyLocks, policies + "/open.lock", file);
  add(kTlsReports, s.data_directory + "/tlsrpt");
  add(kDmarcReports, s.data_directory + "/dmarcrpt");
  add(kUndelivered, s.data_directory + "/events");
  if (s.penapi_status_page && !s.penapi_history_map.empty()) add(kHistory, s.penapi_history_map);
  if (!s.penapi_submission_service.empty()) add_locked(kSubmissions, s.penapi_submission_map);
  if (screens) add_locked(kTested, cache_of(s.postscreen_cache_map));
  add_locked(kProbes, cache_of(s.address_verify_map));
  for (const std::string* file : {&s.event_log_file, &s.event_accounting_file})
    if (std::string directory = directory_of(*file); !directory.empty()) add(kEvents, std::move(directory));
  return out;
}

std::vector<Kept> kept_in_data(const config::Settings& s) {
  std::vector<Kept> out;
  for (const Program& row : programs()) {
    for (const Place& place : written_places(row, s, true)) {
      if (directory_of(place.path) != s.data_directory) continue;
      Kept kept{place.path.substr(s.data_directory.size() + 1), place.kind, row.account};
      const bool names = !kept.name.empty() && kept.name != "." && kept.name != "..";
      if (names && std::ranges::find(out, kept.name, &Kept::name) == out.end()) out.push_back(std::move(kept));
    }
  }
  return out;
}

bool events_in_data(const config::Settings& s) {
  return directory_of(s.event_log_file) == s.data_directory ||
         directory_of(s.event_accounting_file) == s.data_directory;
}

std::vector<std::string> places_kept_out(const config::Config& config, const Program& row, const Machine& machine) {
  return kept_out(config.settings(), secrets_of(config, row, machine));
}

Plan make_plan(const Program& row, const config::Config& config, const Surroundings& around) {
  const config::Settings& s = config.settings();
  Plan plan;
  plan.program = row.name;
  plan.kind = row.kind;
  plan.privileges = s.confine_privileges;
  plan.keeps = row.keeps;
  plan.whole_bounding_set = row.whole_bounding_set;
  plan.limits = s.confine_limits;
  if (row.kind != Kind::confined || around.sanitized) return plan;
  plan.files = s.confine_files;
  plan.system_calls = s.confine_system_calls;
  plan.writes = row.writes != kNothing;
  // qmgr's pages of stages, penevents' backlog. Databases need it for new locks alone (lib/base/lmdb).
  plan.cuts = (row.writes & (kSpool | kUndelivered)) != 0;
  plan.reserves = (row.writes & (kQueueLog | kSpool)) != 0;
  plan.leases = (row.writes & kSpool) != 0;
  plan.sets_modes = (row.writes & kMaildrop) != 0;  // a file there is whole when its mode says so
  plan.more_calls = s.confine_extra_system_calls;
  const Secrets secrets = secrets_of(config, row, around.machine);
  plan.hidden.assign(secrets.hidden.begin(), secrets.hidden.end());
  Named named = named_by(config, settings_name(row.name), around.machine, [&](std::string_view setting) {
    return (secrets.tls && names_keys(setting)) || (secrets.dkim && names_dkim_keys(setting));
  });
  // What opendkim.conf names, and does not hold.
  for (const std::string& file : secrets.files)
    if (secrets.dkim || secrets.hidden.contains(file)) named.paths.erase(file);
  plan.machine_code = named.machine_code;
  add_network(row, s, named, plan);
  plan.places = written_places(row, s, around.screens);
  add_read(config, around, named, plan);
  plan.kept_out = kept_out(s, secrets);
  return plan;
}

}  // namespace pen::confine
