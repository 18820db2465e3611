#pragma once
/// The listening sockets of an instance, kept over reloads so that no connection is refused meanwhile.
///
/// Thread:  the loop's.
#include <map>
#include <string>
#include <vector>

#include "lib/async/socket.h"
#include "lib/service/plan.h"

namespace pen::master {

class Sockets {
 public:
  /// Opens what services need and is not open yet, and closes what no service needs. Errors (first
  /// one) leave what was open as it was. notes: addresses left out because this host has no such
  /// family.
  Result<void> adopt(const std::vector<service::Planned>& services,
                     std::vector<std::string>& notes);
  /// Descriptors of one service, in the order of its addresses.
  std::vector<int> of(const service::Planned& service) const;
  void close() { open_.clear(); }

 private:
  std::map<std::string, async::Fd> open_;  // by address text
};

/// queue_directory with public/ and private/, data_directory; as root with the owners and modes that
/// keep others out. Errors: what could not be made or has a dangerous owner.
Result<void> prepare_directories(const config::Settings& settings);

}  // namespace pen::master
