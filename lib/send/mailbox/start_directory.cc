#include "lib/send/mailbox/start_directory.h"

#include <sys/stat.h>
#include <unistd.h>

namespace pen::mailbox {
namespace {

bool enterable(const std::string& directory) {
  if (::geteuid() != 0) return ::access(directory.c_str(), X_OK) == 0;
  struct stat st{};
  return ::stat(directory.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & S_IXOTH) != 0;
}

}  // namespace

std::string start_directory(const std::string& queue_directory) {
  if (!queue_directory.starts_with('/')) return "/";
  for (std::size_t end = 0; end != std::string::npos;) {
    end = queue_directory.find('/', end + 1);
    if (!enterable(queue_directory.substr(0, end))) return "/";
  }
  return queue_directory;
}

}  // namespace pen::mailbox
