#include "tools/settings_tool.h"

#include <algorithm>

#include "lib/config/expand.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penconf";

/// What is wrong with the combination of options; empty: nothing.
std::string fault_of(const SettingsTool::Options& o, bool assigns) {
  using Of = Listing::Of;
  const bool of_master = o.listing.of != Of::main;
  const bool changes = o.change != SettingsChange::none;
  if (o.types && (!o.names.empty() || of_master || changes)) return "-m goes alone";
  if (of_master && (changes || assigns))
    return "master.cf is not edited by penconf yet: change " + o.directory + "/master.cf by hand";
  if (o.listing.defaults && (o.listing.set_only || of_master || changes || assigns))
    return "-d does not go together with -n, -M, -F, -P, -e, -X or -#";
  return {};
}

}  // namespace

std::expected<SettingsTool::Options, service::Ending> SettingsTool::read(int argc, const char* const* argv) {
  using service::choose;
  using service::set;
  using Of = Listing::Of;
  Options o;
  Listing& l = o.listing;
  std::string directory;
  const auto override = [&o](const service::Given& given) -> std::string {
    config::Assignment assignment;
    if (const auto error = config::parse_assignment(given.value, assignment); !error.empty()) return "-o: " + error;
    o.overrides.push_back({assignment.name, assignment.value});
    return {};
  };
  constexpr const char* kChanges = "-e, -#, -X";
  constexpr const char* kOfMaster = "-M, -F, -P";
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"penconf [-c DIR] [-dnfhHjx] [-o name=value] [name ...]", "penconf [-c DIR] -e name=value ...",
                "penconf [-c DIR] -# name ...", "penconf [-c DIR] -X name ...", "penconf -m",
                "penconf [-c DIR] -M|-F|-P [-fhHjx] [service[/type[/name]] ...]"},
      .about = "Shows and changes the settings of a Penstock instance.",
      .options = {service::directory_option(directory),
                  {"-d", "defaults", set(l.defaults)},
                  {"-n", "only what main.cf sets", set(l.set_only)},
                  {"-e", "set in main.cf; comments stay", choose(o.change, SettingsChange::set, kChanges)},
                  {"-#", "comment out in main.cf", choose(o.change, SettingsChange::comment_out, kChanges)},
                  {"-X", "remove from main.cf", choose(o.change, SettingsChange::remove, kChanges)},
                  {"-o NAME=VALUE", "as if main.cf said so", override},
                  {"-x", "with $name expanded", set(l.expand)},
                  {"-h", "values only", set(l.hide_names)},
                  {"-H", "names only", set(l.hide_values)},
                  {"-f", "fold long lines", set(l.fold)},
                  {"-j", "JSON, one object a line", set(l.json)},
                  {"-p", "settings of main.cf: as without", service::accepted()},
                  {"-m", "the types of look-up tables that there are", set(o.types)},
                  {"-M", "services of master.cf", choose(l.of, Of::services, kOfMaster)},
                  {"-F", "their columns", choose(l.of, Of::columns, kOfMaster)},
                  {"-P", "their -o settings", choose(l.of, Of::overrides, kOfMaster)}}};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  o.names = *std::move(words);
  o.directory = config::config_directory(directory);
  const bool assigns =
      std::ranges::any_of(o.names, [](const std::string& name) { return name.find('=') != std::string::npos; });
  if (const std::string fault = fault_of(o, assigns); !fault.empty()) return std::unexpected(line.misuse(fault));
  // "penconf name=value" sets, as in Postfix
  if (o.change == SettingsChange::none && assigns) o.change = SettingsChange::set;
  if (o.change == SettingsChange::none) return o;
  const auto edits = edits_of(o.change, o.names);
  if (!edits) return std::unexpected(line.misuse(edits.error()));
  o.edits = *edits;
  return o;
}

int SettingsTool::run() {
  const Options& o = options_;
  if (o.types) return show_table_types();
  if (o.change != SettingsChange::none) return change_main_cf(o.directory, o.edits);
  if (o.listing.defaults && !o.listing.expand)
    return show_settings(config::Config::parse({o.directory, "", "", {}}, config::system_surroundings()), o.listing,
                         o.names);
  const auto config = config::inspect(o.directory, o.overrides);
  if (!config) die(kProgram, EX_CONFIG, config.error().message());
  return o.listing.of == Listing::Of::main ? show_settings(*config, o.listing, o.names)
                                           : show_services(*config, o.listing, o.names);
}

}  // namespace pen::tools
