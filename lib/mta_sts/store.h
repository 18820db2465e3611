#pragma once
/// What is known of domains' MTA-STS policies, kept over restarts and shared by processes.
///
/// Use:     auto store = open_store(directory);      // LMDB; a damaged one is set aside and begun anew
///          Known k = store->get("example.org");     // nothing known: a Known without a policy
///          store->update("example.org", [&](Known& k) { … });
/// Shared:  update() reads and writes in one transaction, so that of two processes neither undoes what the other has
///          learnt.
/// Bounds:  kMapSize bytes. When it is full what is new is kept in this process only, at most kOverflow domains of
///          it: the policies that are there protect mail, and nobody may push them out by having others fetched.
/// Blocks:  get() reads memory-mapped pages; update(), each() and the opening wait for the disk: on a handler pool.
/// Thread:  any.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/mta_sts/policy.h"

namespace pen::mta_sts {

class Store {
 public:
  static constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory
  static constexpr std::size_t kOverflow = 1000;

  virtual ~Store() = default;
  /// What cannot be read is as if nothing were known: the policy is fetched again.
  virtual Known get(const std::string& domain) = 0;
  /// Errors: it could not be written; it counts until this process ends.
  virtual Result<void> update(const std::string& domain, const std::function<void(Known&)>& change) = 0;
  /// At most `most` domains behind `after` in order, of which visit() says whether they may go. Returns the last one
  /// seen; empty: that was all.
  virtual Result<std::string> each(const std::string& after, std::size_t most,
                                   const std::function<bool(const std::string&, const Known&)>& visit) = 0;
  /// What was wrong with the file when it was opened; empty: nothing.
  std::string warning;
};

/// Errors: lmdb::DatabaseError, errno.
Result<std::shared_ptr<Store>> open_store(const std::string& directory);
/// One that lasts as long as the process, and is bounded by kOverflow: for tests, and where there is no other.
std::shared_ptr<Store> memory_store();

}  // namespace pen::mta_sts
