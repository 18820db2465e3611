#include "lib/trust/mta_sts/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "lib/base/fd.h"
#include "lib/base/lmdb/hints.h"

namespace pen::mta_sts {
namespace {

constexpr std::size_t kMaxDomain = 253;

/// The file must not change while a process checks it (lib/base/lmdb/hints.h): writers share this lock, and opening the
/// file takes it exclusively. Each use has its own descriptor, because threads would share the lock of one.
Result<Fd> lock(const std::string& directory, int how) {
  const std::string file = directory + "/open.lock";
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return fail_errno("open " + file);
  while (::flock(fd.get(), how) != 0)
    if (errno != EINTR) return fail_errno("lock " + file);
  return fd;
}

/// The part of the store that is in memory only.
class Memory {
 public:
  std::optional<Known> get(const std::string& domain) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(domain);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void put(const std::string& domain, Known known) {
    const std::lock_guard lock(mutex_);
    if (known_.size() >= Store::kOverflow && !known_.contains(domain)) known_.erase(known_.begin());
    known_[domain] = std::move(known);
  }
  void remove(const std::string& domain) {
    const std::lock_guard lock(mutex_);
    known_.erase(domain);
  }
  std::vector<std::pair<std::string, Known>> after(const std::string& domain, std::size_t most) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, Known>> out;
    for (auto i = known_.upper_bound(domain); i != known_.end() && out.size() < most; ++i) out.emplace_back(*i);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
};

class MemoryStore final : public Store {
 public:
  Known get(const std::string& domain) override { return memory_.get(domain).value_or(Known()); }
  Result<void> update(const std::string& domain, const std::function<void(Known&)>& change) override {
    Known known = get(domain);
    change(known);
    memory_.put(domain, std::move(known));
    return {};
  }
  Result<std::string> each(const std::string& after, std::size_t most,
                           const std::function<bool(const std::string&, const Known&)>& visit) override {
    const auto some = memory_.after(after, most);
    for (const auto& [domain, known] : some)
      if (visit(domain, known)) memory_.remove(domain);
    return some.size() < most ? std::string() : some.back().first;
  }

 private:
  Memory memory_;
};

class LmdbStore final : public Store {
 public:
  Result<void> open_to_read(const std::string& directory) {
    path_ = directory;
    PEN_TRY_ASSIGN(const Fd alone, lock(path_, LOCK_EX));
    PEN_TRY_ASSIGN(database_, lmdb::open_hints_to_read(path_, kMapSize, lmdb::Check::yes));
    return {};
  }

  Result<void> open(const std::string& directory) {
    std::error_code code;
    std::filesystem::create_directories(directory, code);  // for the lock
    if (code) return fail(Error::from_errno(code.value(), directory));
    path_ = directory;
    PEN_TRY_ASSIGN(const Fd alone, lock(path_, LOCK_EX));
    PEN_TRY_ASSIGN(database_, lmdb::open_hints(path_, kMapSize));
    return {};
  }

  Known get(const std::string& domain) override {
    if (auto known = overflow_.get(domain)) return *std::move(known);
    const auto read = lmdb::Read::begin(*database_);
    return read ? known_in(*read, domain) : Known();
  }

  Result<void> update(const std::string& domain, const std::function<void(Known&)>& change) override {
    Known known = get(domain);
    auto written = write(domain, known, change);
    if (written) {
      overflow_.remove(domain);
    } else {
      change(known);
      overflow_.put(domain, std::move(known));
    }
    return written;
  }

  Result<std::string> each(const std::string& after, std::size_t most,
                           const std::function<bool(const std::string&, const Known&)>& visit) override {
    PEN_TRY_ASSIGN(const Fd shared, lock(path_, LOCK_SH));
    database_->forget_dead_readers();
    PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
    std::string last = after;
    std::vector<std::string> gone;
    std::size_t seen = 0;
    const auto look = [&](std::string_view key, std::string_view value) {
      if (key == after) return true;
      if (seen++ == most) return false;
      last = key;
      const auto known = decode<Known>(value);
      // A record of another version in an unknown form is removed; its policy is fetched again when it is needed.
      if (!known || visit(last, *known)) gone.push_back(last);
      return true;
    };
    PEN_TRY_ASSIGN(const bool all, write.each(after, look));
    for (const std::string& domain : gone) PEN_TRY(write.erase(domain));
    PEN_TRY(write.commit());
    return all ? std::string() : last;
  }

 private:
  static Known known_in(const lmdb::Read& read, const std::string& domain) {
    if (domain.size() > kMaxDomain) return {};
    const auto value = read.get(domain);
    if (!value || !*value) return {};
    return decode<Known>(**value).value_or(Known());
  }

  /// overflow: what only this process knows; it counts in place of the file's entry if it is newer.
  Result<void> write(const std::string& domain, const Known& overflow, const std::function<void(Known&)>& change) {
    if (domain.empty() || domain.size() > kMaxDomain)
      return fail(lmdb::DatabaseError::failed, "a name of " + std::to_string(domain.size()) + " bytes");
    PEN_TRY_ASSIGN(const Fd shared, lock(path_, LOCK_SH));
    PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
    Known known = known_in(write, domain);
    if (overflow.fetched > known.fetched) known = overflow;
    change(known);
    PEN_TRY(write.put(domain, encode(known)));
    return write.commit();
  }

  std::string path_;
  std::unique_ptr<lmdb::Database> database_;
  Memory overflow_;
};

Result<std::shared_ptr<Store>> open_lmdb(const std::string& directory) {
  auto store = std::make_shared<LmdbStore>();
  PEN_TRY(store->open(directory));
  return store;
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(const std::string& directory) {
  std::string warning;
  auto store = lmdb::open_or_begin_anew(directory, "the policies are fetched again", warning,
                                        [&] { return open_lmdb(directory); });
  if (store) (*store)->warning = std::move(warning);
  return store;
}

Result<std::shared_ptr<Store>> open_store_to_read(const std::string& directory) {
  auto store = std::make_shared<LmdbStore>();
  PEN_TRY(store->open_to_read(directory));
  return store;
}

std::shared_ptr<Store> memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace pen::mta_sts
