#pragma once
/// An instance is a directory: etc (main.cf, master.cf, aliases), spool, data, log, and for an ordinary user mail (his
/// mailbox). penstock init makes one.
///
/// Errors: what could not be made; exists (the directory holds an instance already).
#include <string>

#include "lib/base/result.h"

namespace pen::tools {

enum class InstanceError { exists = 1, no_templates };
std::string_view error_module(InstanceError);
std::string_view describe(InstanceError);

struct NewInstance {
  std::string directory;
  unsigned port = 2525;
};
/// Makes the directories and writes the files of etc from the shipped ones, and the table of the aliases. Nothing is
/// left behind when it fails before the files are written.
Result<void> make_instance(const NewInstance& what);

/// Text of a main.cf with one setting set: in place of a line that sets it or shows it in a comment,
/// else at the end.
std::string with_setting(std::string text, const std::string& name, const std::string& value);
/// Text of a master.cf whose smtp/inet service listens on the port.
std::string with_smtp_port(std::string text, unsigned port);

}  // namespace pen::tools
