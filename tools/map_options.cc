#include "tools/map_options.h"

namespace pen::tools {
namespace {

using Duplicates = map::BuildOptions::Duplicates;

std::function<std::string(const service::Given&)> into(std::optional<std::string>& text) {
  return [&text](const service::Given& given) {
    text = given.value;
    return std::string();
  };
}

/// True: tables are named, or --all is given, and at most one action is asked for.
bool one_task(const MapOptions& o) {
  const int tasks = (o.query ? 1 : 0) + (o.remove ? 1 : 0) + (o.list ? 1 : 0) + (o.incremental ? 1 : 0);
  return o.tables.empty() == o.all && tasks <= (o.all ? 0 : 1);
}

/// What is wrong with the combination of options; empty: nothing.
std::string fault_of(const MapOptions& o) {
  const bool of_message = o.message.header || o.message.body;
  if (of_message && (!o.query || *o.query != "-"))
    return "-h and -b take the keys from a message on standard input: with -q -";
  if (o.message.mime && !of_message) return "-m says what -h and -b take from a message: with one of them";
  if (o.json && !o.query && !o.list) return "-j is for what is printed: with -q or -s";
  return {};
}

}  // namespace

std::expected<MapOptions, service::Ending> MapOptions::read(int argc, const char* const* argv, const char* name,
                                                            Source source) {
  using service::choose;
  using service::set;
  MapOptions o;
  o.name = name;
  o.source = source;
  const auto duplicates = [&o](Duplicates what) {
    return [&o, what](const service::Given&) {
      o.build.duplicates = what;
      return std::string();
    };
  };
  const std::string program = name;
  const service::CommandLine line{
      .program = program,
      .usage = {program + " [-c DIR] [-bfFhijmoprw] [-q KEY | -d KEY | -s] [TYPE:]FILE ...",
                program + " [-c DIR] [-foprw] --all"},
      .about = "Without -q, -d and -s: makes FILE's table FILE.lmdb (cdb: FILE.cdb) anew from its text, in one step.",
      .options = {{"--all", "make every table that main.cf and master.cf name, aliases among them", set(o.all)},
                  {"-c DIR", "the directory of main.cf (default_database_type, and settings that tables name)",
                   service::into(o.directory)},
                  {"-q KEY", "print the value of KEY; -q - reads keys from standard input", into(o.query)},
                  {"-h, -b", "with -q -: standard input is a message; keys are its header fields, its body's lines",
                   [&o](const service::Given& given) {
                     (given.name == "-h" ? o.message.header : o.message.body) = true;
                     return std::string();
                   }},
                  {"-m", "with -h, -b: fields of parts and of messages inside are header too", set(o.message.mime)},
                  {"-d KEY", "remove KEY; -d - reads keys from standard input", into(o.remove)},
                  {"-s", "print every key and value", set(o.list)},
                  {"-j", "with -q, -s: print JSON, an object {\"KEY\": \"VALUE\"} a line", set(o.json)},
                  {"-i", "add what standard input says to the table", set(o.incremental)},
                  {"-r", "a later entry replaces an earlier one", duplicates(Duplicates::replace)},
                  {"-w", "no warning about a second entry with the same key", duplicates(Duplicates::ignore)},
                  {"-f", "keep upper and lower case of keys apart", set(o.build.fold_keys, false)},
                  {"-F", "values name files, whose content is stored in base 64; with -q, -s: decode values",
                   set(o.values_are_files)},
                  {"-o", "stay root", set(o.keep_root)},
                  {"-p", "do not take the permissions of FILE", set(o.inherit_mode, false)},
                  // Postfix's switches for variants of its formats; here there is only one variant.
                  {"-n, -N, -u, -U, -v", "accepted, and change nothing", service::accepted()}}};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  o.tables = *std::move(words);
  if (!one_task(o)) return std::unexpected(line.incomplete());
  if (const std::string fault = fault_of(o); !fault.empty()) return std::unexpected(line.misuse(fault));
  return o;
}

}  // namespace pen::tools
