/// Key: the day, eight bytes with the highest first, and the domain; value encode(DomainDay).
#include "tlsrpt/store.h"

#include "lib/base/codec.h"
#include "lib/lmdb/hints.h"

namespace pen::tlsrpt {

namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory

std::string stored_key(std::int64_t day, const std::string& domain) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(static_cast<std::uint64_t>(day) >> shift);
  return key + domain;  // 8 and at most 255 bytes: LMDB takes 511
}

}  // namespace

Store::Store(std::unique_ptr<lmdb::Database> database) : database_(std::move(database)) {}
Store::~Store() = default;

Result<std::shared_ptr<Store>> Store::open(const std::string& directory) {
  std::string warning;
  PEN_TRY_ASSIGN(auto database,
                 lmdb::open_or_begin_anew(directory, "what had gathered for TLS reports begins anew", warning,
                                          [&] { return lmdb::open_hints(directory, kMapSize); }));
  std::shared_ptr<Store> store(new Store(std::move(database)));
  store->warning_ = std::move(warning);
  return store;
}

Result<std::vector<DomainDay>> Store::load() {
  std::vector<DomainDay> out;
  PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
  PEN_TRY(read.each({}, [&](std::string_view, std::string_view value) {
    if (auto day = decode<DomainDay>(value)) out.push_back(*std::move(day));
    return true;
  }));
  return out;
}

Result<void> Store::write(const std::vector<Change>& changes) {
  PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
  for (const Change& c : changes) {
    const std::string key = stored_key(c.day, c.domain);
    PEN_TRY(c.value ? write.put(key, encode(*c.value)) : write.erase(key));
  }
  return write.commit();
}

}  // namespace pen::tlsrpt
