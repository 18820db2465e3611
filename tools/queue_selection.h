#pragma once
/// The options by which penqueue and pensuper choose messages: --sender, --recipient, --domain, --older, --reply, and
/// names of queues.
///
/// Use:     Selection selection(kProgram);
///          option table: Selection::options() entries first; in the getopt loop: if (selection.take(c, optarg)) continue;
///          for each operand: if (!selection.take_queue(argv[i])) …
/// Errors:  a value that cannot be meant ends the program with EX_USAGE and says what is wrong.
#include <getopt.h>

#include <span>
#include <string>
#include <string_view>

#include "lib/ipc/queue.h"

namespace pen::tools {

class Selection {
 public:
  explicit Selection(std::string program) : program_(std::move(program)) {}
  /// Long options for getopt_long(), without the closing entry.
  static std::span<const option> options();
  /// Lines for --help.
  static const char* help();
  /// Whether c was one of them.
  bool take(int c, const char* value);
  /// "incoming", "active", "deferred", "hold": only messages there. false: not a queue.
  bool take_queue(std::string_view name);
  const ipc::queue::Filter& filter() const { return filter_; }
  bool empty() const { return filter_ == ipc::queue::Filter{}; }

 private:
  std::string program_;
  ipc::queue::Filter filter_;
};

}  // namespace pen::tools
