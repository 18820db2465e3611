#pragma once
/// The files and servers that the settings of a program name.
///
/// Rules:   what a value can name its setting's row says (config::Names): the files of a setting that names files are
///          its items, and where it names nothing, nothing is looked for. In tables, lists, restrictions and servers
///          "/path" at the beginning of a word and after a colon is a path, ":number" at the end of a part is a port.
///          Values of settings that the program reads count, those of names that only main.cf has (restriction
///          classes, old forms of tables), and every -o of master.cf, for some programs read the settings of others.
///          Files are read for what they name in their turn: those of database tables (dbpath, certificates), of DKIM
///          (keys), lists; and texts of tables, where only what stands behind a colon or an equals sign counts
///          (tafile=/path, inet:host:port). What stands in a database alone must be in confine_extra_files.
/// Bounds:  files of at most kMaxScanned bytes, and kMaxDepth of them one inside the other.
/// Pure but for `read`; any thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/config/config.h"

namespace pen::confine {

struct Named {
  static constexpr std::size_t kMaxScanned = 256 * 1024;
  static constexpr int kMaxDepth = 3;
  std::set<std::string> paths;
  std::set<std::uint16_t> ports;
  bool any_port = false;      // a server's port is not known here
  bool machine_code = false;  // patterns of pcre:, which PCRE translates
  bool operator==(const Named&) const = default;
};

/// What finding names asks of the machine.
struct Machine {
  /// The beginning of a file, at most Named::kMaxScanned bytes; nullopt: it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read;
  /// The port of a service by name.
  std::function<std::optional<std::uint16_t>(const std::string& name)> port;
  /// Whether a file's mode closes it to all but root; none: nothing is.
  std::function<bool(const std::string& path)> closed = {};
};
/// Opens regular files alone, with the rights that the process has.
Machine real_machine();
/// What Machine::read says of a regular file.
std::optional<std::string> beginning_of(const Fd& file);

/// Adds what one value names. setting: its name; without a row in params.def everything is looked for.
void add_named(std::string_view setting, std::string_view value, const Machine& machine, Named& out);
/// skip: settings whose files the program does not read.
using Skip = std::function<bool(std::string_view setting)>;
Named named_by(const config::Config& config, std::string_view program, const Machine& machine, const Skip& skip = {});

}  // namespace pen::confine
