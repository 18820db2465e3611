/// Key: the day, eight bytes with the highest first, and the domain; value encode(DomainDay).
#include "tlsrpt/store.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/codec.h"
#include "lib/base/lmdb_pages.h"

namespace pen::tlsrpt {
namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory

std::string stored_key(std::int64_t day, const std::string& domain) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8)
    key += static_cast<char>(static_cast<std::uint64_t>(day) >> shift);
  return key + domain;  // 8 and at most 255 bytes: LMDB takes 511
}

std::unexpected<Error> lmdb_error(int code, const std::string& what) {
  if (code > 0) return fail_errno(what, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_PANIC ||
                       code == MDB_INCOMPATIBLE;
  return fail(damaged ? StoreError::damaged : StoreError::failed,
              what + ": " + ::mdb_strerror(code));
}

/// liblmdb believes what it maps: a damaged file would end the process at the first touch.
Result<void> check_file(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) return fail_errno("open " + file);
  struct stat st{};
  const bool empty = ::fstat(fd, &st) == 0 && st.st_size == 0;
  const auto whole = empty ? Result<void>() : check_lmdb_pages(fd);
  ::close(fd);
  if (whole) return {};
  return fail(StoreError::damaged, file + ": " + whole.error().message());
}

}  // namespace

struct Store::Env {
  std::string path;
  MDB_env* env = nullptr;
  MDB_dbi dbi = 0;
  ~Env() {
    if (env != nullptr) ::mdb_env_close(env);
  }

  Result<void> open(const std::string& directory) {
    path = directory;
    std::error_code code;
    std::filesystem::create_directories(directory, code);
    if (code) return fail(Error::from_errno(code.value(), directory));
    PEN_TRY(check_file(directory + "/data.mdb"));
    if (int rc = ::mdb_env_create(&env); rc != 0) return lmdb_error(rc, path);
    ::mdb_env_set_mapsize(env, kMapSize);
    if (int rc = ::mdb_env_open(env, directory.c_str(), MDB_NOTLS, 0600); rc != 0)
      return lmdb_error(rc, path);
    MDB_txn* txn = nullptr;
    if (int rc = ::mdb_txn_begin(env, nullptr, 0, &txn); rc != 0) return lmdb_error(rc, path);
    if (int rc = ::mdb_dbi_open(txn, nullptr, 0, &dbi); rc != 0) {
      ::mdb_txn_abort(txn);
      return lmdb_error(rc, path);
    }
    if (int rc = ::mdb_txn_commit(txn); rc != 0) return lmdb_error(rc, path);
    return {};
  }
};

Store::Store() = default;
Store::~Store() = default;

Result<std::shared_ptr<Store>> Store::open(const std::string& directory) {
  std::shared_ptr<Store> store(new Store);
  store->env_ = std::make_unique<Env>();
  auto opened = store->env_->open(directory);
  if (!opened && opened.error().is(StoreError::damaged)) {
    store->env_ = std::make_unique<Env>();
    const std::string file = directory + "/data.mdb", aside = file + ".damaged";
    if (::rename(file.c_str(), aside.c_str()) != 0) return fail_errno("rename " + file);
    store->warning_ = opened.error().message() + "; set aside as " + aside +
                      ": what had gathered for TLS reports begins anew";
    opened = store->env_->open(directory);
  }
  if (!opened) return fail(std::move(opened).error());
  return store;
}

Result<std::vector<DomainDay>> Store::load() {
  std::vector<DomainDay> out;
  MDB_txn* txn = nullptr;
  if (int rc = ::mdb_txn_begin(env_->env, nullptr, MDB_RDONLY, &txn); rc != 0)
    return lmdb_error(rc, env_->path);
  MDB_cursor* cursor = nullptr;
  int rc = ::mdb_cursor_open(txn, env_->dbi, &cursor);
  if (rc == 0) {
    MDB_val key{}, value{};
    while ((rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
      auto day = decode<DomainDay>({static_cast<const char*>(value.mv_data), value.mv_size});
      if (day) out.push_back(*std::move(day));
    }
    ::mdb_cursor_close(cursor);
  }
  ::mdb_txn_abort(txn);
  if (rc != MDB_NOTFOUND) return lmdb_error(rc, env_->path);
  return out;
}

Result<void> Store::write(const std::vector<Change>& changes) {
  MDB_txn* txn = nullptr;
  if (int rc = ::mdb_txn_begin(env_->env, nullptr, 0, &txn); rc != 0)
    return lmdb_error(rc, env_->path);
  for (const Change& c : changes) {
    std::string name = stored_key(c.day, c.domain);
    MDB_val key{name.size(), name.data()};
    int rc = 0;
    if (c.value) {
      std::string text = encode(*c.value);
      MDB_val value{text.size(), text.data()};
      rc = ::mdb_put(txn, env_->dbi, &key, &value, 0);
    } else {
      rc = ::mdb_del(txn, env_->dbi, &key, nullptr);
      if (rc == MDB_NOTFOUND) rc = 0;
    }
    if (rc != 0) {
      ::mdb_txn_abort(txn);
      return lmdb_error(rc, env_->path);
    }
  }
  if (int rc = ::mdb_txn_commit(txn); rc != 0) return lmdb_error(rc, env_->path);
  return {};
}

}  // namespace pen::tlsrpt
