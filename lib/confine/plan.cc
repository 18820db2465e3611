#include "lib/confine/plan.h"

#include <array>

namespace pen::confine {
namespace {

// What the C library, OpenSSL and libcurl read, and the libraries of modules that are loaded when a table is first
// asked. Names of hosts, accounts and zones are all below /etc, where editors replace files by renaming: the directory
// must be readable, and what must not be read there is closed by its mode. None of these holds mail.
constexpr std::array<const char*, 19> kSystem = {"/usr",
                                                 "/lib",
                                                 "/lib32",
                                                 "/lib64",
                                                 "/etc",
                                                 "/run/systemd/resolve",
                                                 "/run/systemd/userdb",
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

/// Whether the program may talk to others over the internet at all, and to which ports by TCP.
void add_network(const Program& row, const config::Settings& s, const Named& named, Plan& plan) {
  plan.any_port = row.network == Network::any || (row.network != Network::none && named.any_port);
  std::set<std::uint16_t> ports;
  if (row.network != Network::none) ports = named.ports;
  if (row.network == Network::dns) {
    ports.insert(kDnsPort);
    ports.insert(static_cast<std::uint16_t>(s.dns_resolver_port));
  }
  if (row.name == "trivial-rewrite") ports.insert(static_cast<std::uint16_t>(s.smtp_mta_sts_port));
  plan.ports.assign(ports.begin(), ports.end());
  plan.internet = row.network == Network::any || row.network == Network::dns || plan.any_port || !plan.ports.empty();
}

void add_written(const Program& row, const config::Settings& s, const Surroundings& around, Plan& plan) {
  const Machine& machine = around.machine;
  const auto add = [&](Writes which, std::string path, Place::Kind kind) {
    if ((row.writes & which) != 0) plan.places.push_back({std::move(path), kind, true});
  };
  using Kind = Place::Kind;
  add(kQueueLog, s.queue_log_directory, Kind::directory);
  add(kSpool, s.spool_directory, Kind::directory);
  add(kData, s.data_directory, Kind::directory);
  add(kMaildrop, s.queue_directory + "/maildrop", Kind::tree);
  add(kCorrupt, s.queue_directory + "/corrupt", Kind::tree);
  add(kTicketKeys, s.data_directory + "/tls_ticket_keys", Kind::file);
  if ((row.writes & kTested) != 0 && around.screens) {
    const std::string_view cache = s.postscreen_cache_map;
    const std::string path(cache.substr(std::min(cache.find('/'), cache.size())));
    if (!path.empty()) {  // what is damaged cannot be set aside from there: then nothing is known, and the log says so
      add(kTested, path, Kind::directory);
      add(kTested, path + ".lock", Kind::file);
    }
  }
  if ((row.writes & kProbes) == 0) return;
  Named cache;
  add_named("address_verify_map", s.address_verify_map, machine, cache);
  for (const std::string& path : cache.paths) plan.places.push_back({path, Kind::named, true});
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

}  // namespace

std::vector<std::string> places_kept_out(const config::Settings& s) {
  return {s.queue_directory, s.data_directory, s.queue_log_directory, s.spool_directory};
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
  plan.more_calls = s.confine_extra_system_calls;
  const Named named = named_by(config, settings_name(row.name), around.machine);
  add_network(row, s, named, plan);
  add_written(row, s, around, plan);
  add_read(config, around, named, plan);
  plan.kept_out = places_kept_out(s);
  return plan;
}

}  // namespace pen::confine
