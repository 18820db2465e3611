#include "lib/config/programs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "lib/base/fd.h"

namespace pen::config {
namespace {

// In every program that links this file, and in no other mail system's.
constexpr std::string_view kMark = "@(#) a program of the Penstock mail system";

}  // namespace

std::string programs_beside() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return {};
  if (own.filename() == "penstock" && own.parent_path().filename() == "libexec") return own;
  const fs::path beside = own.parent_path() / "libexec" / "penstock";
  return fs::is_directory(beside, error) ? beside.string() : std::string();
}

Result<bool> holds_programs(const std::string& directory) {
  const std::string path = directory + "/master";
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st{};
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return false;
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (!S_ISREG(st.st_mode)) return false;
  std::string text(256 * 1024, '\0');
  std::size_t kept = 0;  // the end of what was read before: the mark may begin there
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd.get(), text.data() + kept, text.size() - kept, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(path);
    if (n == 0) return false;
    at += n;
    const std::string_view had(text.data(), kept + static_cast<std::size_t>(n));
    if (had.contains(kMark)) return true;
    const std::string_view end = had.substr(had.size() - std::min(had.size(), kMark.size() - 1));
    std::memmove(text.data(), end.data(), end.size());
    kept = end.size();
  }
}

}  // namespace pen::config
