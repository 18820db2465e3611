#pragma once
/// Stores what is known about domains' MTA-STS policies, over restarts, shared by processes.
///
/// Use:     auto store = open_store(directory);      // LMDB; a damaged one is set aside and begun anew
///          Known k = store->get("example.org");     // without an entry: a Known without a policy
///          store->update("example.org", [&](Known& k) { … });
/// Shared:  update() reads and writes in one transaction, so that no process overwrites what another has learnt.
/// Bounds:  kMapSize bytes. When the file is full, new entries stay in this process's memory, at most kOverflow
///          domains. The stored policies protect mail, so fetches of other policies must not push them out.
/// Blocks:  get() reads memory-mapped pages; update(), each() and opening wait for the disk: use a handler pool.
/// Thread:  any.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/trust/mta_sts/policy.h"

namespace pen::mta_sts {

class Store {
 public:
  static constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory
  static constexpr std::size_t kOverflow = 1000;

  virtual ~Store() = default;
  /// An entry that cannot be read counts as missing: the policy is fetched again.
  virtual Known get(const std::string& domain) = 0;
  /// Errors: the entry could not be written; it then counts until this process ends.
  virtual Result<void> update(const std::string& domain, const std::function<void(Known&)>& change) = 0;
  /// Visits at most `most` domains after `after`, in order; removes those for which visit() returns true. Returns the
  /// last one visited; empty: there are no more.
  virtual Result<std::string> each(const std::string& after, std::size_t most,
                                   const std::function<bool(const std::string&, const Known&)>& visit) = 0;
  /// A problem with the file that was found on opening; empty: none.
  std::string warning;
};

/// Errors: lmdb::DatabaseError, errno.
Result<std::shared_ptr<Store>> open_store(const std::string& directory);
/// For get() alone, in a program that may write nothing but the locks there. ENOENT: there is no store yet.
Result<std::shared_ptr<Store>> open_store_to_read(const std::string& directory);
/// A store that lasts as long as the process, bounded by kOverflow: for tests, and when there is no other.
std::shared_ptr<Store> memory_store();

}  // namespace pen::mta_sts
