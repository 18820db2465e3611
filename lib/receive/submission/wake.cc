#include "lib/receive/submission/wake.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace pen::submission {

void wake_pickup(const std::string& queue_directory) {
  sockaddr_un to{};
  const std::string path = queue_directory + "/public/pickup";
  if (path.size() >= sizeof to.sun_path) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  ::close(fd);
}

}  // namespace pen::submission
