#pragma once
/// An instance is a directory: etc (main.cf, master.cf, aliases), spool, data, log, and for an ordinary user mail
/// (the user's mailbox). penstock init makes one.
///
/// Errors:  what could not be created; exists (the directory holds an instance already).
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
/// Creates the directories, the files of etc from the shipped ones, and the alias table. A failure before the files
/// are written leaves nothing behind.
Result<void> make_instance(const NewInstance& what);

/// The text of a main.cf with one setting changed: in place of a line that sets it or shows it in a comment, else at
/// the end.
std::string with_setting(std::string text, const std::string& name, const std::string& value);
/// The text of a master.cf, with its smtp/inet service on the port.
std::string with_smtp_port(std::string text, unsigned port);

}  // namespace pen::tools
