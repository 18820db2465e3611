#pragma once
/// penqueue --spool: shows to which message each file of the spool belongs, as a table or as JSON.
///
/// Use:     SpoolChoice choice;  if (!choice.take(argument)) … it is no file, number or queue id …
///          return list_spool("penqueue", client, choice, json);
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/queue_client.h"

namespace pen::tools {

/// The selected files: all, or those with certain numbers and those of certain messages.
class SpoolChoice {
 public:
  /// Takes a number, a file's name with or without its directory, or a queue id. false: none of these.
  bool take(const std::string& argument);
  bool all() const { return files_.empty() && ids_.empty(); }
  /// The numbers for the request; empty: every file must be examined.
  std::vector<std::uint32_t> numbers() const;
  /// True: the file is selected; it is not missing any more.
  bool found(const ipc::queue::SpoolFile& file);
  /// The arguments for which no file was found, a line each.
  std::vector<std::string> missing() const;

 private:
  std::set<std::uint32_t> files_, missing_files_;
  std::set<std::string> ids_, missing_ids_;
};

/// Returns the exit status; EX_DATAERR: something that was named is not there.
int list_spool(const std::string& program, QueueClient& client, SpoolChoice choice, bool json);

}  // namespace pen::tools
