#pragma once
/// The files of tables: opening them, and finding which files a list of tables uses.
///
/// Use:     PEN_TRY_ASSIGN(TableFile file, open_table_file(path));            // to read it through file.fd
///          lend_table_files([&](const std::string& path, bool) { return opener.open(path); });
/// Lending: a file that this process may not read is requested from the lender, which may read it
///          (lib/suite/service/table_opener.h).
/// Thread:  any; call lend_table_files() before another thread is started.
#include <functional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/map/file_map.h"

namespace pen::map {

struct TableFile {
  Fd fd;              // for reading
  bool lent = false;  // the file was lent: its path cannot be opened here
};
/// in_table: it is no table, but a table names it. Errors: unreadable, with errno.
Result<TableFile> open_table_file(const std::string& path, bool in_table = false);
/// A copy of the content under a path of this process, for libraries that open paths only. It lives as long as the
/// descriptor.
Result<Fd> memory_copy(int fd, const std::string& path);

using Lender = std::function<Result<Fd>(const std::string& path, bool in_table)>;
void lend_table_files(Lender lender);

struct PlainTable {
  std::string type, name;
  bool indexed() const;      // compiled from a text: lmdb, hash, btree, cdb
  std::string file() const;  // the file with its content; empty: there is none
};
/// What may stand before any table, proxy: and debug:, in front of this one: takes one off, or returns false.
bool take_adapter(std::string_view& table);
/// The table without them.
std::string_view without_adapters(std::string_view table);
/// The tables of a list, with unionmap and pipemap replaced by their inner tables; proxy:, debug: and ! are removed.
std::vector<PlainTable> plain_tables(std::string_view list, std::string_view default_type);

}  // namespace pen::map
