#pragma once
/// What an import has taken over of another mail system's queue, on disk: each message once, however often the import
/// is broken off and repeated.
///
/// Use:     auto ledger = ImportLedger::open(directory);
///          ledger->begin({{key, {.id = id, .way = Way::queue}}});   // synced: from here on the id belongs to the key
///          … hand the message in, on hold …
///          ledger->advance({key}, Stage::taken);                     // it is in the queue, and cannot leave by itself
///          … release it …
///          ledger->advance({key}, Stage::released);
/// Form:    lines of text: "b WAY ID KEY", "t KEY", "r KEY". A last line that a crash cut is taken away when the file
///          is opened; any other malformed line is an error.
/// Owns:    the file and a lock on it: two imports at once are refused.
/// Errors:  LedgerError, errno.
/// Thread:  one at a time. Blocks.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::tools {

enum class LedgerError { busy = 1, damaged };
std::string_view error_module(LedgerError);
std::string_view describe(LedgerError);

class ImportLedger {
 public:
  /// What becomes of a message: tried at once, kept on hold, or put into maildrop.
  enum class Way : std::uint8_t { queue, hold, maildrop };
  /// begun: its id is chosen. taken: it is in the queue, on hold, or a whole file beside maildrop. released: done.
  enum class Stage : std::uint8_t { begun, taken, released };
  struct Entry {
    std::string id;  // here
    Way way = Way::queue;
    Stage stage = Stage::begun;
  };
  using Named = std::pair<std::string, Entry>;

  /// The directory must exist. read_only: nothing is made or changed, and no file is an empty one.
  static Result<ImportLedger> open(const std::string& directory, bool read_only = false);

  const Entry* find(const std::string& key) const;
  bool is_used(const std::string& id) const { return ids_.contains(id); }
  /// Those that an earlier import left half way.
  std::vector<Named> unfinished() const;
  Result<void> begin(const std::vector<Named>& entries);
  Result<void> advance(const std::vector<std::string>& keys, Stage stage);

 private:
  ImportLedger() = default;
  Result<void> read();
  bool take(std::string_view line);
  Result<void> append(const std::string& lines);

  std::string path_;
  Fd file_;
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_set<std::string> ids_;
};

}  // namespace pen::tools
