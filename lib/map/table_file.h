#pragma once
/// The files of tables: how they are opened, and which ones a list of tables has.
///
/// Use:     PEN_TRY_ASSIGN(TableFile file, open_table_file(path));            // to read it through file.fd
///          lend_table_files([&](const std::string& path) { return opener.open(path); });
/// Lending: a file that this process may not read is asked of the lender, which may (lib/service/table_opener.h).
/// Thread:  any; lend_table_files() before any other thread is started.
#include <functional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/map/file_map.h"

namespace pen::map {

struct TableFile {
  Fd fd;              // for reading
  bool lent = false;  // its path cannot be opened here
};
/// Errors: unreadable, with errno.
Result<TableFile> open_table_file(const std::string& path);
/// The same content under a path of this process's own, for what opens paths only. Lives as long as the descriptor.
Result<Fd> memory_copy(int fd, const std::string& path);

using Lender = std::function<Result<Fd>(const std::string& path)>;
void lend_table_files(Lender lender);

struct PlainTable {
  std::string type, name;
  bool indexed() const;      // made of a text: lmdb, hash, btree, cdb
  std::string file() const;  // where its content is read; empty: in no file
};
/// The tables of a list, with those within unionmap and pipemap in their place; proxy: and ! are taken off.
std::vector<PlainTable> plain_tables(std::string_view list, std::string_view default_type);

}  // namespace pen::map
