#pragma once
/// The listening sockets of an instance, kept open over reloads so that no connection is refused; and the directories
/// for the sockets and the queue.
///
/// Trust:   queue_directory and pid/ below it belong to root, the rest to mail_owner. Where mail_owner may have made
///          a name, root opens no file, follows no link and changes no mode or owner: sockets are created as
///          mail_owner, and directories are changed through the descriptors that were checked.
/// Thread:  the loop's.
#include <map>
#include <string>
#include <vector>

#include "lib/async/socket.h"
#include "lib/service/plan.h"
#include "lib/service/setup.h"

namespace pen::master {

class Sockets {
 public:
  /// Opens the sockets that services need and closes those that no service needs. An error (the first one) leaves the
  /// open sockets as they were. notes: addresses left out because this host lacks their family.
  Result<void> adopt(const std::vector<service::Planned>& services, const service::Account& owner,
                     std::vector<std::string>& notes);
  /// The descriptors of one service, in the order of its addresses.
  std::vector<int> of(const service::Planned& service) const;
  void close() { open_.clear(); }

 private:
  std::map<std::string, Fd> open_;  // by address text
};

/// Makes queue_directory and what is in it, and data_directory. As root it sets the owners and modes that keep others
/// out, also if they were different before. Records which configuration the queue belongs to (lib/config/trusted.h).
/// Errors: a directory cannot be made, is no directory, or belongs to another user.
Result<void> prepare_directories(const config::Config& config);

}  // namespace pen::master
