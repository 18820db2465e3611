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
/// Errors:  load() fails at the first problem of severity error; inspect() never fails on what the
///          files say, so that tools can show all problems at once.
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

/// What the machine says of itself, and how a file is read: parameters, so that the reading can be tested.
struct Surroundings {
  std::string hostname;                       ///< as gethostname() gives it
  std::vector<InterfaceAddress> interfaces;   ///< of all interfaces that are up
  std::string install_prefix = "/usr/local";  ///< $install_prefix in defaults
  /// The content of a small file (myorigin = /etc/mailname); empty function: such values are an error.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

/// name=value of the command line (-o), which win over main.cf.
struct Override {
  std::string name, value;
};

/// Everything reading needs.
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

/// What the scheduler asks of a transport: <transport>_… settings with their defaults.
struct TransportSettings {
  int destination_concurrency_limit = 0;  ///< 0: no limit
  int initial_destination_concurrency = 0;
  int destination_recipient_limit = 0;  ///< 0: no limit
  std::chrono::milliseconds destination_rate_delay{};
};

class Config {
 public:
  /// The pure core: no file is opened but through surroundings.read_file. Never fails: see problems().
  static Config parse(Sources sources, const Surroundings& surroundings);

  const Settings& settings() const { return settings_; }
  const std::vector<Service>& master() const { return services_; }
  const Service* find_service(std::string_view name, ServiceType type) const;

  /// The value of any name with "$name" expanded: documented settings, <transport>_… names,
  /// restriction classes, names of the administrator's own. nullopt: not a name that is known or
  /// set, or its expansion fails.
  std::optional<std::string> text(std::string_view name) const;
  /// text(), split as a LIST setting is.
  std::optional<std::vector<std::string>> list(std::string_view name) const;
  /// The value as written in main.cf or on the command line; else the default's text; nullopt: not known.
  std::optional<std::string> written(std::string_view name) const;
  /// Where the name was set; nullopt: it is not, the default applies.
  std::optional<Place> where(std::string_view name) const;
  /// "$name" of any text expanded with these settings. Error: bad_syntax.
  Result<std::string> expand(std::string_view text) const;

  /// text("<transport>_<suffix>"), or what applies where it is not set: default_<suffix>, or
  /// <suffix> itself for initial_destination_concurrency. nullopt: no such setting.
  std::optional<std::string> lookup_transport(std::string_view transport, std::string_view suffix) const;
  /// The numbers of one transport; a value that is none was reported when the configuration was read. A pipe service
  /// with flag D or O has the recipient limit 1 whatever is set.
  TransportSettings transport(std::string_view transport) const;

  /// What a service has on top of main.cf: its -o of master.cf; where it takes mail in, also those -o of the cleanup
  /// service that its cleanup_service_name names, as far as cleanup reads them in Postfix (compatibility.h).
  std::vector<Override> overrides(const Service& service) const;

  /// A copy with more overrides on top: a service's view has overrides(), and its name as $service_name.
  Config with(const std::vector<Override>& overrides) const;
  Config with(const Service& service) const;

  /// What reading found; errors first.
  const Problems& problems() const { return problems_; }
  /// problems(), and every name set that does not act, is obsolete or is known to nobody, and every
  /// service whose work lies elsewhere or is missing: what `penstock check` prints. In order of
  /// severity, file and line.
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
  /// The setting as the service has it: by its -o, else as everybody.
  std::optional<std::string> own_setting(const Service& service, std::string_view name) const;
  void read();
  void derive();
  void read_origin(const std::string& path);
  void fill();
  void check_transports();
  void complain(std::string_view name, std::string what);

  Sources sources_;
  Surroundings surroundings_;
  Settings settings_;
  std::vector<Service> services_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> derived_;   ///< defaults that the machine decides
  std::map<std::string, std::string, std::less<>> resolved_;  ///< values that a file holds
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

/// This machine.
Surroundings system_surroundings();
/// directory, else MAIL_CONFIG, else /etc/penstock.
std::string config_directory(std::string_view directory = {});
/// Reads both files of the directory. Errors: unreadable, too_large, and the first error of the
/// text (bad_syntax). A missing master.cf is an error for load() only if need_master.
Result<Config> load(const std::string& directory, std::vector<Override> overrides = {}, bool need_master = true);
/// The same, but what is wrong with the text is in problems() and only an unreadable file fails.
Result<Config> inspect(const std::string& directory, std::vector<Override> overrides = {});

}  // namespace pen::config
