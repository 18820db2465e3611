#include "lib/send/mailbox/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/fd.h"

namespace pen::mailbox {

Result<TextFile> read_text_file(const std::string& path, std::size_t limit, Links links) {
  // Without O_NONBLOCK, open() would wait for the other end of a FIFO.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0);
  Fd fd(::open(path.c_str(), flags));
  if (!fd) return fail_errno("cannot read " + path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("cannot read " + path);
  if (!S_ISREG(st.st_mode)) return fail_errno(path + " is not a regular file", EINVAL);
  if (st.st_mode & S_IWOTH) return fail_errno(path + " may be written by everybody", EPERM);
  if (static_cast<std::size_t>(st.st_size) > limit) return fail_errno(path, EFBIG);
  TextFile file;
  file.owner = st.st_uid;
  file.text.resize(static_cast<std::size_t>(st.st_size));
  std::size_t got = 0;
  while (got < file.text.size()) {
    const auto n = ::read(fd.get(), file.text.data() + got, file.text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read " + path);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  file.text.resize(got);
  return file;
}

}  // namespace pen::mailbox
