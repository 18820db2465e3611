#include "lib/send/daily_reports/store.h"

#include "lib/base/lmdb/hints.h"

namespace pen::daily_reports {

namespace {

constexpr std::size_t kMapSize = std::size_t{1} << 30;  // address space, not memory

std::string stored_key(std::int64_t day, const std::string& domain) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(static_cast<std::uint64_t>(day) >> shift);
  return key + domain;  // 8 and at most 255 bytes: LMDB takes 511
}

}  // namespace

Records::Records(std::unique_ptr<lmdb::Database> database) : database_(std::move(database)) {}
Records::~Records() = default;

Result<std::unique_ptr<Records>> Records::open(const std::string& directory, const std::string& what) {
  std::string warning;
  PEN_TRY_ASSIGN(auto database,
                 lmdb::open_or_begin_anew(directory, "what had gathered for " + what + " begins anew", warning,
                                          [&] { return lmdb::open_hints(directory, kMapSize); }));
  std::unique_ptr<Records> records(new Records(std::move(database)));
  records->warning_ = std::move(warning);
  return records;
}

Result<std::vector<std::string>> Records::load() const {
  std::vector<std::string> out;
  PEN_TRY_ASSIGN(const auto read, lmdb::Read::begin(*database_));
  PEN_TRY(read.each({}, [&](std::string_view, std::string_view value) {
    out.emplace_back(value);
    return true;
  }));
  return out;
}

Result<void> Records::write(const std::vector<Entry>& entries) {
  PEN_TRY_ASSIGN(auto write, lmdb::Write::begin(*database_));
  for (const Entry& e : entries) {
    const std::string key = stored_key(e.day, e.domain);
    PEN_TRY(e.value ? write.put(key, *e.value) : write.erase(key));
  }
  return write.commit();
}

}  // namespace pen::daily_reports
