#pragma once
/// One process of a service: started with its sockets, told what to do, watched until it is gone.
///
/// Thread:  master's only. master forks, so it never has other threads.
#include <sys/types.h>

#include "lib/async/fd.h"
#include "lib/service/arguments.h"

namespace pen::master {

struct Launch {
  std::string path;  // of the program
  std::vector<std::string> words;
  std::vector<std::string> environment;
  std::vector<int> sockets;  // become kFirstListener and up
  int programs_lock = -1;    // inherited by every program: see lock.h
};

struct Started {
  pid_t pid = -1;
  async::Fd status;  // master's end of the status socket
};
Result<Started> launch(const Launch& what);

}  // namespace pen::master
