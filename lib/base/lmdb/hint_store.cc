#include "lib/base/lmdb/hint_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include "lib/base/lmdb/hints.h"

namespace pen::lmdb {
Result<std::shared_ptr<HintStore>> HintStore::open(const std::string& directory, std::string_view lost,
                                                   std::size_t map_size) {
  auto store = std::make_shared<HintStore>();
  const std::string lock = directory + ".lock";
  store->lock_ = Fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!store->lock_) return fail_errno(lock);
  if (::flock(store->lock_.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno(lock);
  auto opened = open_or_begin_anew(directory, lost, store->warning_, [&] { return open_hints(directory, map_size); });
  if (!opened) return std::unexpected(std::move(opened).error());
  store->database_ = *std::move(opened);
  return store;
}

Result<std::optional<std::string>> HintStore::find(std::string_view key) const {
  PEN_TRY_ASSIGN(const auto read, Read::begin(*database_));
  PEN_TRY_ASSIGN(const auto value, read.get(key));
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

Result<void> HintStore::each_from(
    std::string_view from, const std::function<bool(std::string_view key, std::string_view value)>& visit) const {
  PEN_TRY_ASSIGN(const auto read, Read::begin(*database_));
  PEN_TRY(read.each(from, visit));
  return {};
}

Result<void> HintStore::each(const std::function<void(std::string_view key, std::string_view value)>& visit) const {
  PEN_TRY_ASSIGN(const auto read, Read::begin(*database_));
  PEN_TRY(read.each({}, [&](std::string_view key, std::string_view value) {
    visit(key, value);
    return true;
  }));
  return {};
}

Result<void> HintStore::write(const std::vector<Change>& changes) const {
  PEN_TRY_ASSIGN(auto write, Write::begin(*database_));
  for (const auto& change : changes) {
    if (change.value)
      PEN_TRY(write.put(change.key, *change.value));
    else
      PEN_TRY(write.erase(change.key));
  }
  return write.commit();
}

}  // namespace pen::lmdb
