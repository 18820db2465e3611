#pragma once
/// The one process that stays root beside master (lib/send/mailbox/helper.h, docs/root-helper.md), as its starter
/// sees it: starts it, and makes programs known to it.
///
/// Use:     HelperLink helper;
///          PEN_TRY(helper.run({.path = directory + "/become", .config_directory = "/etc/penstock", …}));
///          PEN_TRY_ASSIGN(const Fd socket, helper.introduce("smtp", arguments));    // for the program: launch.h
/// Process: no child of ours: nobody need wait for it, and it ends when this object and the sockets of all programs are
///          closed. So it outlives a master if its programs go on.
/// Errors:  errno. A helper that cannot be run is known by its end: the next introduce() fails with EPIPE, or the
///          program reads it.
/// Thread:  of a process that has no other: it forks. run() waits for the first of two forks, introduce() at most
///          kPatience for a helper that does not read.
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/suite/service/arguments.h"

namespace pen::service {

/// What the helper learns of a program: from this and main.cf it finds out what the program may ask for.
struct Introduction {
  std::string program;             // "smtp"
  std::vector<std::string> words;  // Arguments
  PEN_FIELDS(program, words)
};

class HelperLink {
 public:
  static constexpr int kPatience = 5;  // seconds

  struct Options {
    std::string path;              // of the helper's file
    std::string config_directory;  // for readers of process lists, and for its own settings
    std::vector<std::string> environment;
  };
  /// Starts it, unless it runs from the same file: a package may have put another version there. The former one goes on
  /// for the programs that it has.
  Result<void> run(const Options& options);
  /// Returns the program's socket.
  Result<Fd> introduce(const std::string& program, const Arguments& arguments);

 private:
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const File&) const = default;
  };
  Fd socket_;
  File file_;
};

}  // namespace pen::service
