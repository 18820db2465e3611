#include "anvil/store.h"

#include <fcntl.h>
#include <sys/file.h>

#include "lib/lmdb/hints.h"

namespace pen::anvil {
namespace {

// Address space, not memory: twice what full tables take, since LMDB writes changed pages anew.
constexpr std::size_t kMapSize = std::size_t{1} << 28;

}  // namespace

Result<std::shared_ptr<Store>> Store::open(const std::string& directory) {
  auto store = std::make_shared<Store>();
  const std::string lock = directory + ".lock";
  store->lock_ = Fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!store->lock_) return fail_errno(lock);
  if (::flock(store->lock_.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno(lock);
  auto opened = lmdb::open_or_begin_anew(directory, "greylisting and quotas begin anew", store->warning_,
                                         [&] { return lmdb::open_hints(directory, kMapSize); });
  if (!opened) return std::unexpected(std::move(opened).error());
  store->database_ = *std::move(opened);
  return store;
}

Result<void> Store::each(const std::function<void(std::string_view key, std::string_view value)>& visit) const {
  PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
  PEN_TRY(read.each({}, [&](std::string_view key, std::string_view value) {
    visit(key, value);
    return true;
  }));
  return {};
}

Result<void> Store::write(const std::vector<Change>& changes) const {
  PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
  for (const auto& change : changes) {
    if (change.value)
      PEN_TRY(write.put(change.key, *change.value));
    else
      PEN_TRY(write.erase(change.key));
  }
  return write.commit();
}

}  // namespace pen::anvil
