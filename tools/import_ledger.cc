#include "tools/import_ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/file_io.h"
#include "lib/base/file_lock.h"
#include "lib/mail/queue_id.h"

namespace pen::tools {
namespace {

constexpr std::string_view kWays = "qhm";
constexpr std::size_t kPiece = 65536;

/// The word up to the next space, which is taken away as well.
std::string_view word(std::string_view& line) {
  const auto space = line.find(' ');
  const auto found = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return found;
}

}  // namespace

std::string_view error_module(LedgerError) { return "import"; }
std::string_view describe(LedgerError e) {
  switch (e) {
    case LedgerError::busy:
      return "another import is under way";
    case LedgerError::damaged:
      return "a line that no import has written: what was taken over cannot be known";
  }
  return "?";
}

Result<ImportLedger> ImportLedger::open(const std::string& directory, bool read_only) {
  ImportLedger ledger;
  ledger.path_ = directory + "/ledger";
  const int flags = read_only ? O_RDONLY : O_RDWR | O_CREAT | O_APPEND;
  ledger.file_ = Fd(::open(ledger.path_.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!ledger.file_ && read_only && errno == ENOENT) return ledger;
  if (!ledger.file_) return fail_errno(ledger.path_);
  if (!read_only) {
    if (auto locked = lock_file(ledger.file_.get(), seconds(0)); !locked) {
      if (locked.error().is_errno(EWOULDBLOCK)) return fail(LedgerError::busy, ledger.path_);
      return fail(std::move(locked).error());
    }
    PEN_TRY(sync_directory(directory));
  }
  PEN_TRY(ledger.read());
  return ledger;
}

Result<void> ImportLedger::read() {
  std::string rest;
  std::uint64_t whole = 0;  // bytes of lines that were understood
  for (std::uint64_t at = 0;;) {
    PEN_TRY_ASSIGN(const std::string piece, read_at(file_.get(), at, kPiece, path_));
    if (piece.empty()) break;
    at += piece.size();
    rest += piece;
    std::size_t from = 0;
    for (std::size_t lf = 0; (lf = rest.find('\n', from)) != std::string::npos; from = lf + 1) {
      if (!take(std::string_view(rest).substr(from, lf - from)))
        return fail(LedgerError::damaged, fmt::format("{}, byte {}", path_, whole));
      whole += lf + 1 - from;
    }
    rest.erase(0, from);
  }
  // A line that was not synced was not acted on.
  if (!rest.empty() && (::fcntl(file_.get(), F_GETFL) & O_ACCMODE) != O_RDONLY &&
      ::ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
    return fail_errno(path_);
  return {};
}

bool ImportLedger::take(std::string_view line) {
  const auto kind = word(line);
  if (kind == "b") {
    const auto way = word(line);
    const auto id = word(line);
    const auto at = way.size() == 1 ? kWays.find(way.front()) : std::string_view::npos;
    if (at == std::string_view::npos || !mail::is_queue_id(id) || line.empty()) return false;
    entries_.insert_or_assign(std::string(line), Entry{std::string(id), static_cast<Way>(at), Stage::begun});
    ids_.insert(std::string(id));
    return true;
  }
  const auto found = entries_.find(std::string(line));
  if (found == entries_.end() || (kind != "t" && kind != "r")) return false;
  found->second.stage = kind == "t" ? Stage::taken : Stage::released;
  return true;
}

const ImportLedger::Entry* ImportLedger::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<ImportLedger::Named> ImportLedger::unfinished() const {
  std::vector<Named> found;
  for (const auto& named : entries_)
    if (named.second.stage != Stage::released) found.emplace_back(named.first, named.second);
  std::ranges::sort(found, {}, &Named::first);
  return found;
}

Result<void> ImportLedger::append(const std::string& lines) {
  if (lines.empty()) return {};
  PEN_TRY(write_all(file_.get(), lines, path_));
  if (::fdatasync(file_.get()) != 0) return fail_errno("sync " + path_);
  return {};
}

Result<void> ImportLedger::begin(const std::vector<Named>& entries) {
  std::string lines;
  for (const auto& [key, entry] : entries)
    lines += fmt::format("b {} {} {}\n", kWays[static_cast<std::size_t>(entry.way)], entry.id, key);
  PEN_TRY(append(lines));
  for (const auto& [key, entry] : entries) {
    entries_.insert_or_assign(key, entry);
    ids_.insert(entry.id);
  }
  return {};
}

Result<void> ImportLedger::advance(const std::vector<std::string>& keys, Stage stage) {
  std::string lines;
  for (const auto& key : keys) {
    const auto found = entries_.find(key);
    PEN_CHECK(found != entries_.end(), "a message that was not begun");
    lines += fmt::format("{} {}\n", stage == Stage::taken ? 't' : 'r', key);
  }
  PEN_TRY(append(lines));
  for (const auto& key : keys) entries_[key].stage = stage;
  return {};
}

}  // namespace pen::tools
