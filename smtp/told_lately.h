#pragma once
/// Of which errors with which hosts the postmaster was told a short time ago, so that the next notice waits.
///
/// A host that cannot be spoken to would else be told of for each message to it; and where it is the postmaster's own
/// host, which the notice has to pass, each notice would make the next, for ever.
/// Use:     if (told.tell(destination.shown(), classes, now)) tell;     // and when a connection went well:
///          told.forget(destination.shown());
/// Words:   what a host says is no part of it: it could be different each time.
/// Bounds:  kMost hosts are remembered for kFor; beyond them nothing is told of others until some are forgotten.
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

  /// Those of the classes that were not told of this host lately; they are remembered as told now.
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
