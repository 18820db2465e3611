#pragma once
/// The options by which penqueue and pensuper select messages: --sender, --recipient, --domain, --older, --reply, and
/// names of queues.
///
/// Use:     Selection selection;
///          append selection.rows() to the table of options; it must outlive the reading;
///          for each word: if (!selection.take_queue(word)) …
/// Errors:  an invalid value is a wrong command line, with a text that says why.
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/ipc/queue.h"
#include "lib/suite/service/command_line.h"

namespace pen::tools {

class Selection {
 public:
  Selection() = default;
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;
  /// --sender, --recipient, --domain, --older, --reply.
  std::vector<service::Option> rows();
  /// "incoming", "active", "deferred", "hold": selects messages there. false: not a queue.
  bool take_queue(std::string_view name);
  const ipc::queue::Filter& filter() const { return filter_; }
  bool empty() const { return filter_ == ipc::queue::Filter{}; }

 private:
  /// What is wrong with the condition; empty: nothing.
  std::string condition(std::string& to, const std::string& text);
  std::string older(const std::string& text);
  ipc::queue::Filter filter_;
};

}  // namespace pen::tools
