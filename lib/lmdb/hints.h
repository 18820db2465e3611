#pragma once
/// Databases of hints: LMDB files in a directory of their own that may be lost at any time.
///
/// Use:     auto db = open_hints(directory, map_size);
///          open_or_begin_anew(directory, cost, warning, open)      // what a program does at its start
/// Damage:  is found by looking through the pages before liblmdb maps them: it believes what it maps, and would end the
///          process at the first touch. So nobody may write while another process opens the file.
/// Used by: destdb, the MTA-STS policies, the results for TLS reports.
/// Errors:  DatabaseError, errno.
/// Thread:  any. Opening reads the whole file.
#include <memory>
#include <string>

#include "lib/lmdb/database.h"

namespace pen::lmdb {

/// Makes what is missing. map_size: address space in bytes, the most the file can grow to.
Result<std::unique_ptr<Database>> open_hints(const std::string& directory, std::size_t map_size);

enum class Check : bool { no, yes };
/// One that exists, for a tool. check: only when nobody writes.
Result<std::unique_ptr<Database>> open_hints_to_read(const std::string& directory, std::size_t map_size, Check check);

/// Renames the directory to DIRECTORY.damaged, in place of one from before. Returns the new name.
Result<std::string> set_aside(const std::string& directory);

/// open(); what is damaged is set aside for whoever wants to look, and begun anew by a second open(): only hints are
/// lost. warning: then what happened, ending with cost.
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
