#include "tools/doctor_probes.h"

#include <fcntl.h>
#include <mntent.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "lib/base/fd.h"
#include "lib/base/folder.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/map/map.h"
#include "lib/map/table_file.h"
#include "lib/net/helper/server_address.h"
#include "lib/net/tls/certificate_file.h"
#include "lib/net/tls/tlsa.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSyncBytes = 4096;
constexpr std::size_t kMostGreeting = 2048;
constexpr auto kSyncTime = seconds(10);  // no further file is written after that

std::uint64_t number_in(const char* file, int which = 0) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  for (int i = 0; i <= which; ++i)
    if (!(in >> value)) return 0;
  return value;
}

milliseconds left(SteadyTime until) {
  return std::max(std::chrono::ceil<milliseconds>(until - system_clock().now()), milliseconds(0));
}

bool wait_for(int fd, short events, SteadyTime until) {
  pollfd ready{fd, events, 0};
  for (;;) {
    const int n = ::poll(&ready, 1, static_cast<int>(left(until).count()));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

struct Free {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
std::unique_ptr<addrinfo, Free> resolve(const std::string& host, unsigned short port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return nullptr;
  return std::unique_ptr<addrinfo, Free>(list);
}

/// Connects in time; else says why not.
Fd connect_to(int family, const sockaddr* address, socklen_t size, SteadyTime until, std::string& fault) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    fault = Error::from_errno(errno).message();
    return {};
  }
  if (::connect(fd.get(), address, size) == 0) return fd;
  if (errno != EINPROGRESS) {
    fault = Error::from_errno(errno).message();
    return {};
  }
  if (!wait_for(fd.get(), POLLOUT, until)) {
    fault = "no answer in time";
    return {};
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return fd;
  fault = Error::from_errno(error).message();
  return {};
}

std::string read_line(int fd, SteadyTime until, std::string& fault) {
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < kMostGreeting) {
    if (!wait_for(fd, POLLIN, until)) {
      fault = "no greeting in time";
      return {};
    }
    char piece[512];
    const ssize_t n = ::read(fd, piece, sizeof piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      fault = n == 0 ? "it closes the connection" : Error::from_errno(errno).message();
      return {};
    }
    line.append(piece, static_cast<std::size_t>(n));
  }
  return std::string(trim(std::string_view(line).substr(0, line.find('\n'))));
}

/// A server as settings write it, alone or at the head of a list in braces. nullopt: something else.
std::optional<Target> target_of(std::string what, std::string spec, const std::string& queue_directory) {
  if (spec.starts_with('{')) spec = std::string(trim(std::string_view(spec).substr(1, spec.find_first_of(",}") - 1)));
  const auto at = helper::ServerAddress::parse(spec, {.directory = queue_directory,
                                                      .default_host = "127.0.0.1",
                                                      .bare = helper::ServerAddress::Bare::host,
                                                      .local = true});
  if (!at) return std::nullopt;
  Target target;
  target.facts.what = std::move(what);
  target.facts.address = std::move(spec);
  target.path = at->path;
  target.host = at->host;
  target.port = at->port;
  return target;
}

/// A next hop of which the settings say the very host: "[host]", "[host]:port", "inet:host:port", "unix:path". nullopt:
/// it is a domain, for which DNS names the mail hosts, or nothing.
std::optional<Target> hop_target(const std::string& what, std::string hop, const std::string& queue_directory) {
  const bool direct = hop.starts_with('[') || hop.starts_with("inet:") || hop.starts_with("unix:");
  if (!direct) return std::nullopt;
  if (hop.ends_with(']')) hop += ":25";
  return target_of(what, hop, queue_directory);
}

/// The settings of main.cf and of each service with changes of its own.
template <class Look>
void each_configuration(const config::Config& config, const Look& look) {
  look(config);
  for (const auto& service : config.master())
    if (!service.overrides.empty()) look(config.with(service));
}

}  // namespace

std::vector<CertificateFacts> look_at_certificates(const config::Config& config, const Told& tlsa) {
  std::vector<CertificateFacts> all;
  std::set<std::string> seen;
  const std::string host = config.settings().myhostname;
  const auto one = [&](const std::string& setting, const std::string& path, const std::string& key) {
    if (path.empty() || path == "none" || !seen.insert(path + "\n" + key).second) return;
    CertificateFacts f;
    f.setting = setting;
    f.path = path;
    f.key = key;
    if (const auto dates = tls::look_at_certificate(path)) {
      f.readable = true;
      f.begins = dates->begins;
      f.ends = dates->ends;
    }
    f.names_host = tls::certificate_names(path, host);
    f.key_readable = tls::holds_private_key(key);
    f.key_fits = tls::key_fits(key, path);
    f.tlsa = tlsa;
    for (const std::string& text : tlsa.values) {
      const auto record = tls::parse_tlsa(text);
      f.fit.push_back(record ? tls::certificate_fits(path, *record) : std::nullopt);
    }
    all.push_back(std::move(f));
  };
  each_configuration(config, [&](const config::Config& own) {
    for (const char* kind : {"", "ec", "d"}) {
      const std::string setting = std::string("smtpd_tls_") + kind + "cert_file";
      const std::string path = own.text(setting).value_or("");
      const std::string key = own.text(std::string("smtpd_tls_") + kind + "key_file").value_or("");
      one(setting, path, key.empty() ? path : key);
    }
    std::string key;  // in the same file or in one before it
    for (const auto& path : own.list("smtpd_tls_chain_files").value_or(std::vector<std::string>())) {
      const bool holds_key = tls::holds_private_key(path),
                 holds_certificate = tls::look_at_certificate(path).has_value();
      if (holds_key) key = path;
      if (holds_certificate || !holds_key) one("smtpd_tls_chain_files", path, holds_key || key.empty() ? path : key);
    }
  });
  // Any of them may be the one that a record is of.
  if (all.size() > 1) {
    for (std::size_t i = 0; i < tlsa.values.size(); ++i) {
      const bool fits = std::ranges::any_of(all, [&](const auto& f) { return f.fit[i].value_or(false); });
      if (fits)
        for (auto& f : all) f.fit[i] = true;
    }
  }
  return all;
}

DiskFacts look_at_disk(const config::Settings& s, const std::string& directory) {
  DiskFacts f;
  f.path = directory;
  f.segment = static_cast<std::uint64_t>(s.queue_log_segment_size);
  f.largest_message = static_cast<std::uint64_t>(s.message_size_limit);
  struct statvfs room{};
  if (::statvfs(directory.c_str(), &room) != 0) {
    f.fault = Error::from_errno(errno).message();
    return f;
  }
  f.bytes = static_cast<std::uint64_t>(room.f_blocks) * room.f_frsize;
  f.free_bytes = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  f.inodes = room.f_files;
  f.free_inodes = room.f_favail;
  struct stat where{};
  ::stat(directory.c_str(), &where);
  if (FILE* mounts = ::setmntent("/proc/self/mounts", "r")) {
    std::size_t longest = 0;
    while (const mntent* entry = ::getmntent(mounts)) {
      const std::string mounted = entry->mnt_dir;
      struct stat there{};
      const bool above = mounted == "/" || directory == mounted || directory.starts_with(mounted + "/");
      if (!above || mounted.size() < longest || ::stat(mounted.c_str(), &there) != 0 || there.st_dev != where.st_dev)
        continue;
      longest = mounted.size();
      f.type = std::string(entry->mnt_type).substr(0, std::string(entry->mnt_type).find('.'));
      if (f.type == "nfs4") f.type = "nfs";
      const std::string options = std::string(",") + entry->mnt_opts + ",";
      f.no_barrier =
          options.find(",nobarrier,") != std::string::npos || options.find(",barrier=0,") != std::string::npos;
    }
    ::endmntent(mounts);
  }
  const std::string name = ".doctor-" + std::to_string(::getpid());
  const auto folder = Folder::open(directory);
  if (!folder) f.fault = Error::from_errno(folder.error().sys_errno()).message();
  const std::string block(kSyncBytes, 'x');
  const SteadyTime until = system_clock().now() + kSyncTime;
  for (int i = 0; folder && i < kMostSyncs && system_clock().now() < until; ++i) {
    const SteadyTime began = system_clock().now();
    const auto fd = folder->make_file(name, 0600);
    const bool good = fd && ::write(fd->get(), block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
                      ::fdatasync(fd->get()) == 0;
    if (!good) f.fault = Error::from_errno(fd ? errno : fd.error().sys_errno()).message();
    if (fd) (void)folder->remove(name);
    if (!good) break;
    f.syncs.push_back(std::chrono::ceil<milliseconds>(system_clock().now() - began));
  }
  return f;
}

ClockFacts look_at_clock(const config::Settings& s) {
  ClockFacts f;
  f.now = system_clock().wall_now();
  const auto newest = [&](const std::string& directory) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      struct stat st{};
      if (::lstat(entry.path().c_str(), &st) == 0)
        f.newest_file = std::max(f.newest_file, WallTime(seconds(st.st_mtim.tv_sec)));
    }
  };
  newest(s.queue_log_directory);
  newest(s.queue_directory);
  struct stat self{};
  if (::stat("/proc/self/exe", &self) == 0) f.built = WallTime(seconds(self.st_mtim.tv_sec));
  timex state{};
  if (const int answer = ::adjtimex(&state); answer >= 0)
    f.synchronised = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return f;
}

KernelFacts look_at_kernel(const config::Config& config) {
  KernelFacts f;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) f.open_files = files.rlim_max;
  for (const auto& service : config.master()) {
    const auto limit =
        static_cast<std::uint64_t>(service.process_limit.value_or(config.settings().default_process_limit));
    // A session has its connection, and often a file and a question to somebody.
    f.wanted_files = std::max(f.wanted_files, limit * 3 + 100);
    if (service.command == "smtp" || service.command == "lmtp") f.wanted_connections += limit;
  }
  f.file_max = number_in("/proc/sys/fs/file-max");
  f.somaxconn = number_in("/proc/sys/net/core/somaxconn");
  f.overcommit = static_cast<int>(number_in("/proc/sys/vm/overcommit_memory"));
  f.port_first = number_in("/proc/sys/net/ipv4/ip_local_port_range", 0);
  f.port_last = number_in("/proc/sys/net/ipv4/ip_local_port_range", 1);
  return f;
}

std::vector<Target> own_services(const config::Config& config, bool running) {
  std::vector<Target> targets;
  const auto machine = service::real_machine(config.settings().daemon_directory);
  for (const auto& planned : service::make_plan(config, machine).services) {
    if (planned.arguments.process > 1) continue;  // its sockets are those of the first process
    for (const auto& address : planned.sockets) {
      if (address.is_unix()) continue;
      Target target;
      target.facts.what = "service " + planned.label;
      target.facts.address = address.text();
      target.facts.own = true;
      target.facts.running = running;
      target.host = address.host == "0.0.0.0" ? "127.0.0.1" : address.host == "::" ? "::1" : address.host;
      target.port = address.port;
      // Only those that speak first: with TLS from the start a client speaks first.
      const auto service = std::ranges::find_if(
          config.master(), [&](const config::Service& one) { return one.label() == planned.label; });
      const bool wrapped = service != config.master().end() &&
                           config.with(*service).text("smtpd_tls_wrappermode").value_or("no") == "yes";
      const bool proxied = service != config.master().end() &&
                           !config.with(*service).text("smtpd_upstream_proxy_protocol").value_or("").empty();
      target.facts.smtp = planned.program == "smtpd" && !wrapped && !proxied;
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

std::vector<Target> servers_of(const config::Config& config) {
  std::vector<Target> targets;
  std::set<std::string> seen;
  const std::string queue = config.settings().queue_directory;
  const auto add = [&](const std::string& what, const std::string& spec) {
    auto target = target_of(what, spec, queue);
    if (target && seen.insert(what + " " + target->facts.address).second) targets.push_back(*std::move(target));
  };
  const auto add_hop = [&](const std::string& what, const std::string& hop, bool greets) {
    auto target = hop_target(what, hop, queue);
    if (!target || !seen.insert(what + " " + target->facts.address).second) return;
    target->facts.smtp = greets && target->port != 465;  // there TLS comes first
    targets.push_back(*std::move(target));
  };
  each_configuration(config, [&](const config::Config& own) {
    add_hop("relayhost", own.text("relayhost").value_or(""), true);
    // transport:next hop
    const std::string filter = own.text("content_filter").value_or("");
    if (const auto colon = filter.find(':'); colon != std::string::npos)
      add_hop("content filter", filter.substr(colon + 1), false);
    add("filter", own.text("smtpd_proxy_filter").value_or(""));
    const auto ask_policy = [&](const std::string& list) {
      const auto items = own.list(list).value_or(std::vector<std::string>());
      for (std::size_t i = 0; i + 1 < items.size(); ++i)
        if (items[i] == "check_policy_service") add("policy server", items[i + 1]);
    };
    for (const config::Row& row : config::rows()) {
      const std::string name(row.name);
      if (row.names == config::Names::filters)
        for (const auto& item : own.list(name).value_or(std::vector<std::string>())) add("filter", item);
      if (row.names == config::Names::restrictions) ask_policy(name);
    }
    for (const std::string& name : own.settings().smtpd_restriction_classes) ask_policy(name);
    if (own.text("smtpd_sasl_auth_enable").value_or("no") == "yes" &&
        own.text("smtpd_sasl_type").value_or("") == "dovecot") {
      const std::string path = own.text("smtpd_sasl_path").value_or("");
      add("authentication server", path.starts_with("inet:") || path.starts_with("unix:") ? path : "unix:" + path);
    }
    if (own.text("destdb_backend").value_or("") == "redis")
      add("redis server", own.text("destdb_redis_server").value_or(""));
  });
  return targets;
}

bool goes_out_by_one_host(const config::Config& config) { return !config.text("relayhost").value_or("").empty(); }

std::vector<Target> outgoing(const std::string& host) {
  std::vector<Target> targets;
  const auto list = resolve(host, 25);
  for (const addrinfo* a = list.get(); a != nullptr && targets.size() < 8; a = a->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    Target target;
    target.facts.what = host;
    target.facts.address = text;
    target.facts.smtp = true;
    target.host = text;
    target.port = 25;
    targets.push_back(std::move(target));
  }
  return targets;
}

ServerFacts try_target(Target target) {
  ServerFacts& f = target.facts;
  const SteadyTime until = system_clock().now() + kConnectTime;
  Fd fd;
  if (!target.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (target.path.size() >= sizeof address.sun_path) {
      f.fault = "the path is too long";
      return f;
    }
    std::memcpy(address.sun_path, target.path.c_str(), target.path.size() + 1);
    fd = connect_to(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, until, f.fault);
  } else {
    const auto list = resolve(target.host, target.port);
    if (!list) f.fault = "there is no such host";
    for (const addrinfo* a = list.get(); a != nullptr && !fd; a = a->ai_next)
      fd = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen, until, f.fault);
  }
  f.connected = static_cast<bool>(fd);
  if (!f.connected || !f.smtp) return f;
  f.greeting = read_line(fd.get(), until, f.fault);
  constexpr std::string_view kQuit = "QUIT\r\n";
  (void)::send(fd.get(), kQuit.data(), kQuit.size(), MSG_NOSIGNAL);
  return f;
}

std::vector<std::string> served_tables(const config::Config& config) {
  std::set<std::string> tables;
  each_configuration(config, [&](const config::Config& own) {
    for (const std::string& name : own.names_set()) {
      for (std::string item : own.list(name).value_or(std::vector<std::string>())) {
        item = map::without_adapters(item);
        for (const char* type : {"mysql:", "pgsql:", "ldap:", "mongodb:", "redis:", "memcache:", "socketmap:", "tcp:"})
          if (item.starts_with(type)) tables.insert(item);
      }
    }
  });
  return {tables.begin(), tables.end()};
}

ServerFacts try_table(const std::string& table) {
  ServerFacts f;
  f.what = "the server of the table";
  f.address = table;
  const auto map = map::open(table);
  if (!map) {
    f.fault = map.error().message();
    return f;
  }
  const auto answer = (*map)->lookup("penstock-doctor@localhost.invalid");
  f.connected = answer.has_value();
  if (!answer) f.fault = answer.error().message();
  return f;
}

}  // namespace pen::tools
