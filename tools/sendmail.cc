#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

#include <csignal>

#include "tools/sendmail_tool.h"

namespace {

/// The standard descriptors are there, so that no file or pipe of ours takes their place.
bool open_standard_descriptors() {
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return true;
    }
    if (::fcntl(fd, F_SETFD, 0) != 0) return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (!open_standard_descriptors()) return EX_OSERR;
  return pen::service::run_tool<pen::tools::SendmailTool>(argc, argv);
}
