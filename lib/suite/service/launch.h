#pragma once
/// Starts a program of the suite as service::run() expects it: with its sockets, its status socket, its command line.
/// For master, and for a tool that needs the queue manager while no master runs.
///
/// Use:     auto started = launch({.path = directory + "/smtpd", .words = arguments.to_words(), …});
///          started->status: read words of link.h from it, write words to it. Its end means that the program ended;
///          closing it ends the program.
/// Owns:    the caller waits for the pid. The program dies with the thread that started it.
/// Errors:  errno of socketpair and fork. A program that cannot be run ends with EX_UNAVAILABLE or EX_OSERR.
/// Thread:  of a process that has no other: it forks.
#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/config/config.h"
#include "lib/suite/service/arguments.h"

namespace pen::service {

struct Launch {
  std::string path;  // of the program
  std::string file;  // what is run under that name; empty: path
  std::vector<std::string> words;
  std::vector<std::string> environment;
  std::vector<int> sockets;  // become kFirstListener and up
  int programs_lock = -1;    // becomes kProgramsLockFd: see lock.h
  int metrics = -1;          // becomes kMetricsFd; -1: the program counts for itself
  int output = -1;           // becomes the program's standard output; -1: ours
};

struct Started {
  pid_t pid = -1;
  Fd status;  // our end of the status socket
};
Result<Started> launch(const Launch& what);

/// PATH, and what import_environment takes from ours: the environment of every program.
std::vector<std::string> program_environment(const config::Settings& settings);

}  // namespace pen::service
