#pragma once
/// The text of master.cf as a list of services; Postfix's file is read as it is.
///
/// Source:  master(5): name, type, private, unpriv, chroot, wakeup, maxproc, command with arguments;
///          "-" takes the default; { … } makes one argument with blanks in it.
/// Pure; any thread. Bounds as main_cf.h.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/main_cf.h"

namespace pen::config {

inline constexpr std::size_t kMaxServices = 4096;

enum class ServiceType { inet, unix_stream, fifo, pass, unix_datagram };
/// The word of master.cf.
std::string_view to_word(ServiceType);

struct Service {
  std::string name;  ///< inet: [host:]port, as written; else the name of the socket
  ServiceType type = ServiceType::unix_stream;
  bool is_private = true;
  bool unprivileged = true;
  bool chroot = false;
  int wakeup_seconds = 0;              ///< 0: never
  bool wakeup_if_used = false;         ///< "?": only once the service has been asked for
  std::optional<int> process_limit;    ///< nullopt: default_process_limit; 0: no limit
  std::string command;                 ///< the program's name, without directory
  std::vector<std::string> arguments;  ///< what is left when the -o are taken out, braces removed
  std::vector<Assignment> overrides;   ///< -o name=value in order; values not expanded yet
  /// the eight columns as written; column 8 is the command's name
  std::vector<std::string> columns;
  std::vector<std::string> words;  ///< everything after the command as written, braces included
  int line = 0;

  /// "name/type", as tools and messages show it.
  std::string label() const;
};

/// A line that cannot be read is a problem and left out; of two services with one name and type the last stays.
std::vector<Service> parse_master_cf(std::string_view text, const std::string& file, Problems& problems);

/// What is known of a Postfix program whose work is done elsewhere here, or not yet.
struct ProgramNote {
  std::string_view program;
  bool work_is_done = true;  ///< false: what it does is missing
  std::string_view text;     ///< the sentence that `penstock check` prints
};
/// nullptr: a program of Penstock's own, or one that nothing is known of.
const ProgramNote* note_on_program(std::string_view program);
/// Whether this version has that program.
bool is_own_program(std::string_view program);

}  // namespace pen::config
