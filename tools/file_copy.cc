#include "tools/file_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/fd.h"
#include "lib/base/file_io.h"
#include "lib/suite/service/as_account.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;
using service::Account;

constexpr std::size_t kPiece = 1U << 20;
const Account kRoot{};

/// Calls `look` with the rights of that account.
template <typename Look>
auto as(const Account& reader, const Look& look) -> decltype(look()) {
  const service::AsAccount become(reader);
  if (!become.ok()) return fail_errno("become another account");
  return look();
}

/// The account with whose rights a directory is read that `reader` found: never root again below another account's
/// directory.
Account reader_of(const Account& reader, const struct stat& st) {
  return reader.uid == 0 && ::geteuid() == 0 ? Account{st.st_uid, st.st_gid} : reader;
}

/// The bytes of an open file into a new one, with mode, times and (root) owner.
Result<std::uint64_t> copy_open_file(const Fd& in, const std::string& shown, const Folder& to,
                                     const std::string& made) {
  struct stat st{};
  if (::fstat(in.get(), &st) != 0) return fail_errno(shown);
  PEN_TRY_ASSIGN(const Fd out, to.make_file(made, 0600));
  std::string piece(kPiece, '\0');
  off_t at = 0;
  while (at < st.st_size) {
    off_t data = ::lseek(in.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    if (data < 0) data = at;                // the file system knows no holes
    off_t hole = ::lseek(in.get(), data, SEEK_HOLE);
    if (hole <= data) hole = st.st_size;
    if (::lseek(in.get(), data, SEEK_SET) < 0 || ::lseek(out.get(), data, SEEK_SET) < 0) return fail_errno(shown);
    const auto most = std::min(piece.size(), static_cast<std::size_t>(hole - data));
    const ssize_t n = ::read(in.get(), piece.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(shown);
    if (n == 0) break;
    PEN_TRY(write_all(out.get(), std::string_view(piece.data(), static_cast<std::size_t>(n)), to.path_of(made)));
    at = data + n;
  }
  if (::ftruncate(out.get(), std::max(at, st.st_size)) != 0) return fail_errno(to.path_of(made));
  if (::geteuid() == 0 && ::fchown(out.get(), st.st_uid, st.st_gid) != 0) return fail_errno(to.path_of(made));
  if (::fchmod(out.get(), st.st_mode & 07777) != 0) return fail_errno(to.path_of(made));
  const timespec times[2] = {st.st_atim, st.st_mtim};
  if (::futimens(out.get(), times) != 0) return fail_errno(to.path_of(made));
  return static_cast<std::uint64_t>(at);
}

class TreeCopy {
 public:
  explicit TreeCopy(const CopyOptions& options) : options_(options) {}

  Result<void> copy(const Folder& from, const Folder& to, const std::string& inside, const Account& reader) {
    const auto names = as(reader, [&] { return from.names(); });
    if (!names) PEN_TRY(unread(reader, names.error()));
    for (const std::string& name : names.value_or(std::vector<std::string>{}))
      PEN_TRY(entry(from, name, to, inside.empty() ? name : inside + "/" + name, reader));
    PEN_TRY_ASSIGN(const struct stat st, from.status());
    if (::geteuid() == 0 && ::fchown(to.fd(), st.st_uid, st.st_gid) != 0) return fail_errno(to.path());
    if (::fchmod(to.fd(), st.st_mode & 07777) != 0) return fail_errno(to.path());
    return {};
  }

  Copied copied;

 private:
  /// Of ours nothing may be missing; another account may have put anything where we look.
  Result<void> unread(const Account& reader, const Error& error) {
    if (error.is_errno(ENOENT)) return {};  // it vanished meanwhile
    if (reader.uid == 0) return fail(Error(error));
    copied.left_out.push_back(error.message());
    return {};
  }

  Result<void> entry(const Folder& from, const std::string& name, const Folder& to, const std::string& inside,
                     const Account& above) {
    const auto there = as(above, [&] { return from.look(name); });
    if (!there) return unread(above, there.error());
    if (!*there || (options_.skip && options_.skip(inside, **there))) return {};
    const struct stat& st = **there;
    if (options_.instead) {
      PEN_TRY_ASSIGN(const bool did, options_.instead(from, name, to));
      if (did) return {};
    }
    if (S_ISLNK(st.st_mode)) {
      const auto target = as(above, [&] { return from.link(name); });
      if (!target) return unread(above, target.error());
      PEN_TRY(to.make_link(name, *target));
      if (::geteuid() == 0 && ::fchownat(to.fd(), name.c_str(), st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno(to.path_of(name));
    } else if (S_ISREG(st.st_mode)) {
      const auto file = as(above, [&] { return from.file(name); });
      if (!file) return unread(above, file.error());
      PEN_TRY_ASSIGN(const auto bytes, copy_open_file(*file, from.path_of(name), to, name));
      copied.bytes += bytes;
    } else if (S_ISDIR(st.st_mode)) {
      const auto below = as(above, [&] { return from.folder(name); });
      if (!below) return unread(above, below.error());
      PEN_TRY_ASSIGN(const Folder made, to.make_folder(name, 0700));
      PEN_TRY(copy(*below, made, inside, reader_of(above, st)));
    }
    return {};
  }

  const CopyOptions& options_;
};

/// The account with whose rights the files of a directory are opened that the caller has opened.
Result<Account> reader_in(const Folder& folder) {
  PEN_TRY_ASSIGN(const struct stat st, folder.status());
  return reader_of(kRoot, st);
}

/// Calls `each` with every file and directory below, then with the directory.
Result<void> walk(const Folder& directory, const std::function<Result<void>(int fd, const std::string& path)>& each) {
  PEN_TRY_ASSIGN(const auto names, directory.names());
  for (const std::string& name : names) {
    PEN_TRY_ASSIGN(const auto there, directory.look(name));
    if (!there) continue;
    if (S_ISDIR(there->st_mode)) {
      PEN_TRY_ASSIGN(const Folder below, directory.folder(name));
      PEN_TRY(walk(below, each));
    } else if (S_ISREG(there->st_mode)) {
      PEN_TRY_ASSIGN(const Fd file, directory.file(name));
      PEN_TRY(each(file.get(), directory.path_of(name)));
    }
  }
  return each(directory.fd(), directory.path());
}

}  // namespace

Result<Copied> copy_tree(const Folder& from, const Folder& to, const CopyOptions& options) {
  TreeCopy tree(options);
  PEN_TRY_ASSIGN(const Account reader, reader_in(from));
  PEN_TRY(tree.copy(from, to, {}, reader));
  return std::move(tree.copied);
}

Result<std::uint64_t> copy_file(const Folder& from, const std::string& name, const Folder& to,
                                const std::string& made) {
  PEN_TRY_ASSIGN(const Account reader, reader_in(from));
  PEN_TRY_ASSIGN(const Fd file, as(reader, [&] { return from.file(name); }));
  return copy_open_file(file, from.path_of(name), to, made);
}

Result<void> sync_tree(const Folder& directory) {
  return walk(directory, [](int fd, const std::string& path) -> Result<void> {
    if (::fsync(fd) != 0) return fail_errno(path);
    return {};
  });
}

Result<void> give_tree(const Folder& directory, uid_t uid, gid_t gid) {
  if (::geteuid() != 0) return {};
  return walk(directory, [uid, gid](int fd, const std::string& path) -> Result<void> {
    if (::fchown(fd, uid, gid) != 0 || ::fsync(fd) != 0) return fail_errno(path);
    return {};
  });
}

Result<void> write_file(const Folder& directory, const std::string& name, const std::string& text) {
  const std::string fresh = name + ".new";
  PEN_TRY(directory.remove(fresh));
  PEN_TRY_ASSIGN(const Fd fd, directory.make_file(fresh, 0600));
  PEN_TRY(write_all(fd.get(), text, directory.path_of(fresh)));
  if (::fsync(fd.get()) != 0) return fail_errno(directory.path_of(fresh));
  PEN_TRY(directory.rename(fresh, directory, name));
  return directory.sync();
}

Result<CopyTarget> target_of(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  std::error_code error;
  fs::create_directories(whole.parent_path(), error);
  if (error) return fail_errno(whole.parent_path().string(), error.value());
  PEN_TRY_ASSIGN(Folder parent, Folder::open(whole.parent_path().string()));
  return CopyTarget{std::move(parent), whole.filename().string()};
}

Result<void> expect_ours(const Folder& directory) {
  if (::geteuid() != 0) return {};
  PEN_TRY_ASSIGN(const struct stat st, directory.status());
  if (st.st_uid == 0 && ((st.st_mode & 022) == 0 || (st.st_mode & S_ISVTX) != 0)) return {};
  return fail_errno(directory.path() + ": others than root can rename what is in it: root makes nothing there", EPERM);
}

}  // namespace pen::tools
