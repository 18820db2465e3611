#include "lib/map/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

Lender& lender() {
  static Lender only;
  return only;
}

FileStamp stamp_of(const struct stat& s) {
  FileStamp stamp;
  stamp.device = s.st_dev;
  stamp.inode = s.st_ino;
  stamp.size = static_cast<std::uint64_t>(s.st_size);
  stamp.modified = s.st_mtim.tv_sec * 1'000'000'000LL + s.st_mtim.tv_nsec;
  stamp.owner = s.st_uid;
  stamp.changed = s.st_ctim.tv_sec * 1'000'000'000LL + s.st_ctim.tv_nsec;
  return stamp;
}

}  // namespace

void lend_table_files(Lender to_ask) { lender() = std::move(to_ask); }

Result<TableFile> open_table_file(const std::string& path, bool in_table) {
  TableFile file{Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), false};
  if (file.fd) return file;
  const int error = errno;
  if (error != EACCES || !lender()) return fail(MapError::unreadable, "open " + path, error);
  PEN_TRY_ASSIGN(file.fd, lender()(path, in_table));
  file.lent = true;
  return file;
}

Result<FileStamp> file_stamp(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) == 0) return stamp_of(s);
  const int error = errno;
  if (error == EACCES && lender()) {  // a directory that this process may not search
    PEN_TRY_ASSIGN(const Fd fd, lender()(path, false));
    if (::fstat(fd.get(), &s) == 0) return stamp_of(s);
  }
  return fail(MapError::unreadable, "open " + path, error);
}

Result<std::string> read_table_file(const std::string& path) {
  PEN_TRY_ASSIGN(const TableFile file, open_table_file(path));
  return read_table_file(file.fd.get(), path);
}

Result<Fd> memory_copy(int fd, const std::string& path) {
  PEN_TRY_ASSIGN(const std::string content, read_table_file(fd, path));
  Fd copy(::memfd_create("table", MFD_CLOEXEC));
  if (!copy) return fail(MapError::unreadable, "copy " + path, errno);
  if (const auto done = write_all(copy.get(), content, path); !done)
    return fail(MapError::unreadable, "copy " + path, done.error().sys_errno());
  return copy;
}

namespace {

void add_plain(std::string_view list, std::string_view default_type, std::vector<PlainTable>& out) {
  for (const std::string& item : split_list(list)) {
    std::string_view text = item;
    while (text.starts_with('!')) text.remove_prefix(1);
    text = without_adapters(text);
    const auto colon = text.find(':');
    const bool bare = colon == std::string_view::npos;
    PlainTable table{std::string(bare ? default_type : text.substr(0, colon)),
                     std::string(bare ? text : text.substr(colon + 1))};
    if (table.type == "unionmap" || table.type == "pipemap") {
      add_plain(unbraced(table.name), default_type, out);
    } else {
      out.push_back(std::move(table));
    }
  }
}

}  // namespace

bool take_adapter(std::string_view& table) {
  constexpr std::size_t kLength = 6;  // of either
  if (!table.starts_with("proxy:") && !table.starts_with("debug:")) return false;
  table.remove_prefix(kLength);
  return true;
}
std::string_view without_adapters(std::string_view table) {
  while (take_adapter(table)) {
  }
  return table;
}

bool PlainTable::indexed() const { return type == "lmdb" || type == "hash" || type == "btree" || type == "cdb"; }

std::string PlainTable::file() const {
  static constexpr std::string_view kTexts[] = {"cidr",  "ldap",  "memcache", "mongodb", "mysql",   "pcre",
                                                "pgsql", "redis", "regexp",   "sqlite",  "texthash"};
  if (indexed()) return name + (type == "cdb" ? ".cdb" : ".lmdb");
  const bool text = std::ranges::find(kTexts, type) != std::end(kTexts);
  return text && name.starts_with('/') ? name : std::string();
}

std::vector<PlainTable> plain_tables(std::string_view list, std::string_view default_type) {
  std::vector<PlainTable> out;
  add_plain(list, default_type, out);
  return out;
}

}  // namespace pen::map
