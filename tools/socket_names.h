#pragma once
/// Unix sockets that settings name: those of milters, policy servers, Dovecot, LMTP and socketmap: tables.
///
/// Use:     for (const SocketName& s : socket_names("lmtp:unix:private/lmtp")) …       // 10, "private/lmtp", "lmtp"
///          for (const auto& p : socket_problems(config)) …                            // penstock check
///          auto taken = absolute_sockets({.main = …, .master = …, .directory = "/etc/postfix"});   // import
/// Import:  a path without / is below queue_directory, and Postfix's is not ours; a service with chroot y looks for an
///          absolute one below it too. Such paths get Postfix's directory in front, but for sockets that a service of
///          the master.cf itself makes: here they are below our own. $queue_directory becomes its value.
/// Blocks:  socket_problems() only; from the only thread of a process.
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct SocketName {
  std::size_t at = 0;     // of the path
  std::string path;       // as written
  std::string transport;  // before "unix:": a transport, "proxy:socketmap" …; empty: nothing is
};
/// "unix:path" at the beginning of a word, or behind "name:"; local: too of the settings of filters. Paths that begin
/// with $ are not known. Pure.
std::vector<SocketName> socket_names(std::string_view text, bool filters = false);

/// "private/policy" and "public/x" that services of this master.cf make.
std::set<std::string> sockets_of(const std::vector<config::Service>& services);

/// Postfix's two files.
struct PostfixFiles {
  std::string main, master;
  std::string directory;  // where they are, as the report names it
};
struct AbsoluteSockets {
  std::string main, master;
  std::string queue_directory;  // Postfix's
  config::Problems changes;     // a note for each, with file and line of what was read
};
AbsoluteSockets absolute_sockets(const PostfixFiles& files);

/// Sockets that are not there, where nobody listens, or that mail_owner cannot connect to. Connects to them.
config::Problems socket_problems(const config::Config& config);

}  // namespace pen::tools
