#pragma once
/// The two sources of pendest: qmgr, while the mail system runs, and the file of the destination database, always.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "lib/base/async/loop.h"
#include "lib/config/config.h"
#include "lib/queue/destdb/destdb.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/service/setup.h"

namespace pen::tools {

/// Sends one request to qmgr, again to its successor if qmgr is replaced meanwhile. nullopt: qmgr cannot be reached,
/// why() has the reason. Ends the program (EX_UNAVAILABLE) if qmgr hangs, or goes away within its answer.
class DestinationClient {
 public:
  DestinationClient(std::string program, const config::Config& config);
  using See = std::function<void(ipc::destinations::FromQmgr&)>;
  /// see: is given each message before Done.
  std::optional<ipc::destinations::Done> ask(const ipc::destinations::ToQmgr& request, const See& see);
  const std::string& why() const { return why_; }

 private:
  async::Task<void> converse(async::Loop& loop, const ipc::destinations::ToQmgr& request, const See& see,
                             std::optional<ipc::destinations::Done>& done);

  std::string program_, path_, why_;
};

/// The file of the destination database. Root becomes queue_owner first: in queue_owner's directory any name may be a
/// link, and no file may end up belonging to root.
class DestinationFile {
 public:
  explicit DestinationFile(const config::Config& config);
  /// Reads all records, a slice at a time. quiet: the mail system is down. Errors: errno, damaged.
  Result<void> each(bool quiet, const std::function<void(const std::string& key, const destdb::Facts& facts)>& see);
  /// The suspensions, as of the last each().
  const destdb::Suspensions& suspensions() const { return suspensions_; }
  /// Writes changes while the mail system is down. Errors: ENOENT (no file yet) and others.
  Result<void> write(const std::vector<destdb::Change>& changes);
  const std::string& directory() const { return directory_; }

 private:
  Result<void> there() const;

  std::string directory_;
  Result<service::Owners> owners_;
  destdb::Suspensions suspensions_;
};

}  // namespace pen::tools
