#include "lib/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace pen {

Result<Fd> open_regular_file(const std::string& path) {
  const auto regular = [&](const Fd& fd) -> Result<void> {
    struct stat st{};
    if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
    if (!S_ISREG(st.st_mode)) return fail_errno(path, S_ISDIR(st.st_mode) ? EISDIR : EACCES);
    return {};
  };
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const Fd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found) return fail_errno(path);
  PEN_TRY(regular(found));
  // This very file, whatever the name leads to by now. Without /proc it is opened by its name, and looked at again.
  Fd fd(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), kFlags));
  if (!fd && errno == ENOENT) fd = Fd(::open(path.c_str(), kFlags));
  if (!fd) return fail_errno(path);
  PEN_TRY(regular(fd));
  return fd;
}

}  // namespace pen
