/// The destination database's file: one unnamed LMDB database.
///
/// Facts:       "k" and the key, or "h" and its hash where LMDB's keys are too short for it; value encode(Record).
/// Suspensions: "s" and the name; value encode(Suspension).
#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/lmdb_pages.h"
#include "lib/destdb/destdb.h"

namespace pen::destdb {
namespace {

struct Record {
  std::string key;
  Facts facts;
  PEN_FIELDS(key, facts)
};

constexpr std::size_t kMapSize = std::size_t{1} << 31;  // address space, not memory
constexpr std::size_t kMaxPlainKey = 500;               // LMDB takes 511 bytes

std::string stored_key(const std::string& key) {
  if (key.size() <= kMaxPlainKey) return "k" + key;
  const XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  return "h" + std::string(reinterpret_cast<const char*>(&h), sizeof h);
}

std::string stored_key(const Change& c) {
  return c.kind == Change::Kind::suspension ? "s" + c.key : stored_key(c.key);
}

/// A record that cannot be read is a hint less, not damage: an older or newer form.
void take_record(const MDB_val& key, const MDB_val& value, Contents& into) {
  const std::string_view bytes(static_cast<const char*>(value.mv_data), value.mv_size);
  if (key.mv_size > 0 && *static_cast<const char*>(key.mv_data) == 's') {
    if (auto s = decode<Suspension>(bytes)) into.suspensions.push_back(*std::move(s));
  } else if (auto record = decode<Record>(bytes)) {
    into.facts.emplace_back(std::move(record->key), std::move(record->facts));
  }
}

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
  return fail(DestDbError::damaged, file + ": " + whole.error().message());
}

std::unexpected<Error> lmdb_error(int code, const std::string& what) {
  if (code > 0) return fail_errno(what, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_PANIC ||
                       code == MDB_INCOMPATIBLE;
  return fail(damaged ? DestDbError::damaged : DestDbError::failed,
              what + ": " + ::mdb_strerror(code));
}

class LmdbFile final : public File {
 public:
  ~LmdbFile() override {
    if (env_ != nullptr) ::mdb_env_close(env_);
  }

  Result<void> open(const std::string& directory) {
    std::error_code code;
    std::filesystem::create_directories(directory, code);
    if (code) return fail(Error::from_errno(code.value(), directory));
    path_ = directory;
    PEN_TRY(check_file(directory + "/data.mdb"));
    if (int rc = ::mdb_env_create(&env_); rc != 0) return lmdb_error(rc, path_);
    ::mdb_env_set_mapsize(env_, kMapSize);
    if (int rc = ::mdb_env_open(env_, directory.c_str(), MDB_NOTLS, 0600); rc != 0)
      return lmdb_error(rc, path_);
    MDB_txn* txn = nullptr;
    if (int rc = ::mdb_txn_begin(env_, nullptr, 0, &txn); rc != 0) return lmdb_error(rc, path_);
    if (int rc = ::mdb_dbi_open(txn, nullptr, 0, &dbi_); rc != 0) {
      ::mdb_txn_abort(txn);
      return lmdb_error(rc, path_);
    }
    if (int rc = ::mdb_txn_commit(txn); rc != 0) return lmdb_error(rc, path_);
    return {};
  }

  Result<Contents> load() override {
    Contents out;
    MDB_txn* txn = nullptr;
    if (int rc = ::mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn); rc != 0)
      return lmdb_error(rc, path_);
    MDB_cursor* cursor = nullptr;
    int rc = ::mdb_cursor_open(txn, dbi_, &cursor);
    if (rc == 0) {
      MDB_val key{}, value{};
      while ((rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0)
        take_record(key, value, out);
      ::mdb_cursor_close(cursor);
    }
    ::mdb_txn_abort(txn);
    if (rc != MDB_NOTFOUND) return lmdb_error(rc, path_);
    return out;
  }

  Result<void> write(const std::vector<Change>& changes) override {
    // A tool that was killed while it read would keep its pages from being used again.
    ::mdb_reader_check(env_, nullptr);
    MDB_txn* txn = nullptr;
    if (int rc = ::mdb_txn_begin(env_, nullptr, 0, &txn); rc != 0) return lmdb_error(rc, path_);
    for (const Change& c : changes) {
      std::string name = stored_key(c);
      MDB_val key{name.size(), name.data()};
      int rc = 0;
      if (c.facts || c.suspension) {
        std::string text = c.suspension ? encode(*c.suspension) : encode(Record{c.key, *c.facts});
        MDB_val value{text.size(), text.data()};
        rc = ::mdb_put(txn, dbi_, &key, &value, 0);
      } else {
        rc = ::mdb_del(txn, dbi_, &key, nullptr);
        if (rc == MDB_NOTFOUND) rc = 0;
      }
      if (rc != 0) {
        ::mdb_txn_abort(txn);
        return lmdb_error(rc, path_);
      }
    }
    if (int rc = ::mdb_txn_commit(txn); rc != 0) return lmdb_error(rc, path_);
    return {};
  }

 private:
  std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
};

class LmdbReader final : public Reader {
 public:
  ~LmdbReader() override {
    if (env_ != nullptr) ::mdb_env_close(env_);
  }

  Result<void> open(const std::string& directory, bool quiet) {
    path_ = directory;
    const std::string file = directory + "/data.mdb";
    if (::access(file.c_str(), R_OK) != 0) return fail_errno(file);
    if (quiet) PEN_TRY(check_file(file));
    if (int rc = ::mdb_env_create(&env_); rc != 0) return lmdb_error(rc, path_);
    ::mdb_env_set_mapsize(env_, kMapSize);
    if (int rc = ::mdb_env_open(env_, directory.c_str(), MDB_RDONLY | MDB_NOTLS, 0600); rc != 0)
      return lmdb_error(rc, path_);
    return {};
  }

  Result<Contents> next(std::size_t most) override {
    Contents out;
    MDB_txn* txn = nullptr;
    if (int rc = ::mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn); rc != 0)
      return lmdb_error(rc, path_);
    MDB_dbi dbi = 0;
    MDB_cursor* cursor = nullptr;
    int rc = ::mdb_dbi_open(txn, nullptr, 0, &dbi);
    if (rc == 0) rc = ::mdb_cursor_open(txn, dbi, &cursor);
    if (rc == 0) {
      MDB_val key{last_.size(), last_.data()}, value{};
      rc = ::mdb_cursor_get(cursor, &key, &value, last_.empty() ? MDB_FIRST : MDB_SET_RANGE);
      for (std::size_t n = 0; rc == 0 && n < most; ++n) {
        const std::string_view at(static_cast<const char*>(key.mv_data), key.mv_size);
        if (at != last_) {
          take_record(key, value, out);
          last_ = at;
        }
        rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
      }
      ::mdb_cursor_close(cursor);
    }
    ::mdb_txn_abort(txn);
    if (rc == MDB_NOTFOUND) {
      done_ = true;
      rc = 0;
    }
    if (rc != 0) return lmdb_error(rc, path_);
    return out;
  }
  bool done() const override { return done_; }

 private:
  std::string path_, last_;
  MDB_env* env_ = nullptr;
  bool done_ = false;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_reader(const std::string& directory, bool quiet) {
  auto reader = std::make_unique<LmdbReader>();
  PEN_TRY(reader->open(directory, quiet));
  return reader;
}

Result<std::shared_ptr<File>> open_lmdb(const std::string& directory) {
  auto file = std::make_shared<LmdbFile>();
  PEN_TRY(file->open(directory));
  return file;
}

}  // namespace pen::destdb
