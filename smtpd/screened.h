#pragma once
/// The tests of one session's client, from its connection until it has passed or is gone. Owned by the Session; a port
/// that is not screened has no such object.
///
/// Thread:  the loop's. The Screener outlives it.
#include <optional>
#include <string>

#include "lib/triage/tests.h"
#include "smtpd/screener.h"

namespace pen::smtpd {

struct Screened {
  Screener& screener;
  std::string key;    // in the cache
  std::string shown;  // "[address]:port", for the log
  SteadyTime began;   // of the tests, later of the session after them
  triage::Tests tests;
  Screener::Seat seat;    // until it is let through
  Screener::Place place;  // from then on
  bool let_through = false;
  bool vetoed = false;     // connected where no client can pass for good
  bool concluded = false;  // what was learnt is in the cache
  bool saw_mail = false;   // the client has begun a transaction

  /// The client's recipients are refused with it; empty: they are not. A refused session needs no more than what
  /// follows: it has no transaction, filters or policy.
  std::string doom = {};
  std::optional<std::string> sender = {};  // of the MAIL command
  std::string last = "CONNECT";            // command, for the log
  int commands = 0;

  bool doomed() const { return !doom.empty(); }
  const Screening& rules() const { return screener.screening(); }
};

}  // namespace pen::smtpd
