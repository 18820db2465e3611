#pragma once
/// penconf: shows and changes the settings of an instance. Manual: man/penconf.1.
///
/// Use:     return service::run_tool<SettingsTool>(argc, argv);
/// Parts:   settings_listing.h and template_listing.h show, settings_change.h edits main.cf and master.cf.
/// Errors:  EX_UNAVAILABLE (a value that cannot be expanded), EX_CONFIG, EX_DATAERR (a value with which no program
///          could start), EX_IOERR.
#include <expected>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/suite/service/command_line.h"
#include "tools/settings_change.h"
#include "tools/settings_listing.h"
#include "tools/template_listing.h"

namespace pen::tools {

class SettingsTool {
 public:
  struct Options {
    std::string directory;  // of main.cf, as found
    std::vector<config::Override> overrides;
    std::vector<std::string> names;
    Listing listing;
    SettingsChange change = SettingsChange::none;
    std::vector<config::Edit> edits;                 // of the change, of main.cf
    std::vector<config::ServiceEdit> service_edits;  // or of master.cf
    bool types = false;
    Texts texts = Texts::none;            // of notices
    std::string library;                  // what is asked of the TLS library; empty: nothing
    std::vector<std::string_view> words;  // -a, -A, -l: what there is
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit SettingsTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  Options options_;
};

}  // namespace pen::tools
