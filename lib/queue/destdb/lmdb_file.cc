/// The destination database's file: one unnamed LMDB database.
///
/// Facts:       "k" and the key, or "h" and its hash if the key is too long for LMDB; value encode(Record).
/// Suspensions: "s" and the name; value encode(Suspension).
/// Notes:       "n" and the key; value as it was given.
/// Learned:     "r" and the hash of the key (provider, source and sender's domain); value encode(LearnedRecord), and
///              behind it the rates, where several were ordered.
#include <xxhash.h>

#include "lib/base/lmdb/hints.h"
#include "lib/queue/destdb/destdb.h"

namespace pen::destdb {
namespace {

struct Record {
  std::string key;
  Facts facts;
  PEN_FIELDS(key, facts)
};

struct LearnedRecord {
  std::string key;
  shaping::Learned learned;
  PEN_FIELDS(key, learned)
};
struct LearnedWithRates {
  std::string key;
  shaping::Learned learned;
  std::string rates;
  PEN_FIELDS(key, learned, rates)
};

constexpr std::size_t kMapSize = std::size_t{1} << 31;  // address space, not memory
constexpr std::size_t kMaxPlainKey = 500;               // LMDB permits 511 bytes

std::string hashed(char kind, const std::string& key) {
  const XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  return kind + std::string(reinterpret_cast<const char*>(&h), sizeof h);
}

std::string stored_key(const std::string& key) { return key.size() <= kMaxPlainKey ? "k" + key : hashed('h', key); }

std::string stored_key(const Change& c) {
  switch (c.kind) {
    case Change::Kind::suspension:
      return "s" + c.key;
    case Change::Kind::note:
      return "n" + c.key;
    case Change::Kind::learned:
      return hashed('r', c.key);
    case Change::Kind::facts:
      break;
  }
  return stored_key(c.key);
}

/// An unreadable record, of an older or newer form, is a lost hint, not damage.
void take_record(std::string_view key, std::string_view value, Contents& into) {
  if (key.starts_with('s')) {
    if (auto s = decode<Suspension>(value)) into.suspensions.push_back(*std::move(s));
  } else if (key.starts_with('n')) {
    into.notes.emplace_back(key.substr(1), value);
  } else if (key.starts_with('r')) {
    if (auto record = decode<LearnedRecord>(value)) {
      into.learned.emplace_back(std::move(record->key), std::move(record->learned));
    } else if (auto with_rates = decode<LearnedWithRates>(value)) {
      with_rates->learned.ordered_rates = std::move(with_rates->rates);
      into.learned.emplace_back(std::move(with_rates->key), std::move(with_rates->learned));
    }
  } else if (auto record = decode<Record>(value)) {
    into.facts.emplace_back(std::move(record->key), std::move(record->facts));
  }
}

class LmdbFile final : public File {
 public:
  explicit LmdbFile(std::unique_ptr<lmdb::Database> database) : database_(std::move(database)) {}

  Result<Contents> load() override {
    Contents out;
    PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
    PEN_TRY(read.each({}, [&](std::string_view key, std::string_view value) {
      take_record(key, value, out);
      return true;
    }));
    return out;
  }

  Result<void> write(const std::vector<Change>& changes) override {
    database_->forget_dead_readers();
    PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
    for (const Change& c : changes) {
      const std::string key = stored_key(c);
      if (c.suspension) {
        PEN_TRY(write.put(key, encode(*c.suspension)));
      } else if (c.note) {
        PEN_TRY(write.put(key, *c.note));
      } else if (c.facts) {
        PEN_TRY(write.put(key, encode(Record{c.key, *c.facts})));
      } else if (c.learned) {
        const std::string& rates = c.learned->ordered_rates;
        PEN_TRY(write.put(key, rates.empty() ? encode(LearnedRecord{c.key, *c.learned})
                                             : encode(LearnedWithRates{c.key, *c.learned, rates})));
      } else {
        PEN_TRY(write.erase(key));
      }
    }
    return write.commit();
  }

 private:
  std::unique_ptr<lmdb::Database> database_;
};

class LmdbReader final : public Reader {
 public:
  explicit LmdbReader(std::unique_ptr<lmdb::Database> database) : database_(std::move(database)) {}

  Result<Contents> next(std::size_t most) override {
    Contents out;
    PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
    const std::string from = last_;
    std::size_t seen = 0;
    PEN_TRY_ASSIGN(done_, read.each(from, [&](std::string_view key, std::string_view value) {
      if (seen++ == most) return false;
      if (key != from) {
        take_record(key, value, out);
        last_ = key;
      }
      return true;
    }));
    return out;
  }
  bool done() const override { return done_; }

 private:
  std::unique_ptr<lmdb::Database> database_;
  std::string last_;
  bool done_ = false;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_reader(const std::string& directory, bool quiet) {
  PEN_TRY_ASSIGN(auto database, lmdb::open_hints_to_read(directory, kMapSize, lmdb::Check{quiet}));
  return std::make_unique<LmdbReader>(std::move(database));
}

Result<std::shared_ptr<File>> open_lmdb(const std::string& directory) {
  PEN_TRY_ASSIGN(auto database, lmdb::open_hints(directory, kMapSize));
  return std::make_shared<LmdbFile>(std::move(database));
}

}  // namespace pen::destdb
