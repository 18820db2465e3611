#pragma once
/// The postmen of this process (postman.h): as many as there are deliveries at the same time, made as they are needed.
///
/// Use:     if (auto postman = postmen().take(round)) { …over postman->socket…;
///          postmen().give_back(*std::move(postman)); } One that is not given back ends after what it has in hand:
///          after a failure, so that the next one finds out anew what is there.
/// Bounds:  idle ones end by themselves (kIdle); those used last are used first. One ends after kMost deliveries.
/// Thread:  any number at once.
/// Errors:  errno of what could not be made.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/mailbox/work.h"

namespace pen::mailbox {

class Postmen {
 public:
  static constexpr unsigned kMost = 10'000;
  struct Postman {
    std::string round;  // as encoded
    Fd socket, token;
    unsigned deliveries = 0;
  };
  /// Whether this system can have any. Once one was unfit() there are none: accounts have workers of their own.
  bool possible();
  Result<Postman> take(const Round& round);
  void give_back(Postman postman);
  /// The system refuses what confines them. Logs the reason, once.
  void unfit(const std::string& why);

 private:
  std::mutex mutex_;
  bool possible_ = true;
  std::map<std::string, std::vector<Postman>> idle_;  // by round
};

Postmen& postmen();

}  // namespace pen::mailbox
