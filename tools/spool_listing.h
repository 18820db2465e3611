#pragma once
/// penqueue --spool: whose each file of the spool is, as a table or as JSON.
///
/// Use:     SpoolChoice choice;  if (!choice.take(argument)) … it is no file, no number and no queue id …
///          return list_spool("penqueue", client, choice, json);
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/queue_client.h"

namespace pen::tools {

/// Which files are meant: all, or those with these numbers and those of these messages.
class SpoolChoice {
 public:
  /// A number, a file's name with or without its directory, or a queue id. false: none of these.
  bool take(const std::string& argument);
  bool all() const { return files_.empty() && ids_.empty(); }
  /// For the request: empty where every file must be looked at.
  std::vector<std::uint32_t> numbers() const;
  /// Whether it is meant; then it is not missing any more.
  bool found(const ipc::queue::SpoolFile& file);
  /// What was asked for and not found, a line each.
  std::vector<std::string> missing() const;

 private:
  std::set<std::uint32_t> files_, missing_files_;
  std::set<std::string> ids_, missing_ids_;
};

/// Returns the exit status; EX_DATAERR: something that was asked for is not there.
int list_spool(const std::string& program, QueueClient& client, SpoolChoice choice, bool json);

}  // namespace pen::tools
