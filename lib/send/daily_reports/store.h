#pragma once
/// Keeps what has gathered for daily reports in an LMDB file below data_directory, so that a crash loses seconds and
/// not the day.
///
/// Use:     auto store = Store<DomainDay>::open(directory, "TLS reports");   // a damaged file is set aside: warning()
///          for (auto& day : store->load()) days.restore(day);
///          store->write(days.take_changes());        // one transaction, synced
/// Key:     the day, eight bytes with the highest first, and the domain; value encode(Day).
/// Rules:   the data are hints: an unreadable record is left out.
/// Thread:  one at a time; write() may block.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/send/daily_reports/days.h"

namespace pen::lmdb {
class Database;
}

namespace pen::daily_reports {

/// The file, whatever is in it.
class Records {
 public:
  /// Creates the file if it is missing. what: "TLS reports", for the warning. Errors: it cannot be created or opened.
  static Result<std::unique_ptr<Records>> open(const std::string& directory, const std::string& what);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  struct Entry {
    std::int64_t day = 0;
    std::string domain;
    std::optional<std::string> value;  // none: remove it
  };
  Result<std::vector<std::string>> load() const;
  Result<void> write(const std::vector<Entry>& entries);
  const std::string& warning() const { return warning_; }

 private:
  explicit Records(std::unique_ptr<lmdb::Database> database);
  std::unique_ptr<lmdb::Database> database_;
  std::string warning_;
};

template <class Day>
class Store {
 public:
  static Result<std::shared_ptr<Store>> open(const std::string& directory, const std::string& what) {
    PEN_TRY_ASSIGN(auto records, Records::open(directory, what));
    return std::shared_ptr<Store>(new Store(std::move(records)));
  }
  Result<std::vector<Day>> load() const {
    PEN_TRY_ASSIGN(const auto values, records_->load());
    std::vector<Day> out;
    for (const std::string& value : values)
      if (auto day = decode<Day>(value)) out.push_back(*std::move(day));
    return out;
  }
  Result<void> write(const std::vector<Change<Day>>& changes) {
    std::vector<Records::Entry> entries;
    for (const auto& c : changes)
      entries.push_back({c.day, c.domain, c.value ? std::optional(encode(*c.value)) : std::nullopt});
    return records_->write(entries);
  }
  /// What was done with a damaged file, for the log; empty: it was sound.
  const std::string& warning() const { return records_->warning(); }

 private:
  explicit Store(std::unique_ptr<Records> records) : records_(std::move(records)) {}
  std::unique_ptr<Records> records_;
};

}  // namespace pen::daily_reports
