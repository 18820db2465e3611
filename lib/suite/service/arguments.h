#pragma once
/// The command line with which master starts a program.
///
/// Form:    PROGRAM -n SERVICE -t TYPE [-i NUMBER/PROCESSES] [-s SOCKETS] [-p PAGES] [-m LIMIT] [-c DIR] [-u] [-v]
///          [-D] [-S] [-H] [-B] [-o NAME=VALUE]… [ARG]…
///          -n  the service's name in master.cf      -t  its type: inet, unix, pass
///          -i  which of several processes of the service it is, from 1 on; they share its sockets
///          -s  how many listening sockets are inherited, from descriptor kFirstListener on
///          -p  how many pages of counters follow them, to be read (penapi)
///          -m  how many sessions or deliveries at once (master.cf's maxproc; 0: no limit)
///          -c  configuration directory              -o  a setting that wins over main.cf
///          -u  run as mail_owner                    -v  debug lines in the log
///          -D  runs debugger_command before it begins
///          -S  the service has the command postscreen in master.cf: smtpd tests clients before it serves them
///          -H  a socket to the helper (helper_link.h) follows the sockets and pages
///          -B  the program's badges (lib/suite/ipc/badges.h) follow those, to be read once
///          --look  only says what would keep the service from starting (look.h): of these -n, -c, -o, -S and ARG count
///          --help, --version
///          From the first ARG on everything is the program's own.
/// Pure; any thread.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/config.h"

namespace pen::service {

/// The status socket to master: one packet per word (see link.h).
inline constexpr int kStatusFd = 5;
inline constexpr int kFirstListener = 6;
/// The page of lib/base/metrics in which the programs of the service count.
inline constexpr int kMetricsFd = 3;
/// The lock that tells a new master whether programs of a former one still run (lock.h).
inline constexpr int kProgramsLockFd = 4;

struct Arguments {
  std::string service;
  std::string type = "unix";
  unsigned process = 1, processes = 1;
  int sockets = 0;
  int pages = 0;
  std::size_t limit = 0;
  std::string config_directory;
  bool unprivileged = false;
  bool debug = false;
  bool debugger = false;  // -D
  bool screens = false;   // -S
  bool helped = false;    // -H
  bool badged = false;    // -B
  bool look = false;      // --look
  bool help = false;
  bool version = false;
  std::vector<config::Override> overrides;
  std::vector<std::string> rest;  // words of master.cf that are not options of the skeleton

  /// What to_words() of the same Arguments gives back. The error is a sentence for the user.
  static std::expected<Arguments, std::string> parse(const std::vector<std::string>& words);
  /// For config::load(): $service_name, then the -o of master.cf.
  std::vector<config::Override> settings() const;
  /// Without the program's own name.
  std::vector<std::string> to_words() const;
};

}  // namespace pen::service
