#pragma once
/// Databases of hints: LMDB files, each in a directory of its own, that may be lost at any time.
///
/// Use:     auto db = open_hints(directory, map_size);
///          open_or_begin_anew(directory, cost, warning, open)      // used by programs at their start
/// Damage:  is found by checking all pages before liblmdb maps them, because liblmdb trusts them and would crash the
///          process at the first access. So no process may write while another opens the file.
/// Used by: destdb, the MTA-STS policies, the results for TLS reports.
/// Errors:  DatabaseError, errno.
/// Thread:  any. Opening reads the whole file.
#include <memory>
#include <string>

#include "lib/base/lmdb/database.h"

namespace pen::lmdb {

/// Makes the database if it does not exist. map_size: address space in bytes, the limit of the file's growth.
Result<std::unique_ptr<Database>> open_hints(const std::string& directory, std::size_t map_size);

enum class Check : bool { no, yes };
/// Opens an existing database, for a tool. check: only if no process writes.
Result<std::unique_ptr<Database>> open_hints_to_read(const std::string& directory, std::size_t map_size, Check check);

/// Moves the database into DIRECTORY/damaged, in place of an earlier one there: what is above the directory may be
/// closed to the program. Returns that name.
Result<std::string> set_aside(const std::string& directory);

/// Calls open(). A damaged database is set aside for inspection, and a second open() begins a new one: only hints are
/// lost. warning: says then what happened, ending with cost.
template <class Open>
auto open_or_begin_anew(const std::string& directory, std::string_view cost, std::string& warning, Open open)
    -> decltype(open()) {
  auto opened = open();
  if (opened || !opened.error().is(DatabaseError::damaged)) return opened;
  const std::string why = opened.error().message();
  PEN_TRY_ASSIGN(const std::string aside, set_aside(directory));
  opened = open();
  if (opened) warning = why + "; set aside as " + aside + "; " + std::string(cost);
  return opened;
}

}  // namespace pen::lmdb
