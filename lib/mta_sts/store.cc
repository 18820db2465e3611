#include "lib/mta_sts/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "lib/hints/file.h"

namespace pen::mta_sts {
namespace {

using hints::Transaction;
using hints::val;
using hints::view;

constexpr std::size_t kMaxDomain = 253;

/// Whoever looks whether the file is whole must not see it change (lib/hints/file.h): writers share this lock, who
/// opens the file has it alone. Each use has a descriptor of its own, as threads would share the lock of one.
class FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Result<void> take(const std::string& directory, int how) {
    const std::string file = directory + "/open.lock";
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) return fail_errno("open " + file);
    while (::flock(fd_, how) != 0)
      if (errno != EINTR) return fail_errno("lock " + file);
    return {};
  }

 private:
  int fd_ = -1;
};

/// The part of the store that is not on disk.
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
  std::vector<std::pair<std::string, Known>> after(const std::string& domain,
                                                   std::size_t most) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, Known>> out;
    for (auto i = known_.upper_bound(domain); i != known_.end() && out.size() < most; ++i)
      out.emplace_back(*i);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
};

class MemoryStore final : public Store {
 public:
  Known get(const std::string& domain) override { return memory_.get(domain).value_or(Known()); }
  Result<void> update(const std::string& domain,
                      const std::function<void(Known&)>& change) override {
    Known known = get(domain);
    change(known);
    memory_.put(domain, std::move(known));
    return {};
  }
  Result<std::string> each(
      const std::string& after, std::size_t most,
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
  Result<void> open(const std::string& directory) {
    std::error_code code;
    std::filesystem::create_directories(directory, code);  // for the lock
    if (code) return fail(Error::from_errno(code.value(), directory));
    path_ = directory;
    FileLock alone;
    PEN_TRY(alone.take(path_, LOCK_EX));
    PEN_TRY_ASSIGN(file_, hints::File::open(path_, kMapSize));
    return {};
  }

  Known get(const std::string& domain) override {
    if (auto known = overflow_.get(domain)) return *std::move(known);
    const Transaction txn(*file_, Transaction::read);
    return txn.begun() == 0 ? read(txn.get(), domain) : Known();
  }

  Result<void> update(const std::string& domain,
                      const std::function<void(Known&)>& change) override {
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

  Result<std::string> each(
      const std::string& after, std::size_t most,
      const std::function<bool(const std::string&, const Known&)>& visit) override {
    FileLock shared;
    PEN_TRY(shared.take(path_, LOCK_SH));
    file_->forget_dead_readers();
    Transaction txn(*file_, Transaction::write);
    if (txn.begun() != 0) return file_->error(txn.begun());
    MDB_cursor* cursor = nullptr;
    if (int rc = ::mdb_cursor_open(txn.get(), file_->dbi(), &cursor); rc != 0)
      return file_->error(rc);
    std::string last = after;
    MDB_val key = val(last), value{};
    int rc = ::mdb_cursor_get(cursor, &key, &value, last.empty() ? MDB_FIRST : MDB_SET_RANGE);
    std::size_t seen = 0;
    while (rc == 0 && seen < most) {
      if (const std::string domain(view(key)); domain != after) {
        last = domain;
        ++seen;
        const auto known = decode<Known>(view(value));
        // What another version wrote in a form that is not ours is fetched again when it is needed.
        if (!known || visit(domain, *known)) rc = ::mdb_cursor_del(cursor, 0);
        if (rc != 0) break;
      }
      rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    ::mdb_cursor_close(cursor);
    if (rc != 0 && rc != MDB_NOTFOUND) return file_->error(rc);
    if (int committed = txn.commit(); committed != 0) return file_->error(committed);
    return rc == MDB_NOTFOUND ? std::string() : last;
  }

 private:
  Known read(MDB_txn* txn, std::string domain) const {
    if (domain.size() > kMaxDomain) return {};
    MDB_val key = val(domain), value{};
    if (::mdb_get(txn, file_->dbi(), &key, &value) != 0) return {};
    return decode<Known>(view(value)).value_or(Known());
  }

  /// overflow: what this process knows besides, which counts in place of the file's where it is newer.
  Result<void> write(std::string domain, const Known& overflow,
                     const std::function<void(Known&)>& change) {
    if (domain.empty() || domain.size() > kMaxDomain)
      return fail(hints::FileError::failed,
                  "a name of " + std::to_string(domain.size()) + " bytes");
    FileLock shared;
    PEN_TRY(shared.take(path_, LOCK_SH));
    Transaction txn(*file_, Transaction::write);
    if (txn.begun() != 0) return file_->error(txn.begun());
    Known known = read(txn.get(), domain);
    if (overflow.fetched > known.fetched) known = overflow;
    change(known);
    std::string text = encode(known);
    MDB_val key = val(domain), value = val(text);
    if (int rc = ::mdb_put(txn.get(), file_->dbi(), &key, &value, 0); rc != 0)
      return file_->error(rc);
    if (int rc = txn.commit(); rc != 0) return file_->error(rc);
    return {};
  }

  std::string path_;
  std::unique_ptr<hints::File> file_;
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
  auto store = hints::open_or_begin_anew(directory, "the policies are fetched again", warning,
                                         [&] { return open_lmdb(directory); });
  if (store) (*store)->warning = std::move(warning);
  return store;
}

std::shared_ptr<Store> memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace pen::mta_sts
