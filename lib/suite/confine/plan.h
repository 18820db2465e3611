#pragma once
/// Turns a program's row and the settings into orders for the kernel.
///
/// Use:     const Plan plan = make_plan(row_of("smtpd"), config, {.machine = real_machine(), …});
///          apply.h puts it into force.
/// Reload:  a program reads main.cf once; at a reload another process takes its place, with a plan of its own.
/// Pure but for `machine`; any thread.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/confine/named_files.h"
#include "lib/suite/confine/programs.h"

namespace pen::confine {

struct Place {
  enum class Kind : std::uint8_t {
    tree,       // this file, or everything below this directory
    named,      // a file that a setting names: with its directory, because files are replaced by renaming
    directory,  // made when it is missing
    file,       // made when it is missing
  };
  std::string path;
  Kind kind = Kind::tree;
  bool writable = false;
  bool operator==(const Place&) const = default;
};

struct Plan {
  std::string program;
  Kind kind = Kind::unknown;

  bool privileges = false;  // confine_privileges
  Capabilities keeps = 0;
  bool whole_bounding_set = false;

  bool limits = false;  // confine_limits

  bool files = false;  // confine_files, and the program is one that can be confined so
  std::vector<Place> places;
  std::vector<std::string> kept_out;  // what no directory of a named file may hold: queue and data, keys of others
  std::vector<std::string> hidden;    // keys of others: what is in no rule, whatever directory it stands in
  bool any_port = false;              // TCP may reach every port
  std::vector<std::uint16_t> ports;   // else these

  bool system_calls = false;  // confine_system_calls, and the program is one that can be confined so
  bool internet = false;      // sockets of the internet
  bool writes = false;        // opens files for writing, makes and removes them
  bool cuts = false;          // shortens and lengthens files: the program can erase any that it has open
  bool reserves = false;      // space for a file
  bool leases = false;        // takes leases of files
  bool sets_modes = false;    // changes the mode of a file that it has made
  bool machine_code = false;  // makes code, of patterns
  std::vector<std::string> more_calls;
};

struct Surroundings {
  Machine machine;
  std::string own_directory;  // of the running program: modules of tables are below it
  std::string working_directory = "";
  bool screens = false;  // the service tests clients: it has the command postscreen in master.cf
  // Sanitizers look at a process from beside it, start a program that names symbols, and write reports: what hinders
  // them is left out.
  bool sanitized = false;
};

/// Where a program may not read by a rule for something else: queue and data, and the private keys that the key
/// process has.
std::vector<std::string> places_kept_out(const config::Config& config, const Program& row, const Machine& machine);

/// Where a program may write by these settings, and what it needs there besides. screens: as in Surroundings.
std::vector<Place> written_places(const Program& row, const config::Settings& settings, bool screens);

/// What programs keep directly below data_directory, which is root's: master makes it for them, each once.
struct Kept {
  std::string name;
  Place::Kind kind = Place::Kind::directory;
  Account account = Account::mail;
};
std::vector<Kept> kept_in_data(const config::Settings& settings);
/// A file of events stands in data_directory itself, so that penevents must be able to make and rename files there.
bool events_in_data(const config::Settings& settings);

Plan make_plan(const Program& row, const config::Config& config, const Surroundings& surroundings);

}  // namespace pen::confine
