#include "tools/cyrus_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/map/map.h"
#include "lib/map/table_file.h"
#include "lib/suite/confine/programs.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/setup.h"
#include "lib/trust/sasl/crypt_hash.h"
#include "tools/table_entries.h"

namespace pen::tools {
namespace {

using config::Problem;

/// What a plugin of Debian's is for, its file, and the package of those that libsasl2-modules has not.
struct Plugin {
  std::string_view word, file;
  std::string_view package = "libsasl2-modules";
};
constexpr std::string_view kGssapi = "libsasl2-modules-gssapi-mit";
constexpr Plugin kMechanisms[] = {{"PLAIN", "plain"},
                                  {"LOGIN", "login"},
                                  {"CRAM-MD5", "crammd5"},
                                  {"DIGEST-MD5", "digestmd5"},
                                  {"SCRAM-SHA-1", "scram"},
                                  {"SCRAM-SHA-224", "scram"},
                                  {"SCRAM-SHA-256", "scram"},
                                  {"SCRAM-SHA-384", "scram"},
                                  {"SCRAM-SHA-512", "scram"},
                                  {"NTLM", "ntlm"},
                                  {"ANONYMOUS", "anonymous"},
                                  {"GSSAPI", "gssapiv2", kGssapi},
                                  {"GSS-SPNEGO", "gssapiv2", kGssapi},
                                  {"GS2-KRB5", "gs2", kGssapi},
                                  {"OTP", "otp", "libsasl2-modules-otp"}};
constexpr Plugin kLookUps[] = {{"sasldb", "sasldb", "libsasl2-modules-db"},
                               {"sql", "sql", "libsasl2-modules-sql"},
                               {"ldapdb", "ldapdb", "libsasl2-modules-ldap"}};

class Look {
 public:
  Look(const config::Config& config, const SaslMachine& machine) : config_(config), machine_(machine) {}

  config::Problems run() {
    for (const std::string& name : config::cyrus_applications(config_)) application(name);
    for (const std::string& table : config::login_tables(config_)) users(table);
    return std::move(found_);
  }

 private:
  void say(std::string text) {
    const auto place = config_.where("smtpd_sasl_path").value_or(config::Place{config_.main_file(), 0});
    found_.push_back({config::Severity::warning, place.file, place.line, "smtpd_sasl_path", std::move(text)});
  }

  void application(const std::string& name) {
    const auto files = config::cyrus_option_files(config_, name);
    for (const std::string& file : files) {
      std::ifstream in(file, std::ios::binary);
      if (!in) continue;
      std::ostringstream text;
      text << in.rdbuf();
      auto options = config::CyrusOptions::parse(text.str());
      if (!options) return say(file + ": " + options.error().message() + ": nobody can log in");
      return judge(file, *options);
    }
    say(fmt::format("there is no {}: the defaults of Cyrus SASL hold, which look logins up in sasldb",
                    join(files, ", no ")));
    judge(name + ".conf", {});
  }

  void users(const std::string& table) {
    const auto maps = map::MapList::open(table, {.default_type = config_.settings().default_database_type,
                                                 .substitute = false,
                                                 .served = false,
                                                 .setting = "smtpd_sasl_path"});
    if (!maps) return say(maps.error().message() + ": nobody can log in");
    if (maps->empty()) return say("it names no table of users, as texthash:/path: nobody can log in");
    for (const Error& problem : maps->problems()) say(problem.message() + ": nobody can log in");
    std::set<std::string> files;
    for (const map::PlainTable& plain : map::plain_tables(table, config_.settings().default_database_type))
      for (const std::string& file : {plain.name, plain.file()})
        if (file.starts_with('/')) files.insert(file);
    for (const std::string& file : files) {
      struct stat st{};
      if (::stat(file.c_str(), &st) == 0 && (st.st_mode & (S_IROTH | S_IWOTH)) != 0)
        say(fmt::format("everybody can read {}, which holds hashes of passwords: chmod 600 {}", file, file));
    }
    for (const PlacedEntry& entry : table_entries(config_, {table})) {
      if (sasl::CryptHash::parse(entry.value) || sasl::CryptHash::locked(entry.value)) continue;
      const std::string what =
          fmt::format("the value of {} is no hash of crypt(3), and that user cannot log in", printable(entry.key, 80));
      say(what);
      if (entry.file.empty()) continue;
      found_.back().file = entry.file;
      found_.back().line = static_cast<int>(entry.line);
    }
  }

  void judge(const std::string& file, const config::CyrusOptions& options) {
    plugins(file, options, "mech_list", kMechanisms);
    plugins(file, options, "auxprop_plugin", kLookUps);
    const auto needs = config::cyrus_needs(options);
    if (needs.saslauthd)
      reach(file, *needs.saslauthd, W_OK, true, "the socket of saslauthd",
            "start saslauthd, or name it by saslauthd_path");
    if (needs.sasldb) reach(file, *needs.sasldb, R_OK, needs.sasldb_named, "sasldb", "make it with saslpasswd2");
  }

  template <std::size_t N>
  void plugins(const std::string& file, const config::CyrusOptions& options, const char* option,
               const Plugin (&known)[N]) {
    const std::string* value = options.value(option);
    if (value == nullptr) return;
    for (const std::string_view word : split(*value)) {
      const auto plugin = std::ranges::find_if(known, [&](const Plugin& p) { return iequals(p.word, word); });
      if (plugin == std::end(known)) continue;
      const std::string library = fmt::format("lib{}.so", plugin->file);
      if (std::ranges::find(machine_.plugins, library) == machine_.plugins.end())
        say(fmt::format("{}: {} {}: its plugin is not installed: install {}", file, option, word, plugin->package));
    }
  }

  /// must: it is a fault that it is not there.
  void reach(const std::string& file, const std::string& path, int how, bool must, std::string_view what,
             std::string_view advice) {
    std::vector<gid_t> groups;
    if (const group* logins = ::getgrnam(confine::kLoginsGroup)) groups.push_back(logins->gr_gid);
    const auto try_it = [&](int mode) {
      const auto at = [mode](const std::string& place) {
        return ::faccessat(AT_FDCWD, place.c_str(), mode, AT_EACCESS) == 0 ? 0 : errno;
      };
      const int error = at(path);
      return error == ENOENT ? at(config::below_postfix(path)) : error;
    };
    int error = try_it(F_OK);
    if (const auto owner = service::mail_owner(config_.settings()); owner && error == 0) {
      const service::AsAccount as(*owner, groups);
      if (!as.ok()) return;
      error = try_it(how);
    }
    const bool gone = error == ENOENT || error == ENOTDIR;
    if (error == 0 || (gone && !must)) return;
    say(gone ? fmt::format("{}: {} is not at {}: {}", file, what, printable(path, 120), advice)
             : fmt::format("{}: {} at {} cannot be used by {}: {}: let the group {} have it", file, what,
                           printable(path, 120), config_.settings().mail_owner, std::strerror(error),
                           confine::kLoginsGroup));
  }

  const config::Config& config_;
  const SaslMachine& machine_;
  config::Problems found_;
};

}  // namespace

SaslMachine this_sasl_machine() {
  SaslMachine machine;
  for (const char* pattern : {"/usr/lib/*/sasl2/lib*.so", "/usr/lib/sasl2/lib*.so", "/usr/lib64/sasl2/lib*.so"}) {
    glob_t found{};
    if (::glob(pattern, 0, nullptr, &found) == 0) {
      for (std::size_t i = 0; i < found.gl_pathc; ++i) {
        const std::string_view path = found.gl_pathv[i];
        machine.plugins.emplace_back(path.substr(path.rfind('/') + 1));
      }
    }
    ::globfree(&found);
  }
  return machine;
}

config::Problems cyrus_problems(const config::Config& config, const SaslMachine& machine) {
  return Look(config, machine).run();
}

}  // namespace pen::tools
