#pragma once
/// From master.cf to what master does: which programs to start how, with which sockets. No I/O.
///
/// Rules:   one process per service, for every program serves many at once; maxproc goes to it as its
///          limit on sessions or deliveries. Of smtpd there are smtpd_process_count: to master each is a service of its
///          own, "smtp/inet#2", with the same sockets and a part of the limit. Of smtp there are smtp_process_count,
///          each with a socket of its own, among which qmgr chooses. Programs that others wait for at any time (inet
///          and pass services, services with a wake-up time, qmgr, trivial-rewrite) start at once; others when
///          somebody connects. A service with maxproc 1 is exclusive: at a reload the old process ends before the new
///          one starts.
/// Source:  master(5): the eight columns.
#include <string>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/config/config.h"
#include "lib/suite/service/arguments.h"

namespace pen::service {

/// Where pickup takes mail of processes that cannot use pendrop (submission_socket), below queue_directory.
inline constexpr std::string_view kSubmitSocket = "open/submit";
/// Where penevents serves readers, besides the socket of its own name.
inline constexpr std::string_view kEventStream = "public/event-stream";

struct Planned {
  std::string label;    // "smtp/inet", unique
  std::string program;  // "smtpd"
  Arguments arguments;  // sockets is filled in when they are open
  std::vector<async::SocketAddress> sockets;
  bool optional_sockets = false;  // "all interfaces": a missing address family is no error
  bool at_once = false;
  bool reads_metrics = false;  // gets the pages of all services
  bool exclusive = false;
  bool wakeup_if_used = false;
  seconds wakeup{0};

  /// The label of the first process of its service: others reach any of them at the same socket.
  std::string entry() const { return arguments.process == 1 ? label : label.substr(0, label.rfind('#')); }
};

/// A service that is not started, and why: said once.
struct Skipped {
  std::string label, why;
  bool work_is_done = false;  // by other programs: nothing is lost
};

struct Plan {
  std::vector<Planned> services;
  std::vector<Skipped> skipped;
};

/// What planning asks of the machine.
struct Machine {
  std::function<bool(const std::string& program)> has_program;
  /// Port number or name in services(5); nullopt: unknown.
  std::function<std::optional<unsigned short>(const std::string&)> port;
  /// Numeric addresses of a host name; numeric ones come back as they are.
  std::function<std::vector<std::string>(const std::string&)> addresses;
  unsigned processors = 1;
};
Machine real_machine(const std::string& program_directory);

Plan make_plan(const config::Config& config, const Machine& machine);

/// Bytes of a socket's name in its directory, where the whole path is too long for an address. The way to the directory
/// may be of any length then (lib/base/async/socket.cc).
inline constexpr std::size_t kLongestSocketName = 86;
/// Whether a socket that says this address of itself is the one at a place: a whole path, or the end of one. Where the
/// path was too long for an address, the socket knows no more than its name.
bool is_at(const async::SocketAddress& own, std::string_view place);
/// Why master cannot open the sockets of a service, which keeps all from starting; empty: their names are short enough.
std::string socket_fault(const Planned& service);

}  // namespace pen::service
