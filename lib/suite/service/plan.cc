#include "lib/suite/service/plan.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/config/compatibility.h"
#include "lib/config/process_count.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/ipc/trace.h"

namespace pen::service {
namespace {

using config::ServiceType;

bool wants(const config::Settings& s, std::string_view family) {
  return std::ranges::any_of(s.inet_protocols, [&](const std::string& p) { return p == "all" || p == family; });
}

bool is_ipv6(const std::string& address) { return address.contains(':'); }

/// "[host]:port", "host:port" or "port".
struct HostPort {
  std::string host, port;
};
HostPort split_inet(const std::string& name) {
  if (name.starts_with('[')) {
    const auto close = name.find("]:");
    if (close != std::string::npos) return {name.substr(1, close - 1), name.substr(close + 2)};
  }
  const auto colon = name.rfind(':');
  if (colon == std::string::npos) return {"", name};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

struct Addresses {
  std::vector<std::string> list;
  bool any = false;
};
Addresses where_to_listen(const config::Settings& s, const std::string& host, const Machine& machine) {
  Addresses out;
  std::vector<std::string> wanted;
  if (!host.empty() && host != "*") {
    wanted = {host};
  } else {
    wanted = s.inet_interfaces;
  }
  for (const std::string& item : wanted) {
    if (item == "all" && host.empty()) {
      out.list = {"0.0.0.0", "::"};
      out.any = true;
      break;
    }
    if (item == "loopback-only" && host.empty()) {
      out.list.insert(out.list.end(), {"127.0.0.1", "::1"});
      out.any = true;
      continue;
    }
    std::string bare = item;
    if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
    for (auto& address : machine.addresses(bare)) out.list.push_back(std::move(address));
  }
  std::erase_if(out.list, [&](const std::string& a) { return !wants(s, is_ipv6(a) ? "ipv6" : "ipv4"); });
  return out;
}

std::string plan_sockets(const config::Config& config, const config::Service& entry, const Machine& machine,
                         Planned& out) {
  if (entry.type != ServiceType::inet) {
    out.sockets = {async::SocketAddress::unix(config.settings().queue_directory +
                                              (entry.is_private ? "/private/" : "/public/") + entry.name)};
    return {};
  }
  const auto [host, port_text] = split_inet(entry.name);
  const auto known = parse_tcp_ports(config.settings().known_tcp_ports);
  if (!known) return "known_tcp_ports: \"" + known.error() + "\" is not name=port";
  const auto of_name = known->find(to_lower(port_text));
  const auto port = of_name != known->end() ? std::optional(of_name->second) : machine.port(port_text);
  if (!port) return "unknown port \"" + port_text + "\"";
  const Addresses at = where_to_listen(config.settings(), host, machine);
  if (at.list.empty()) return "no address to listen on (inet_interfaces, inet_protocols)";
  for (const std::string& a : at.list) out.sockets.push_back(async::SocketAddress::inet(a, *port));
  out.optional_sockets = at.any;
  return {};
}

}  // namespace

namespace {

/// master_service_disable: the first word that fits decides, as in other lists.
bool disabled(const config::Service& entry, const std::vector<std::string>& list) {
  const std::string label = entry.label();
  for (std::string_view word : list) {
    const bool taken_out = word.starts_with('!');
    if (taken_out) word.remove_prefix(1);
    if (word == label || word == config::to_word(entry.type)) return !taken_out;
  }
  return false;
}

std::string_view name_in_directory(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Either the whole path fits into an address, or the name alone (lib/base/async/socket.cc).
bool fits(std::string_view path) {
  return path.size() < sizeof(sockaddr_un::sun_path) || name_in_directory(path).size() <= kLongestSocketName;
}

/// Where pentrace asks. A name that no socket can have is no reason not to start: the service cannot be traced then.
void add_trace_socket(const config::Settings& settings, Planned& out) {
  std::string path =
      settings.queue_directory + "/" + ipc::trace::smtpd_socket(out.arguments.service, out.arguments.process);
  if (!fits(path)) return;
  out.sockets.push_back(async::SocketAddress::unix(std::move(path)));
  out.at_once = true;  // master waits for one socket only
}

/// A service of several processes is as many services. Clients of smtpd meet any of them, so they share the sockets
/// and divide the limit; qmgr gives each smtp its connections, and minds the limit itself.
void add(Plan& plan, const config::Settings& settings, const Planned& service, unsigned processes) {
  const std::size_t limit = service.arguments.limit;
  for (unsigned i = 1; i <= processes; ++i) {
    Planned one = service;
    one.arguments.process = i;
    one.arguments.processes = processes;
    if (i > 1) one.label += "#" + std::to_string(i);
    if (one.program == "smtpd") {
      if (limit != 0) one.arguments.limit = limit / processes + (i <= limit % processes ? 1 : 0);
      add_trace_socket(settings, one);
    } else if (i > 1) {
      one.sockets.front() =
          async::SocketAddress::unix(settings.queue_directory + "/" + ipc::service_socket(one.arguments.service, i));
    }
    plan.services.push_back(std::move(one));
  }
}

/// Why the service's program is not started, whatever its sockets; nullopt: it is.
std::optional<Skipped> skipped(const config::Config& config, const config::Service& entry, const std::string& program,
                               const Machine& machine) {
  const auto skip = [&](std::string why, bool work_is_done = false) {
    return Skipped{entry.label(), std::move(why), work_is_done};
  };
  if (entry.type == ServiceType::pass)
    return skip("no program hands connections over; its settings hold where postscreen names it", true);
  if (entry.type == ServiceType::fifo || entry.type == ServiceType::unix_datagram) {
    const auto* done = config::note_on_program(entry.command);  // unix-dgram: postlogd
    return skip("services of type " + std::string(config::to_word(entry.type)) + " are not started",
                done && done->work_is_done);
  }
  if (config::is_second_queue_manager(config.master(), entry))
    return skip(std::string(config::kSecondQueueManager), true);
  if (machine.has_program(program)) return std::nullopt;
  if (const auto* note = config::note_on_program(program))
    return skip(entry.command + ": " + std::string(note->text), note->work_is_done);
  return skip("there is no program \"" + entry.command + "\"");
}

/// Sockets that a program has besides those of its line. first: no service before this one runs the program.
void add_own_sockets(const config::Settings& settings, const config::Service& entry, bool first, Planned& p) {
  if (entry.type != ServiceType::unix_stream) return;
  if (p.program == "pickup" && settings.submission_socket && first)
    p.sockets.push_back(async::SocketAddress::unix(settings.queue_directory + "/" + std::string(kSubmitSocket)));
  if (p.program == "penevents")
    p.sockets.push_back(async::SocketAddress::unix(settings.queue_directory + "/" + std::string(kEventStream)));
}

Arguments arguments_of(const config::Config& config, const config::Service& entry) {
  Arguments a;
  a.service = entry.name;
  a.type = entry.type == ServiceType::unix_stream ? "unix" : config::to_word(entry.type);
  a.limit =
      static_cast<std::size_t>(entry.process_limit.value_or(static_cast<int>(config.settings().default_process_limit)));
  a.config_directory = config.directory();
  a.unprivileged = entry.unprivileged;
  a.overrides = config.overrides(entry);
  a.rest = entry.arguments;
  return a;
}

}  // namespace

Plan make_plan(const config::Config& config, const Machine& machine) {
  Plan plan;
  const config::Settings& settings = config.settings();
  for (const config::Service& entry : config.master()) {
    if (disabled(entry, settings.master_service_disable)) continue;
    Planned p;
    p.label = entry.label();
    p.program = entry.command == "oqmgr" ? "qmgr" : entry.command;
    if (auto skip = skipped(config, entry, p.program, machine)) {
      plan.skipped.push_back(*std::move(skip));
      continue;
    }
    if (std::string why = plan_sockets(config, entry, machine, p); !why.empty()) {
      plan.skipped.push_back({p.label, std::move(why), false});
      continue;
    }
    const bool first = std::ranges::find(plan.services, p.program, &Planned::program) == plan.services.end();
    add_own_sockets(settings, entry, first, p);
    p.arguments = arguments_of(config, entry);
    p.reads_metrics = p.program == "penapi";
    p.exclusive = entry.process_limit == 1;
    p.wakeup = seconds(entry.wakeup_seconds);
    p.wakeup_if_used = entry.wakeup_if_used;
    p.at_once = entry.type != ServiceType::unix_stream || p.program == "qmgr" || p.program == "trivial-rewrite" ||
                p.sockets.size() > 1 || (p.wakeup.count() != 0 && !p.wakeup_if_used);
    add(plan, settings, p, config::process_count(config, entry, machine.processors));
  }
  return plan;
}

bool is_at(const async::SocketAddress& own, std::string_view place) {
  if (!own.is_unix()) return false;
  if (own.path == place || own.path.ends_with("/" + std::string(place))) return true;
  return own.path.starts_with("/proc/self/fd/") && name_in_directory(own.path) == name_in_directory(place);
}

std::string socket_fault(const Planned& service) {
  for (const auto& address : service.sockets)
    if (address.is_unix() && !fits(address.path))
      return "no socket can have a name of more than " + std::to_string(kLongestSocketName) +
             " bytes, as that of the service would have: " + address.path;
  return {};
}

namespace {

std::optional<unsigned short> real_port(const std::string& text) { return tcp_port(text, {}); }

std::vector<std::string> real_addresses(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> out;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return out;
  for (const addrinfo* a = found; a; a = a->ai_next) {
    char text[INET6_ADDRSTRLEN] = {};
    const void* raw = nullptr;
    if (a->ai_family == AF_INET) raw = &reinterpret_cast<const sockaddr_in*>(a->ai_addr)->sin_addr;
    if (a->ai_family == AF_INET6) raw = &reinterpret_cast<const sockaddr_in6*>(a->ai_addr)->sin6_addr;
    if (raw && ::inet_ntop(a->ai_family, raw, text, sizeof text)) out.emplace_back(text);
  }
  ::freeaddrinfo(found);
  return out;
}

}  // namespace

Machine real_machine(const std::string& program_directory) {
  return {.has_program =
              [program_directory](const std::string& program) {
                return !program.empty() && !program.contains('/') &&
                       ::access((program_directory + "/" + program).c_str(), X_OK) == 0;
              },
          .port = real_port,
          .addresses = real_addresses,
          .processors = config::processors()};
}

}  // namespace pen::service
