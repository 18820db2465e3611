// keeper: the parent of master where no service manager is, which keeps what the next master needs. See keeper(8).
//
// Started by penstock(1) with -c DIR and -w FD, which goes to the first master: it reports on it how it started.
#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "keeper/watch.h"
#include "lib/base/version.h"

namespace {

using namespace pen;

struct Command {
  std::string directory;
  int report = -1;
  bool wrong = false;
};

Command parse(int argc, char** argv) {
  Command command;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "-c" && i + 1 < argc)
      command.directory = argv[++i];
    else if (word == "-w" && i + 1 < argc)
      command.report = std::atoi(argv[++i]);
    else
      command.wrong = true;
  }
  return command;
}

/// As master does where it cannot start.
int refuse(const Command& command, int status, const std::string& why) {
  log::error("{}", why);
  if (command.report >= 0) (void)!::write(command.report, why.data(), why.size());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const Command command = parse(argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("keeper %s\n", std::string(version()).c_str());
    return EX_OK;
  }
  if (argc == 1 || command.wrong) {
    std::printf(
        "keeper: keeps what is open for the next master, and starts it when one dies; see keeper(8).\n"
        "It is started by \"penstock -c DIR start\". Options: -c DIR -w FD --help --version\n");
    return argc == 2 && std::string_view(argv[1]) == "--help" ? EX_OK : EX_USAGE;
  }
  auto place = keeper::look(command.directory);
  if (!place) return refuse(command, EX_CONFIG, place.error().message());
  auto watch = keeper::Watch::make(*std::move(place), command.report);
  if (!watch) return refuse(command, EX_OSERR, watch.error().message());
  return (*watch)->run();
}
