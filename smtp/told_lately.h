#pragma once
/// Remembers which errors with which hosts were reported to the postmaster lately, so that the next notice waits.
///
/// Without it every message to a broken host would cause a notice. If that host is the postmaster's own, each notice
/// would cause the next, for ever.
/// Use:     if (told.tell(destination.shown(), classes, now)) tell;     // and when a connection went well:
///          told.forget(destination.shown());
/// Words:   the host's own words are not compared: they could differ each time.
/// Bounds:  kMost hosts are remembered for kFor. While the list is full, errors with other hosts are not reported.
/// Pure: no I/O, no clock.
#include <map>
#include <string>

#include "lib/base/time.h"
#include "lib/mail/error_class.h"

namespace pen::smtp {

class ToldLately {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::chrono::hours kFor{1};

  /// Those of the classes that were not reported for this host lately; they are remembered as reported now.
  mail::ErrorClasses tell(const std::string& host, mail::ErrorClasses classes, SteadyTime now);
  /// It works: what goes wrong next is new.
  void forget(const std::string& host) { hosts_.erase(host); }

 private:
  struct Told {
    mail::ErrorClasses classes;
    SteadyTime until{};
  };
  std::map<std::string, Told> hosts_;
};

}  // namespace pen::smtp
