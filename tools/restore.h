#pragma once
/// penstock restore DIR: takes over what penstock snapshot made, into an instance that does not run. docs/snapshot.md.
///
/// Use:     return Restore({.from = DIR, .to = "/etc/penstock"}).run();
/// Rules:   configuration and data are taken only where none exist. A queue that holds mail is not overwritten;
///          with merge the messages are added to it (merge_queue.h), and then the mail system may run.
/// Crash:   the queue comes under its name when it is whole and synced; a repeat does the whole again.
/// Rights:  root, or the user who runs the instance.
/// Errors:  run() reports them. EX_OK, EX_DATAERR (no snapshot), EX_UNAVAILABLE (it runs, or its queue holds mail),
///          EX_CONFIG, EX_CANTCREAT.
/// Thread:  one. Blocks.
#include <string>

#include "lib/config/config.h"

namespace pen::tools {

class Restore {
 public:
  struct Options {
    std::string from, to;  // to: the directory of main.cf
    bool merge = false;
  };
  explicit Restore(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int put_queue(const config::Config& config);
  Options options_;
};

}  // namespace pen::tools
