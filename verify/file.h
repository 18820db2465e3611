#pragma once
/// The file of what is known of addresses (address_verify_map).
///
/// Use:     co_await file.open();   write_soon() after each change;   co_await file.finish();
/// Lost:    what a kill loses is probed for again (lib/suite/remembered/written_behind.h).
/// Thread:  the loop's.
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/remembered/written_behind.h"
#include "verify/cache.h"

namespace pen::verify {

/// The directory that address_verify_map names; "": none. Errors: a type of table that verify cannot write.
Result<std::string> cache_directory(std::string_view address_verify_map);

class File final : private remembered::Table {
 public:
  /// directory: "": nothing is kept. The cache must outlive this object.
  File(async::Loop& loop, std::string directory, Cache& cache);
  /// Reads what is stored, and writes changes from then on.
  async::Task<void> open();
  void write_soon() { file_.write_soon(); }
  async::Task<void> finish() { return file_.finish(); }

 private:
  void take(std::string_view key, std::string_view value) override;
  bool changed() const override { return cache_.changed(); }
  std::vector<lmdb::Change> take_changes(std::size_t most) override { return cache_.take_changes(most); }

  async::Loop& loop_;
  Cache& cache_;
  remembered::WrittenBehind file_;
};

}  // namespace pen::verify
