#pragma once
/// The configuration of an instance: main.cf and master.cf read, expanded and checked.
///
/// Use:     auto config = config::load("/etc/penstock", overrides);   // the -o of the command line
///          if (!config) log::fatal("{}", config.error().message());
///          const config::Settings& s = config->settings();           // typed, by name: settings.h
///          config->text("submission_milters")                        // any name, also user-defined
///          config->transport("smtp").destination_concurrency_limit   // with the defaults filled in
///          for (const Service& service : config->master()) …         // master.cf
///          for (const Problem& p : config->report()) …               // what `penstock check` prints
/// Errors:  load() fails at the first problem of severity error; inspect() never fails because of the files' content,
///          so that tools can show all problems at once.
/// Thread:  a Config is a value that never changes once made; any thread may read it.
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/main_cf.h"
#include "lib/config/master_cf.h"
#include "lib/config/problem.h"
#include "lib/config/settings.h"

namespace pen::config {

/// One address of a network interface.
struct InterfaceAddress {
  std::string address;  ///< "192.0.2.1", "fd00::1"
  unsigned prefix = 0;  ///< bits of the network
  bool ipv6 = false;
};

/// Facts about the machine, and a function to read a file: parameters, so that tests can replace them.
struct Surroundings {
  std::string hostname;                       ///< as gethostname() gives it
  std::vector<InterfaceAddress> interfaces;   ///< of all interfaces that are up
  std::string install_prefix = "/usr/local";  ///< $install_prefix in defaults
  std::string programs{};                     ///< the directory of ours beside the running one; "": none (programs.h)
  /// Whether a directory holds our programs: a daemon_directory that does not is another mail system's, and is passed
  /// over. Empty function: every directory does.
  std::function<Result<bool>(const std::string& directory)> holds_programs{};
  /// The content of a small file (myorigin = /etc/mailname); empty function: such values are an error.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

/// name=value from the command line (-o); overrides main.cf.
struct Override {
  std::string name, value;
};

/// All input of reading a configuration.
struct Sources {
  std::string directory;  ///< config_directory
  std::string main_cf, master_cf;
  std::vector<Override> overrides;
};

/// Where a setting was set.
struct Place {
  std::string file;  ///< empty: on the command line
  int line = 0;
};

/// The <transport>_… settings that the scheduler needs, with their defaults.
struct TransportSettings {
  int destination_concurrency_limit = 0;  ///< 0: no limit
  int initial_destination_concurrency = 0;
  int destination_recipient_limit = 0;  ///< 0: no limit
  std::chrono::milliseconds destination_rate_delay{};
};

class Config {
 public:
  /// The pure core: opens no file except through surroundings.read_file. Never fails: see problems().
  static Config parse(Sources sources, const Surroundings& surroundings);

  const Settings& settings() const { return settings_; }
  const std::vector<Service>& master() const { return services_; }
  const Service* find_service(std::string_view name, ServiceType type) const;

  /// The value of any name with "$name" expanded: documented settings, <transport>_… names, restriction classes, the
  /// administrator's own names. nullopt: the name is neither known nor set, or its expansion fails.
  std::optional<std::string> text(std::string_view name) const;
  /// text(), split like a LIST setting.
  std::optional<std::vector<std::string>> list(std::string_view name) const;
  /// The value as written in main.cf or on the command line, else the text of the default; nullopt: unknown name.
  std::optional<std::string> written(std::string_view name) const;
  /// Where the name was set; nullopt: it was not, and the default applies.
  std::optional<Place> where(std::string_view name) const;
  /// Expands "$name" in any text with these settings. Error: bad_syntax.
  Result<std::string> expand(std::string_view text) const;

  /// text("<transport>_<suffix>"), or its default if it is not set: default_<suffix>, or <suffix> itself for
  /// initial_destination_concurrency. nullopt: there is no such setting.
  std::optional<std::string> lookup_transport(std::string_view transport, std::string_view suffix) const;
  /// The numbers of one transport; reading the configuration has already reported malformed values. A pipe service
  /// with flag D or O has the recipient limit 1 whatever is set.
  TransportSettings transport(std::string_view transport) const;

  /// A service's changes to main.cf: its -o in master.cf. A service that takes mail in also has those -o of the
  /// service in its cleanup_service_name that Postfix's cleanup reads (compatibility.h).
  std::vector<Override> overrides(const Service& service) const;

  /// A copy with more overrides on top. For a service: overrides(), and its name as $service_name.
  Config with(const std::vector<Override>& overrides) const;
  Config with(const Service& service) const;

  /// Problems found while reading; errors first.
  const Problems& problems() const { return problems_; }
  /// The lines that `penstock check` prints: problems(), every name set that does not act, is obsolete or unknown, and
  /// every service whose work is done elsewhere or missing. Ordered by severity, file and line.
  Problems report() const;

  /// Names set in main.cf or by overrides, in order, each once.
  const std::vector<std::string>& names_set() const { return names_; }

  const std::string& directory() const { return sources_.directory; }
  std::string main_file() const { return sources_.directory + "/main.cf"; }
  std::string master_file() const { return sources_.directory + "/master.cf"; }

 private:
  struct Entry {
    std::string value;
    int line = 0;
    bool command_line = false;
  };
  std::optional<std::string> unexpanded(std::string_view name) const;
  std::optional<std::string> transport_default(std::string_view name) const;
  /// The value for a service: its -o, else the general value.
  std::optional<std::string> own_setting(const Service& service, std::string_view name) const;
  void read();
  void derive();
  void read_origin(const std::string& path);
  void find_programs();
  void fill();
  void check_values();
  void move_to_causes();
  void check_transports();
  void complain(std::string_view name, std::string what, Severity severity = Severity::error);

  Sources sources_;
  Surroundings surroundings_;
  Settings settings_;
  std::vector<Service> services_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> derived_;   ///< defaults that depend on the machine
  std::map<std::string, std::string, std::less<>> resolved_;  ///< values read from a file
  std::vector<std::string> names_;
  Problems problems_;
};

/// The suffixes of <transport>_… names, with the setting that is their default.
struct TransportSuffix {
  std::string_view suffix, fallback;
  bool acts = false;
};
std::span<const TransportSuffix> transport_suffixes();
/// "smtp" and the suffix of a <transport>_… name; nullopt: no suffix fits.
struct TransportName {
  std::string_view transport;
  const TransportSuffix* suffix;
};
std::optional<TransportName> split_transport_name(std::string_view name);

// The file layer (files.cc).

/// Facts about this machine.
Surroundings system_surroundings();
/// directory if given, else MAIL_CONFIG, else /etc/penstock.
std::string config_directory(std::string_view directory = {});
/// Reads both files of the directory. Errors: unreadable, too_large, and the first error in the text (bad_syntax). A
/// missing master.cf is an error of load() only if need_master.
Result<Config> load(const std::string& directory, std::vector<Override> overrides = {}, bool need_master = true);
/// The same, but errors in the text go to problems(); only an unreadable file fails.
Result<Config> inspect(const std::string& directory, std::vector<Override> overrides = {});

}  // namespace pen::config
