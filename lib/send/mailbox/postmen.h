#pragma once
/// The postmen of this process (postman.h): as many as there are simultaneous deliveries, made when they are needed.
///
/// Use:     if (auto postman = postmen().take(round)) {
///            … over postman->socket …
///            postmen().give_back(*std::move(postman));
///          }
///          Do not give back a postman after a failure: it then ends, and the next one finds out anew what is there.
/// Bounds:  idle ones end by themselves (kIdle); the one used last is used first. A postman ends after kMost
///          deliveries.
/// Thread:  any number at once.
/// Errors:  errno of making a socket, token or process.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

class Postmen {
 public:
  static constexpr unsigned kMost = 10'000;
  struct Postman {
    std::string round;  // encoded
    Fd socket, token;
    unsigned deliveries = 0;
  };
  /// Whether this system supports postmen. After unfit() there are none: each account has a worker of its own.
  bool possible();
  Result<Postman> take(const Round& round);
  void give_back(Postman postman);
  /// The system refuses to confine postmen. Logs the reason, once.
  void unfit(const std::string& why);

 private:
  std::mutex mutex_;
  bool possible_ = true;
  std::map<std::string, std::vector<Postman>> idle_;  // by round
};

Postmen& postmen();

}  // namespace pen::mailbox
