#include "lib/hints/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/lmdb_pages.h"

namespace pen::hints {
namespace {

Result<void> check_pages(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return {};
  if (fd < 0) return fail_errno("open " + file);
  struct stat st{};
  const bool empty = ::fstat(fd, &st) == 0 && st.st_size == 0;  // liblmdb will fill it
  const auto whole = empty ? Result<void>() : check_lmdb_pages(fd);
  ::close(fd);
  if (whole) return {};
  return fail(FileError::damaged, file + ": " + whole.error().message());
}

std::string data_file(const std::string& directory) { return directory + "/data.mdb"; }

}  // namespace

std::string_view error_module(FileError) { return "hints"; }
std::string_view describe(FileError e) {
  return e == FileError::damaged ? "damaged file" : "input/output error";
}

std::unexpected<Error> lmdb_error(int code, const std::string& what) {
  if (code > 0) return fail_errno(what, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_PANIC ||
                       code == MDB_INCOMPATIBLE;
  return fail(damaged ? FileError::damaged : FileError::failed, what + ": " + ::mdb_strerror(code));
}

Result<std::unique_ptr<File>> File::open(const std::string& directory, std::size_t map_size) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail(Error::from_errno(code.value(), directory));
  PEN_TRY(check_pages(data_file(directory)));
  std::unique_ptr<File> file(new File(directory));
  PEN_TRY(file->map(map_size, 0));
  return file;
}

Result<std::unique_ptr<File>> File::open_to_read(const std::string& directory, std::size_t map_size,
                                                 Check check) {
  const std::string data = data_file(directory);
  if (::access(data.c_str(), R_OK) != 0) return fail_errno(data);
  if (check == Check::yes) PEN_TRY(check_pages(data));
  std::unique_ptr<File> file(new File(directory));
  PEN_TRY(file->map(map_size, MDB_RDONLY));
  return file;
}

Result<void> File::map(std::size_t map_size, unsigned flags) {
  if (int rc = ::mdb_env_create(&env_); rc != 0) return error(rc);
  ::mdb_env_set_mapsize(env_, map_size);
  if (int rc = ::mdb_env_open(env_, directory_.c_str(), flags | MDB_NOTLS, 0600); rc != 0)
    return error(rc);
  Transaction t(*this, flags == 0 ? Transaction::write : Transaction::read);
  if (t.begun() != 0) return error(t.begun());
  if (int rc = ::mdb_dbi_open(t.get(), nullptr, 0, &dbi_); rc != 0) return error(rc);
  if (int rc = t.commit(); rc != 0) return error(rc);
  return {};
}

File::~File() {
  if (env_ != nullptr) ::mdb_env_close(env_);
}

Transaction::Transaction(const File& file, Kind kind)
    : begun_(::mdb_txn_begin(file.env(), nullptr, kind == write ? 0U : MDB_RDONLY, &txn_)) {
  if (begun_ != 0) txn_ = nullptr;
}
Transaction::~Transaction() {
  if (txn_ != nullptr) ::mdb_txn_abort(txn_);
}

Result<std::string> set_aside(const std::string& directory) {
  const std::string aside = directory + ".damaged";
  std::error_code code;
  std::filesystem::remove_all(aside, code);
  std::filesystem::rename(directory, aside, code);
  if (code) return fail(Error::from_errno(code.value(), "set aside " + directory));
  return aside;
}

}  // namespace pen::hints
