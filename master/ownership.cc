#include "master/ownership.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "lib/base/time.h"

namespace pen::master {
namespace {

constexpr seconds kTold{5};
constexpr std::uint64_t kBetween = 1000;  // files between two looks at the clock

/// True: it belongs to the account now, and did not before.
Result<bool> give(const Fd& directory, const std::string& name, const service::Account& to, bool& left) {
  const Fd file(::openat(directory.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat st{};
  if (!file && errno == ENOENT) return false;
  if (!file || ::fstat(file.get(), &st) != 0) return fail_errno(name);
  if (st.st_uid == to.uid) return false;
  left = !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid == 0;
  if (left) return false;
  if (::fchownat(file.get(), "", to.uid, to.gid, AT_EMPTY_PATH) != 0) return fail_errno("chown " + name);
  return true;
}

Result<void> give_files(const Fd& directory, const service::Account& to, Moved& done,
                        const std::function<void(std::uint64_t)>& progress) {
  Fd again(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return fail_errno("open");
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(again.get()), &::closedir);
  if (!listing) return fail_errno("open");
  (void)again.release();  // closed with the listing
  auto told = std::chrono::steady_clock::now();
  std::uint64_t looked = 0;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool left = false;
    PEN_TRY_ASSIGN(const bool given, give(directory, name, to, left));
    if (given) ++done.files;
    if (left && done.left.size() < Moved::kMostTold) done.left.push_back(name);
    if (++looked % kBetween != 0 || std::chrono::steady_clock::now() - told < kTold) continue;
    told = std::chrono::steady_clock::now();
    progress(done.files);
  }
  if (errno != 0) return fail_errno("read");
  return {};
}

}  // namespace

Result<Moved> change_owner(const Fd& directory, const std::string& shown, const service::Account& to,
                           const std::function<void(std::uint64_t)>& progress) {
  Moved done;
  struct stat st{};
  if (::fstat(directory.get(), &st) != 0) return fail_errno(shown);
  if (st.st_uid == to.uid) {
    if (st.st_gid != to.gid && ::fchown(directory.get(), to.uid, to.gid) != 0) return fail_errno("chown " + shown);
    if (::fchmod(directory.get(), 0700) != 0) return fail_errno("chmod " + shown);
    return done;
  }
  done.moved = true;
  const auto failed = [&](Error why) { return fail(std::move(why).within(shown)); };
  if (st.st_uid != 0 && ::fchown(directory.get(), 0, 0) != 0) return fail_errno("chown " + shown);
  if (::fchmod(directory.get(), 0700) != 0) return fail_errno("chmod " + shown);
  if (auto given = give_files(directory, to, done, progress); !given) return failed(std::move(given).error());
  // The directory's owner says that the files are done, so it must not reach the disk before them.
  if (done.files != 0 && ::syncfs(directory.get()) != 0) return fail_errno("sync " + shown);
  if (::fchown(directory.get(), to.uid, to.gid) != 0) return fail_errno("chown " + shown);
  if (::fsync(directory.get()) != 0) return fail_errno("sync " + shown);
  return done;
}

}  // namespace pen::master
