#pragma once
/// What one master leaves to the next: which programs run, and which descriptors belong to them.
///
/// Two ways: an upgrade, where master becomes its new version in the same process (execve) and the descriptors stay
///           open under their numbers; and the death of master, after which the service manager hands the descriptors
///           to the next one under their names (notify.h).
/// Form:     JSON with a number of its own, kFormat: docs/upgrade.md. Unknown members are ignored, so a version may add
///           some; whatever else changes raises the number, and a master that does not know it refuses the handover.
/// Pure;     StateMemory alone does I/O.
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::master {

enum class HandoverError { malformed = 1, other_format, nothing_left };
inline std::string_view error_module(HandoverError) { return "handover"; }
inline std::string_view describe(HandoverError e) {
  switch (e) {
    case HandoverError::malformed:
      return "what the former master left cannot be read";
    case HandoverError::other_format:
      return "the former master's state has another format";
    case HandoverError::nothing_left:
      return "no former master left anything";
  }
  return "?";
}

/// Names of descriptors of which there is one. The first goes through an execve() alone: a master that dies loses it.
inline constexpr const char* kMasterLock = "master";
inline constexpr const char* kProgramsLock = "lock";
inline constexpr const char* kState = "state";
inline constexpr const char* kBoard = "board";
inline constexpr const char* kLease = "lease";  // a lock
inline constexpr const char* kLeasePage = "leasepage";

struct Handover {
  static constexpr unsigned kFormat = 1;

  struct Program {
    pid_t pid = -1;
    std::string fd;    // master's end of the status socket
    std::string file;  // of an exclusive program its file; "": that is not held
    bool ready = false, draining = false;
    bool badged = false;  // it has badges (badge_maker.h)
    std::string confined, version;
    unsigned log_round = 0;
    std::vector<unsigned> log_sent;
  };
  struct Service {
    std::string label, program;
    unsigned restarts = 0;
    bool used = false, exclusive = false;
    std::string last_end;
    std::vector<Program> programs;
  };

  std::string version;    // of its writer
  std::string directory;  // of its configuration
  pid_t master = -1;      // its writer
  std::int64_t started = 0;
  unsigned log_round = 0, log_opened = 0, upgrades = 0;
  std::string upgrade_from;  // while one is under way
  std::vector<std::string> upgrade_lines;
  std::uint64_t names = 0;                     // how many names of descriptors were given
  std::string board;                           // name of a descriptor; "": none
  std::string lease;                           // what the lease was given for; "": none
  std::string badge_secret;                    // of BadgeMaker; "": programs have no badges
  std::map<std::string, std::string> sockets;  // by address text
  std::map<std::string, std::string> pages;    // by label
  std::vector<Service> services;
  std::map<std::string, int> numbers;  // of descriptors, by name: for an upgrade alone

  /// In kFormat, on one line.
  std::string to_json() const;
  /// Errors: malformed, other_format.
  static Result<Handover> parse(std::string_view json);
};

/// Memory that holds the newest state whenever its writer is killed: two places, written in turn, each with a checksum.
class StateMemory {
 public:
  /// Memory of mode 0600 without a name, empty. Errors: errno.
  static Result<StateMemory> create();
  static StateMemory adopt(Fd fd) { return StateMemory(std::move(fd)); }
  int fd() const { return fd_.get(); }
  /// Errors: EMSGSIZE; the former state stays.
  Result<void> write(std::string_view text);
  /// Errors: malformed, when neither place holds a whole state.
  Result<std::string> read() const;

 private:
  explicit StateMemory(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace pen::master
