#pragma once
/// The two places where pendest finds what is known of destinations: qmgr, while the mail system runs, and the file of
/// the destination database, always.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "lib/async/loop.h"
#include "lib/config/config.h"
#include "lib/destdb/destdb.h"
#include "lib/ipc/destinations.h"
#include "lib/service/setup.h"

namespace pen::tools {

/// One request to qmgr, put to its successor where it is replaced meanwhile. nullopt: it cannot be reached (why() says
/// why). Ends the program (EX_UNAVAILABLE) when it goes away in the middle of its answer.
class DestinationClient {
 public:
  DestinationClient(std::string program, const config::Config& config);
  using See = std::function<void(ipc::destinations::FromQmgr&)>;
  std::optional<ipc::destinations::Done> ask(const ipc::destinations::ToQmgr& request, const See& see);
  const std::string& why() const { return why_; }

 private:
  async::Task<void> converse(async::Loop& loop, const ipc::destinations::ToQmgr& request, const See& see,
                             std::optional<ipc::destinations::Done>& done);

  std::string program_, path_, why_;
};

/// The file. Root becomes mail_owner first: the directory is mail_owner's, who may have made a link of any name in
/// it, and nothing in it may end up belonging to root.
class DestinationFile {
 public:
  explicit DestinationFile(const config::Config& config);
  /// Reads everything, a slice at a time. quiet: the mail system is down. Errors: errno, damaged.
  Result<void> each(bool quiet, const std::function<void(const std::string& key, const destdb::Facts& facts)>& see);
  /// As of the last each().
  const destdb::Suspensions& suspensions() const { return suspensions_; }
  /// For a mail system that is down. Errors: ENOENT where there is no file yet, others.
  Result<void> write(const std::vector<destdb::Change>& changes);
  const std::string& directory() const { return directory_; }

 private:
  Result<void> there() const;

  std::string directory_;
  Result<service::Account> owner_;
  destdb::Suspensions suspensions_;
};

}  // namespace pen::tools
