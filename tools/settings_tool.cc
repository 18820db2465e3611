#include "tools/settings_tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "lib/base/text.h"
#include "lib/config/expand.h"
#include "lib/net/tls/library.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penconf";

constexpr std::string_view kLibraryModes[] = {"compile-version", "run-version", "public-key-algorithms"};

int show_library(std::string_view mode) {
  if (mode == kLibraryModes[0]) return show_words({tls::compiled_version()});
  if (mode == kLibraryModes[2]) return show_words(tls::public_key_algorithms());
  const std::string version = tls::running_version();
  return show_words({version});
}

/// What is wrong with the combination of options; empty: nothing.
std::string fault_of(const SettingsTool::Options& o, bool assigns) {
  using Of = Listing::Of;
  const bool of_master = o.listing.of != Of::main;
  const bool changes = o.change != SettingsChange::none;
  const bool fixed = o.types || !o.words.empty();
  if (fixed && (!o.names.empty() || of_master || changes)) return "-m, -a, -A and -l go alone";
  const Listing& l = o.listing;
  const bool shows = of_master || l.defaults || l.set_only || l.expand || l.fold || l.json || l.hide_names ||
                     l.hide_values || !o.overrides.empty();
  const bool texts = o.texts != Texts::none;
  if ((texts || !o.library.empty()) && (fixed || changes || shows || (texts && !o.library.empty())))
    return "-b, -t and -T go alone, with -c at most";
  if (texts && o.names.size() > 1) return "-b, -t: one template file at most";
  if (!o.library.empty() && !o.names.empty()) return "-T: unexpected \"" + printable(o.names.front()) + "\"";
  if (o.listing.defaults && (o.listing.set_only || of_master || changes || assigns))
    return "-d does not go together with -n, -M, -F, -P, -e, -X or -#";
  return {};
}

using Takes = std::function<std::string(const service::Given&)>;

Takes into_overrides(std::vector<config::Override>& overrides) {
  return [&overrides](const service::Given& given) -> std::string {
    config::Assignment assignment;
    if (const auto error = config::parse_assignment(given.value, assignment); !error.empty()) return "-o: " + error;
    overrides.push_back({assignment.name, assignment.value});
    return {};
  };
}

Takes into_class(Listing::Class& of_class) {
  return [&of_class](const service::Given& given) -> std::string {
    constexpr std::pair<std::string_view, Listing::Class> kClasses[] = {{"all", Listing::Class::all},
                                                                        {"builtin", Listing::Class::builtin},
                                                                        {"service", Listing::Class::service},
                                                                        {"user", Listing::Class::user}};
    for (const auto& [name, one] : kClasses) {
      if (given.value != name) continue;
      of_class = one;
      return {};
    }
    return "-C: one of builtin, service, user and all is expected";
  };
}

Takes into_library(std::string& library) {
  return [&library](const service::Given& given) -> std::string {
    if (std::ranges::find(kLibraryModes, given.value) == std::end(kLibraryModes))
      return "-T: one of " + join(std::vector<std::string>(std::begin(kLibraryModes), std::end(kLibraryModes)), ", ") +
             " is expected";
    library = given.value;
    return {};
  };
}

service::CommandLine command_line(SettingsTool::Options& o, std::string& directory) {
  using service::choose;
  using service::set;
  using Of = Listing::Of;
  Listing& l = o.listing;
  constexpr const char* kChanges = "-e, -#, -X";
  constexpr const char* kOfMaster = "-M, -F, -P";
  const auto words_of = [&o](std::vector<std::string_view> words) {
    return [&o, words = std::move(words)](const service::Given&) -> std::string {
      o.words = words;
      return {};
    };
  };
  return {.program = kProgram,
          .usage = {"penconf [-c DIR] [-dnfhHjx] [-o name=value] [name ...]", "penconf [-c DIR] -e name=value ...",
                    "penconf [-c DIR] -# name ...", "penconf [-c DIR] -X name ...",
                    "penconf [-c DIR] -M|-F|-P [-fhHjx] [service[/type[/name]] ...]",
                    "penconf [-c DIR] -M service/type='line' ... | -MX|-M# service/type ...",
                    "penconf [-c DIR] -F service/type/column=value ...",
                    "penconf [-c DIR] -P service/type/name=value ... | -PX service/type/name ...",
                    "penconf [-c DIR] -b|-t [template_file]", "penconf -m|-a|-A|-l|-T MODE"},
          .about = "Shows and changes the settings of a Penstock instance.",
          .options = {
              service::directory_option(directory),
              {"-d", "defaults", set(l.defaults)},
              {"-n", "only what main.cf sets", set(l.set_only)},
              {"-C CLASS", "only those: builtin, service (of transports), user, all", into_class(l.of_class)},
              {"-e", "set in main.cf; comments stay", choose(o.change, SettingsChange::set, kChanges)},
              {"-#", "comment out in main.cf", choose(o.change, SettingsChange::comment_out, kChanges)},
              {"-X", "remove from main.cf", choose(o.change, SettingsChange::remove, kChanges)},
              {"-o NAME=VALUE", "as if main.cf said so", into_overrides(o.overrides)},
              {"-x", "with $name expanded", set(l.expand)},
              {"-h", "values only", set(l.hide_names)},
              {"-H", "names only", set(l.hide_values)},
              {"-f", "fold long lines", set(l.fold)},
              {"-j", "JSON, one object a line", set(l.json)},
              {"-p", "settings of main.cf: as without", service::accepted()},
              {"-m", "the types of look-up tables that there are", set(o.types)},
              {"-a", "what smtpd authenticates clients by (smtpd_sasl_type)", words_of({"cyrus", "dovecot", "table"})},
              {"-A", "what logs in elsewhere (smtp_sasl_type)", words_of({"cyrus"})},
              {"-l", "the ways to lock mailboxes", words_of({"flock", "fcntl", "dotlock"})},
              {"-b", "the texts of notices as they are sent", choose(o.texts, Texts::expanded, "-b, -t")},
              {"-t", "the templates of notices, with their $names", choose(o.texts, Texts::written, "-b, -t")},
              {"-T MODE", "of the TLS library: compile-version, run-version, public-key-algorithms",
               into_library(o.library)},
              {"-q", "say nothing of names that no setting has", set(l.quiet)},
              {"-v", "changes nothing", service::accepted()},
              {"-M", "services of master.cf", choose(l.of, Of::services, kOfMaster)},
              {"-F", "their columns", choose(l.of, Of::columns, kOfMaster)},
              {"-P", "their -o settings", choose(l.of, Of::overrides, kOfMaster)}}};
}

/// What is to change, of the words. Errors: of edits_of(), service_edits_of().
std::expected<void, std::string> read_change(SettingsTool::Options& o) {
  using Of = Listing::Of;
  using config::ServiceEdit;
  if (o.listing.of == Of::main) {
    auto edits = edits_of(o.change, o.names);
    if (!edits) return std::unexpected(edits.error());
    o.edits = *std::move(edits);
    return {};
  }
  const auto of = o.listing.of == Of::services  ? ServiceEdit::Of::service
                  : o.listing.of == Of::columns ? ServiceEdit::Of::column
                                                : ServiceEdit::Of::setting;
  auto edits = service_edits_of(o.change, of, o.names);
  if (!edits) return std::unexpected(edits.error());
  o.service_edits = *std::move(edits);
  return {};
}

}  // namespace

std::expected<SettingsTool::Options, service::Ending> SettingsTool::read(int argc, const char* const* argv) {
  Options o;
  std::string directory;
  const service::CommandLine line = command_line(o, directory);
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  o.names = *std::move(words);
  o.directory = config::config_directory(directory);
  const bool assigns =
      std::ranges::any_of(o.names, [](const std::string& name) { return name.find('=') != std::string::npos; });
  if (const std::string fault = fault_of(o, assigns); !fault.empty()) return std::unexpected(line.misuse(fault));
  if (o.texts != Texts::none) {
    if (!o.names.empty()) o.overrides.push_back({"bounce_template_file", o.names.front()});
    return o;
  }
  // "penconf name=value" sets, as in Postfix
  if (o.change == SettingsChange::none && assigns) o.change = SettingsChange::set;
  if (o.change == SettingsChange::none) return o;
  if (const auto change = read_change(o); !change) return std::unexpected(line.misuse(change.error()));
  return o;
}

int SettingsTool::run() {
  const Options& o = options_;
  if (o.types) return show_table_types();
  if (!o.words.empty()) return show_words(o.words);
  if (!o.library.empty()) return show_library(o.library);
  if (!o.service_edits.empty()) return change_master_cf(o.directory, o.service_edits);
  if (o.change != SettingsChange::none) return change_main_cf(o.directory, o.edits);
  if (o.listing.defaults && !o.listing.expand) {
    // Without main.cf, which may be missing or wrong. master.cf says which transports have settings of their own.
    const auto here = config::system_surroundings();
    const auto master = here.read_file(o.directory + "/master.cf");
    if (!master && !master.error().is_errno(ENOENT))
      std::fprintf(stderr, "%s: warning: %s\n", kProgram, master.error().message().c_str());
    return show_settings(config::Config::parse({o.directory, "", master.value_or(""), {}}, here), o.listing, o.names);
  }
  const auto config = config::inspect(o.directory, o.overrides);
  if (!config) die(kProgram, EX_CONFIG, config.error().message());
  if (o.texts != Texts::none) return show_templates(*config, o.texts);
  return o.listing.of == Listing::Of::main ? show_settings(*config, o.listing, o.names)
                                           : show_services(*config, o.listing, o.names);
}

}  // namespace pen::tools
