#pragma once
/// Logins that Cyrus SASL checks (docs/authentication.md): which programs ask for them, and the options of
/// applications.
///
/// Use:     if (asks_cyrus(settings)) … cyrus_socket(config) …                      // smtpd
///          for (const auto& name : cyrus_applications(config))                     // cyrus, penstock check
///            for (const auto& file : cyrus_option_files(config, name)) …           // the first that is there counts
///          auto options = CyrusOptions::parse(text);  options->value("mech_list")
/// Source:  saslauthd(8) and "Options for Cyrus SASL" of the library, whose reader of such files this one follows.
/// Pure; any thread.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/config.h"

namespace pen::config {

inline constexpr const char* kCyrusProgram = "cyrus";

/// smtpd offers AUTH, and Cyrus SASL is to check logins.
bool asks_cyrus(const Settings& settings);
/// The same, and the program cyrus decides, with the library or by a table of users.
bool asks_login_program(const Settings& settings);
/// smtpd offers AUTH, and decides itself by a file of tokens.
bool asks_tokens(const Settings& settings);
/// Of the service with that program, below queue_directory; nullopt: master.cf has none.
std::optional<std::string> cyrus_socket(const Config& config);
/// The line that master.cf needs: where a service "cyrus" is something else, under another name.
std::string cyrus_line(const std::vector<Service>& services);
/// What the smtpd services that ask name in smtpd_sasl_path, each once.
std::vector<std::string> cyrus_applications(const Config& config);
/// The tables of users that smtpd services have in smtpd_sasl_path (smtpd_sasl_type = table), each once.
std::vector<std::string> login_tables(const Config& config);
/// NAME.conf in each directory of cyrus_sasl_config_path.
std::vector<std::string> cyrus_option_files(const Config& config, const std::string& application);

/// The content of such a file: lines "name: value", comments with #.
class CyrusOptions {
 public:
  /// Error: bad_syntax, with the number of the line: a line without a name, a colon or a value.
  static Result<CyrusOptions> parse(std::string_view text);
  /// The value of the first line with that name; nullptr: there is none.
  const std::string* value(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

/// What an application's options make the library ask.
struct CyrusNeeds {
  std::optional<std::string> saslauthd;  // its socket
  std::optional<std::string> sasldb;     // the file
  bool sasldb_named = false;             // by auxprop_plugin; else it is asked beside whatever else is installed
};
CyrusNeeds cyrus_needs(const CyrusOptions& options);

/// Where Debian's libraries look for the socket of saslauthd and for sasldb if the options name no other place.
inline constexpr const char* kSaslauthdSocket = "/var/run/saslauthd/mux";
inline constexpr const char* kSasldbFile = "/etc/sasldb2";
/// The same path below Postfix's queue directory, where smtpd of Postfix with chroot y finds it.
std::string below_postfix(const std::string& path);

}  // namespace pen::config
