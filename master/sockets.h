#pragma once
/// The listening sockets of an instance, kept over reloads so that no connection is refused meanwhile; and the
/// directories that they and the queue lie in.
///
/// Trust:   queue_directory and pid/ below it are root's, the rest is mail_owner's. Where a name may be mail_owner's
///          making root opens no file, follows no link and changes no mode or owner: sockets are made as mail_owner,
///          directories are changed through descriptors of what was looked at.
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
  /// Opens what services need and is not open yet, and closes what no service needs. Errors (first
  /// one) leave what was open as it was. notes: addresses left out because this host has no such
  /// family.
  Result<void> adopt(const std::vector<service::Planned>& services, const service::Account& owner,
                     std::vector<std::string>& notes);
  /// Descriptors of one service, in the order of its addresses.
  std::vector<int> of(const service::Planned& service) const;
  void close() { open_.clear(); }

 private:
  std::map<std::string, Fd> open_;  // by address text
};

/// queue_directory and what is in it, data_directory; as root with the owners and modes that keep others out, also
/// those of an instance that had others. And the record of which configuration the queue belongs to
/// (lib/config/trusted.h). Errors: what could not be made, is no directory, or belongs to another user.
Result<void> prepare_directories(const config::Config& config);

}  // namespace pen::master
