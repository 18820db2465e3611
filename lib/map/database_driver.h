#pragma once
/// What a module in libexec/penstock/tables gives to the tables mysql:, pgsql:, sqlite:, ldap:, mongodb: and redis:,
/// and the program itself to memcache:.
///
/// Use:     a module has one extern "C" function, penstock_table_driver(), of the type DriverEntry. It returns the
///          module's driver, which lives as long as the process; nullptr: another version of this header.
/// Versions: this is C++, and both sides come from the same build. kDriverVersion rises with each change of this file.
/// Errors:  a Report. No exception passes, and no Error either: its categories are not the same object in a module.
/// Thread:  a Driver is called from any thread at any time, a Connection from one thread at a time. connect(), ask()
///          and the end of a connection may block, until their deadline at most; so they run in threads. begin() and
///          step() do not block, and are called in a program's loop (docs/decisions/023).
/// Names:   the look-up of a server's name, by the client library or the C library, obeys no deadline: it takes what
///          resolv.conf allows. The thread belongs to that pool alone, and the Asker answers the caller in time.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace pen::map::database {

inline constexpr unsigned kDriverVersion = 3;

/// The parameters of a table by name, with their defaults.
using Settings = std::map<std::string, std::string, std::less<>>;
inline const std::string& setting(const Settings& settings, std::string_view name) {
  static const std::string kNone;
  const auto found = settings.find(name);
  return found == settings.end() ? kNone : found->second;
}

enum class Outcome {
  done,       // all values have been given
  refused,    // the server says that it cannot answer this question
  lost,       // no connection, or its end: another host may answer
  timed_out,  // the deadline has passed
};
struct Report {
  Outcome outcome = Outcome::done;
  std::string why;
  bool reusable = true;  // whether the connection takes another question
};

/// Appends text, quoted for its place. False: the text cannot be quoted.
using Quote = std::function<bool(std::string_view text, std::string& out)>;

struct Lookup {
  const Settings& settings;
  /// The parameter, a template, with the key in it. nullopt: a part cannot be quoted.
  std::function<std::optional<std::string>(std::string_view parameter, const Quote& quote)> expand;
  /// Takes one value. False: the driver shall give no more.
  std::function<bool(std::string_view value)> add;
  SteadyTime deadline;
  /// For memcache: not a question, but this value is put under the key.
  const std::string* store = nullptr;
};

class Connection {
 public:
  virtual ~Connection() = default;
  virtual Report ask(const Lookup& lookup) = 0;

  /// Whether a question can also be asked in steps: begin(), then step() each time that the socket is as waits() says,
  /// until one of them gives a report. The same Lookup goes with all of them. A connection whose question has no report
  /// yet can only be ended; the end tells the server, if there is a way, that nobody waits any longer.
  virtual bool in_steps() const { return false; }
  struct Waits {
    int fd = -1;
    bool write = false;  // for room to send; otherwise for something to read
  };
  virtual std::optional<Report> begin(const Lookup& lookup) { return ask(lookup); }
  virtual std::optional<Report> step(const Lookup&) { return Report{Outcome::lost, "no question was begun", false}; }
  virtual Waits waits() const { return {}; }
};

class Driver {
 public:
  virtual ~Driver() = default;
  /// One connection to one host of the table's list. nullptr: report says why (lost, refused or timed_out).
  virtual std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                              Report& report) = 0;
};

using DriverEntry = Driver* (*)(unsigned version);
inline constexpr const char* kDriverEntry = "penstock_table_driver";

}  // namespace pen::map::database
