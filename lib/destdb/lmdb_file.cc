/// The destination database's file: one unnamed LMDB database.
///
/// Facts:       "k" and the key, or "h" and its hash where LMDB's keys are too short for it; value encode(Record).
/// Suspensions: "s" and the name; value encode(Suspension).
#include <xxhash.h>

#include "lib/destdb/destdb.h"
#include "lib/hints/file.h"

namespace pen::destdb {
namespace {

using hints::Transaction;
using hints::val;
using hints::view;

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
  const std::string_view bytes = view(value);
  if (key.mv_size > 0 && *static_cast<const char*>(key.mv_data) == 's') {
    if (auto s = decode<Suspension>(bytes)) into.suspensions.push_back(*std::move(s));
  } else if (auto record = decode<Record>(bytes)) {
    into.facts.emplace_back(std::move(record->key), std::move(record->facts));
  }
}

class LmdbFile final : public File {
 public:
  explicit LmdbFile(std::unique_ptr<hints::File> file) : file_(std::move(file)) {}

  Result<Contents> load() override {
    Contents out;
    const Transaction txn(*file_, Transaction::read);
    if (txn.begun() != 0) return file_->error(txn.begun());
    MDB_cursor* cursor = nullptr;
    int rc = ::mdb_cursor_open(txn.get(), file_->dbi(), &cursor);
    if (rc == 0) {
      MDB_val key{}, value{};
      while ((rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0)
        take_record(key, value, out);
      ::mdb_cursor_close(cursor);
    }
    if (rc != MDB_NOTFOUND) return file_->error(rc);
    return out;
  }

  Result<void> write(const std::vector<Change>& changes) override {
    file_->forget_dead_readers();
    Transaction txn(*file_, Transaction::write);
    if (txn.begun() != 0) return file_->error(txn.begun());
    for (const Change& c : changes) {
      std::string name = stored_key(c);
      MDB_val key = val(name);
      int rc = 0;
      if (c.facts || c.suspension) {
        std::string text = c.suspension ? encode(*c.suspension) : encode(Record{c.key, *c.facts});
        MDB_val value = val(text);
        rc = ::mdb_put(txn.get(), file_->dbi(), &key, &value, 0);
      } else {
        rc = ::mdb_del(txn.get(), file_->dbi(), &key, nullptr);
        if (rc == MDB_NOTFOUND) rc = 0;
      }
      if (rc != 0) return file_->error(rc);
    }
    if (int rc = txn.commit(); rc != 0) return file_->error(rc);
    return {};
  }

 private:
  std::unique_ptr<hints::File> file_;
};

class LmdbReader final : public Reader {
 public:
  explicit LmdbReader(std::unique_ptr<hints::File> file) : file_(std::move(file)) {}

  Result<Contents> next(std::size_t most) override {
    Contents out;
    const Transaction txn(*file_, Transaction::read);
    if (txn.begun() != 0) return file_->error(txn.begun());
    MDB_cursor* cursor = nullptr;
    int rc = ::mdb_cursor_open(txn.get(), file_->dbi(), &cursor);
    if (rc == 0) {
      MDB_val key = val(last_), value{};
      rc = ::mdb_cursor_get(cursor, &key, &value, last_.empty() ? MDB_FIRST : MDB_SET_RANGE);
      for (std::size_t n = 0; rc == 0 && n < most; ++n) {
        const std::string_view at = view(key);
        if (at != last_) {
          take_record(key, value, out);
          last_ = at;
        }
        rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
      }
      ::mdb_cursor_close(cursor);
    }
    if (rc == MDB_NOTFOUND) {
      done_ = true;
      rc = 0;
    }
    if (rc != 0) return file_->error(rc);
    return out;
  }
  bool done() const override { return done_; }

 private:
  std::unique_ptr<hints::File> file_;
  std::string last_;
  bool done_ = false;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_reader(const std::string& directory, bool quiet) {
  const auto check = quiet ? hints::File::Check::yes : hints::File::Check::no;
  PEN_TRY_ASSIGN(auto file, hints::File::open_to_read(directory, kMapSize, check));
  return std::make_unique<LmdbReader>(std::move(file));
}

Result<std::shared_ptr<File>> open_lmdb(const std::string& directory) {
  PEN_TRY_ASSIGN(auto file, hints::File::open(directory, kMapSize));
  return std::make_shared<LmdbFile>(std::move(file));
}

}  // namespace pen::destdb
