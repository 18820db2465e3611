#include "lib/base/lmdb/hints.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/fd.h"
#include "lib/base/lmdb/pages.h"

namespace pen::lmdb {
namespace {

Result<void> check_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return {};
  if (!fd) return fail_errno("open " + path);
  struct stat st{};
  if (::fstat(fd.get(), &st) == 0 && st.st_size == 0) return {};  // liblmdb will initialise it
  if (auto whole = check_pages(fd.get()); !whole)
    return fail(DatabaseError::damaged, path + ": " + whole.error().message());
  return {};
}

std::string data_file(const std::string& directory) { return directory + "/data.mdb"; }
std::string lock_file(const std::string& directory) { return directory + "/lock.mdb"; }

}  // namespace

Result<std::unique_ptr<Database>> open_hints(const std::string& directory, std::size_t map_size) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail(Error::from_errno(code.value(), directory));
  PEN_TRY(check_file(data_file(directory)));
  return Database::open(directory, {.map_size = map_size});
}

Result<std::unique_ptr<Database>> open_hints_to_read(const std::string& directory, std::size_t map_size, Check check) {
  const std::string data = data_file(directory);
  if (::access(data.c_str(), R_OK) != 0) return fail_errno(data);
  if (check == Check::yes) PEN_TRY(check_file(data));
  return Database::open(directory, {.map_size = map_size, .write = false});
}

Result<std::string> set_aside(const std::string& directory) {
  const std::string aside = directory + "/damaged";
  std::error_code code;
  std::filesystem::remove_all(aside, code);
  if (::mkdir(aside.c_str(), 0700) != 0) return fail_errno("set aside " + directory);
  // The lock first: what is killed in between finds the damage again.
  if (!code) std::filesystem::rename(lock_file(directory), aside + "/lock.mdb", code);
  if (code == std::errc::no_such_file_or_directory) code.clear();
  if (!code) std::filesystem::rename(data_file(directory), aside + "/data.mdb", code);
  if (code) return fail(Error::from_errno(code.value(), "set aside " + directory));
  return aside;
}

}  // namespace pen::lmdb
