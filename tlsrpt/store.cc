/// Key: the day, eight bytes with the highest first, and the domain; value encode(DomainDay).
#include "tlsrpt/store.h"

#include "lib/base/codec.h"
#include "lib/hints/file.h"

namespace pen::tlsrpt {

using hints::Transaction;

namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory

std::string stored_key(std::int64_t day, const std::string& domain) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8)
    key += static_cast<char>(static_cast<std::uint64_t>(day) >> shift);
  return key + domain;  // 8 and at most 255 bytes: LMDB takes 511
}

}  // namespace

Store::Store(std::unique_ptr<hints::File> file) : file_(std::move(file)) {}
Store::~Store() = default;

Result<std::shared_ptr<Store>> Store::open(const std::string& directory) {
  std::string warning;
  PEN_TRY_ASSIGN(auto file, hints::open_or_begin_anew(
                                directory, "what had gathered for TLS reports begins anew", warning,
                                [&] { return hints::File::open(directory, kMapSize); }));
  std::shared_ptr<Store> store(new Store(std::move(file)));
  store->warning_ = std::move(warning);
  return store;
}

Result<std::vector<DomainDay>> Store::load() {
  std::vector<DomainDay> out;
  const Transaction txn(*file_, Transaction::read);
  if (txn.begun() != 0) return file_->error(txn.begun());
  MDB_cursor* cursor = nullptr;
  int rc = ::mdb_cursor_open(txn.get(), file_->dbi(), &cursor);
  if (rc == 0) {
    MDB_val key{}, value{};
    while ((rc = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0)
      if (auto day = decode<DomainDay>(hints::view(value))) out.push_back(*std::move(day));
    ::mdb_cursor_close(cursor);
  }
  if (rc != MDB_NOTFOUND) return file_->error(rc);
  return out;
}

Result<void> Store::write(const std::vector<Change>& changes) {
  Transaction txn(*file_, Transaction::write);
  if (txn.begun() != 0) return file_->error(txn.begun());
  for (const Change& c : changes) {
    std::string name = stored_key(c.day, c.domain);
    MDB_val key = hints::val(name);
    int rc = 0;
    if (c.value) {
      std::string text = encode(*c.value);
      MDB_val value = hints::val(text);
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

}  // namespace pen::tlsrpt
