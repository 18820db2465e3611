#pragma once
/// The listening sockets of an instance, kept open over reloads, upgrades and the death of master, so that no
/// connection is refused; and the directories for the sockets and the queue.
///
/// Overlap: a reload may exchange "all interfaces" for one address, or the other way round. Both sockets are then open
///          at once for a moment, which the kernel permits on request (SO_REUSEPORT); no other program gets in.
/// Trust:   queue_directory, pid/ below it and data_directory belong to root. Where the queue has an account of its
///          own, so do the directories of sockets; the queue is queue_owner's, the rest mail_owner's. Where
///          somebody else may have made a name, root opens no file, follows no link and changes no mode or owner:
///          sockets there are created as mail_owner, and directories are changed through the descriptors that were
///          checked.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/async/socket.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"
#include "master/keeper.h"

namespace pen::master {

class Sockets {
 public:
  /// keeper outlives this.
  explicit Sockets(Keeper& keeper) : keeper_(keeper) {}
  /// A socket of a former master, by the text of its address.
  void take(const std::string& address, std::string name, Fd fd);
  /// Hands everything to the keeper once more: a former master's may not know it.
  void keep_all();
  /// The names of descriptors, by the texts of addresses.
  std::map<std::string, std::string> names() const;
  /// By the names of descriptors.
  std::map<std::string, int> numbers() const;
  /// Opens the sockets that services need and closes those that no service needs. An error (the first one) leaves the
  /// open sockets as they were. notes: addresses left out because this host lacks their family.
  Result<void> adopt(const std::vector<service::Planned>& services, const service::Account& owner,
                     std::vector<std::string>& notes);
  /// The descriptors of one service, in the order of its addresses.
  std::vector<int> of(const service::Planned& service) const;
  /// All of them, and the keeper forgets them.
  void close();

 private:
  struct Open {
    Fd fd;
    std::string name;  // for the keeper
  };
  Result<Fd> open_beside_own(const async::SocketAddress& address);
  Keeper& keeper_;
  std::map<std::string, Open> open_;  // by address text
};

/// Makes queue_directory and pid/ in it: what is needed to find out whether a master runs already.
/// Errors: as below; an account that the settings name is missing.
Result<void> prepare_state(const config::Config& config);

/// What a start has to say of it, for the log.
using Told = std::function<void(const std::string&)>;
/// Whether programs of a former master go on.
enum class Programs : bool { none, run };
/// Makes what else is in queue_directory, and data_directory. As root it sets the owners and modes that keep others
/// out, also if they were different before, and, while no program of the instance runs, gives the queue to
/// queue_owner (ownership.h). Records which configuration the queue belongs to (lib/config/trusted.h). Errors: a
/// directory cannot be made, is no directory, or belongs to another user.
Result<void> prepare_directories(const config::Config& config, Programs programs, const Told& told);
/// Of that, what programs keep in data_directory: after a reload they may keep it under other names.
Result<void> prepare_data(const config::Config& config, const Told& told);

}  // namespace pen::master
