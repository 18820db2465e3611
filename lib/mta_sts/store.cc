#include "lib/mta_sts/store.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "lib/base/lmdb_pages.h"

namespace pen::mta_sts {
namespace {

constexpr std::size_t kMaxDomain = 253;

/// Whoever looks whether the file is whole must not see it change (lib/base/lmdb_pages.h): writers share this lock, who
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

/// liblmdb believes what it maps: a damaged file would end the process at the first touch.
Result<void> check_file(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) return fail_errno("open " + file);
  struct stat st{};
  const bool empty = ::fstat(fd, &st) == 0 && st.st_size == 0;  // liblmdb will fill it
  const auto whole = empty ? Result<void>() : check_lmdb_pages(fd);
  ::close(fd);
  if (whole) return {};
  return fail(StoreError::damaged, file + ": " + whole.error().message());
}

std::unexpected<Error> lmdb_error(int code, const std::string& what) {
  if (code > 0) return fail_errno(what, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_INCOMPATIBLE;
  return fail(damaged ? StoreError::damaged : StoreError::failed,
              what + ": " + ::mdb_strerror(code));
}

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

/// One transaction; ends with the object unless commit() was called.
class Transaction {
 public:
  Transaction(MDB_env* env, bool write) {
    code_ = ::mdb_txn_begin(env, nullptr, write ? 0U : MDB_RDONLY, &txn_);
    if (code_ != 0) txn_ = nullptr;
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (txn_ != nullptr) ::mdb_txn_abort(txn_);
  }
  int begun() const { return code_; }
  MDB_txn* get() const { return txn_; }
  int commit() { return ::mdb_txn_commit(std::exchange(txn_, nullptr)); }

 private:
  MDB_txn* txn_ = nullptr;
  int code_ = 0;
};

MDB_val val(std::string& text) { return {text.size(), text.data()}; }
std::string_view view(const MDB_val& v) { return {static_cast<const char*>(v.mv_data), v.mv_size}; }

class LmdbStore final : public Store {
 public:
  ~LmdbStore() override {
    if (env_ != nullptr) ::mdb_env_close(env_);
  }

  Result<void> open(const std::string& directory) {
    std::error_code code;
    std::filesystem::create_directories(directory, code);
    if (code) return fail(Error::from_errno(code.value(), directory));
    path_ = directory;
    FileLock alone;
    PEN_TRY(alone.take(path_, LOCK_EX));
    PEN_TRY(check_file(path_ + "/data.mdb"));
    if (int rc = ::mdb_env_create(&env_); rc != 0) return lmdb_error(rc, path_);
    ::mdb_env_set_mapsize(env_, kMapSize);
    if (int rc = ::mdb_env_open(env_, path_.c_str(), MDB_NOTLS, 0600); rc != 0)
      return lmdb_error(rc, path_);
    Transaction txn(env_, true);
    if (txn.begun() != 0) return lmdb_error(txn.begun(), path_);
    if (int rc = ::mdb_dbi_open(txn.get(), nullptr, 0, &dbi_); rc != 0)
      return lmdb_error(rc, path_);
    if (int rc = txn.commit(); rc != 0) return lmdb_error(rc, path_);
    return {};
  }

  Known get(const std::string& domain) override {
    if (auto known = overflow_.get(domain)) return *std::move(known);
    const Transaction txn(env_, false);
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
    // A process that was killed while it read would keep its pages from being used again.
    int dead = 0;
    ::mdb_reader_check(env_, &dead);
    Transaction txn(env_, true);
    if (txn.begun() != 0) return lmdb_error(txn.begun(), path_);
    MDB_cursor* cursor = nullptr;
    if (int rc = ::mdb_cursor_open(txn.get(), dbi_, &cursor); rc != 0) return lmdb_error(rc, path_);
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
    if (rc != 0 && rc != MDB_NOTFOUND) return lmdb_error(rc, path_);
    if (int committed = txn.commit(); committed != 0) return lmdb_error(committed, path_);
    return rc == MDB_NOTFOUND ? std::string() : last;
  }

 private:
  Known read(MDB_txn* txn, std::string domain) const {
    if (domain.size() > kMaxDomain) return {};
    MDB_val key = val(domain), value{};
    if (::mdb_get(txn, dbi_, &key, &value) != 0) return {};
    return decode<Known>(view(value)).value_or(Known());
  }

  /// overflow: what this process knows besides, which counts in place of the file's where it is newer.
  Result<void> write(std::string domain, const Known& overflow,
                     const std::function<void(Known&)>& change) {
    if (domain.empty() || domain.size() > kMaxDomain)
      return fail(StoreError::failed, "a name of " + std::to_string(domain.size()) + " bytes");
    FileLock shared;
    PEN_TRY(shared.take(path_, LOCK_SH));
    Transaction txn(env_, true);
    if (txn.begun() != 0) return lmdb_error(txn.begun(), path_);
    Known known = read(txn.get(), domain);
    if (overflow.fetched > known.fetched) known = overflow;
    change(known);
    std::string text = encode(known);
    MDB_val key = val(domain), value = val(text);
    if (int rc = ::mdb_put(txn.get(), dbi_, &key, &value, 0); rc != 0) return lmdb_error(rc, path_);
    if (int rc = txn.commit(); rc != 0) return lmdb_error(rc, path_);
    return {};
  }

  std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
  Memory overflow_;
};

Result<std::shared_ptr<Store>> open_lmdb(const std::string& directory) {
  auto store = std::make_shared<LmdbStore>();
  PEN_TRY(store->open(directory));
  return store;
}

}  // namespace

std::string_view error_module(StoreError) { return "mta_sts"; }
std::string_view describe(StoreError e) {
  return e == StoreError::damaged ? "the policy cache is damaged" : "the policy cache failed";
}

Result<std::shared_ptr<Store>> open_store(const std::string& directory) {
  auto store = open_lmdb(directory);
  if (store || !store.error().is(StoreError::damaged)) return store;
  const std::string why = store.error().message();
  const std::string aside = directory + ".damaged";
  std::error_code code;
  std::filesystem::remove_all(aside, code);
  std::filesystem::rename(directory, aside, code);
  if (code) return fail(Error::from_errno(code.value(), "set aside " + directory));
  store = open_lmdb(directory);
  if (store)
    (*store)->warning = why + "; set aside as " + aside + "; the policies are fetched again";
  return store;
}

std::shared_ptr<Store> memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace pen::mta_sts
