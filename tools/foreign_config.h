#pragma once
/// The configuration of another mail system as text of ours: Postfix's main.cf and master.cf, and what Debian keeps for
/// Exim.
///
/// Use:     auto main = from_postfix_main(text, {.from = {"/etc/postfix"}, .to = "/etc/penstock", .files = …});
///          auto master = from_postfix_master(text, …);
///          auto settings = from_exim(conf, {.mailname = …, .passwd_client = …});
/// Keeps:   comments, order and layout. What is taken away becomes a comment, and is named in `dropped`.
/// Pure; any thread.
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace pen::tools {

/// Files that move with the configuration.
struct Moved {
  std::vector<std::string> from;  // the directories that names may begin with, without a final slash
  std::string to;
  std::set<std::string> files;  // below them, as paths
};

struct Dropped {
  std::string what;  // a setting, or a service
  std::string why;
};

struct ForeignText {
  std::string text;
  std::vector<Dropped> dropped;
  int chrooted = 0;  // services with a chroot column of y
};

/// Errors: of edit_main_cf().
Result<ForeignText> from_postfix_main(std::string_view text, const Moved& moved);
/// chroot y becomes n. Services with a program that does not exist here become comments, but for those with -o or
/// columns that still count (cleanup, postscreen).
ForeignText from_postfix_master(std::string_view text, const Moved& moved);
/// The settings that only make sense for Postfix's own installation.
bool is_of_installation(std::string_view name);

/// What debconf sets for Debian's Exim: update-exim4.conf.conf, and the files beside it.
struct EximFiles {
  std::string conf;           // update-exim4.conf.conf
  std::string mailname;       // /etc/mailname
  std::string passwd_client;  // host:login:password
  std::string addresses;      // /etc/email-addresses: "login: address"
  std::string aliases;        // the path of the aliases; empty: there are none
};
struct EximConfig {
  std::vector<std::pair<std::string, std::string>> settings;  // of main.cf, in order
  std::string passwords;                                      // text of a table for smtp_sasl_password_maps
  std::string generic;                                        // text of a table for smtp_generic_maps
  std::vector<Dropped> dropped;                               // what has no equal
};
/// directory: where main.cf and the tables will be. Errors: ConfigError::bad_value (an unknown configtype).
Result<EximConfig> from_exim(const EximFiles& files, const std::string& directory);

}  // namespace pen::tools
