// Part of every program (pen_program() in cmake/penstock.cmake): standard input, output and error are open before
// main() begins. Where the starter has closed one of them it is /dev/null. Else the next pipe or file of the program
// would have its number, and would be read, written or closed in its place.
#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

namespace {

bool open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) ::_exit(EX_OSERR);
  return true;
}

[[maybe_unused]] const bool kOpen = open_standard_descriptors();

}  // namespace
