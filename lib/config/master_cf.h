#pragma once
/// Reads the text of master.cf into a list of services; accepts Postfix's file unchanged.
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
/// The word for it in master.cf.
std::string_view to_word(ServiceType);

struct Service {
  std::string name;  ///< inet: [host:]port, as written; else the name of the socket
  ServiceType type = ServiceType::unix_stream;
  bool is_private = true;
  bool unprivileged = true;
  bool chroot = false;
  int wakeup_seconds = 0;              ///< 0: never
  bool wakeup_if_used = false;         ///< "?": only after somebody has used the service
  std::optional<int> process_limit;    ///< nullopt: default_process_limit; 0: no limit
  std::string command;                 ///< the program's name, without directory
  std::vector<std::string> arguments;  ///< without the -o options; braces removed
  std::vector<Assignment> overrides;   ///< -o name=value in order; values not expanded yet
  /// the eight columns as written; column 8 is the command's name
  std::vector<std::string> columns;
  std::vector<std::string> words;  ///< everything after the command as written, braces included
  int line = 0;

  /// "name/type", the form that tools and messages show.
  std::string label() const;
};

/// An unreadable line is a problem and is left out; of two services with the same name and type the last one counts.
std::vector<Service> parse_master_cf(std::string_view text, const std::string& file, Problems& problems);

/// A note on a Postfix program: another program does its work here, or none does yet.
struct ProgramNote {
  std::string_view program;
  bool work_is_done = true;  ///< false: its work is missing
  std::string_view text;     ///< the sentence that `penstock check` prints
};
/// nullptr: a program of Penstock's own, or an unknown one.
const ProgramNote* note_on_program(std::string_view program);
/// Whether this version has that program.
bool is_own_program(std::string_view program);

}  // namespace pen::config
