#include "tools/check.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/text.h"
#include "lib/bounce/from_config.h"
#include "lib/config/config.h"
#include "lib/config/transport_use.h"
#include "lib/confine/apply.h"
#include "lib/intake/from_settings.h"
#include "lib/mailbox/command_account.h"
#include "lib/mailbox/limits.h"
#include "lib/map/match_list.h"
#include "lib/redis/server.h"
#include "lib/resolve/from_settings.h"
#include "lib/service/plan.h"
#include "lib/service/setup.h"
#include "lib/smtp/from_config.h"
#include "lib/smtp/tls.h"
#include "lib/smtpd/policy.h"
#include "lib/smtpd/tls.h"
#include "pipe/options.h"
#include "spawn/options.h"
#include "tools/instances.h"
#include "tools/mistakes.h"
#include "tools/own_tables.h"
#include "tools/tables.h"

namespace pen::tools {
namespace {

using config::Problem;
using config::Severity;

constexpr const char* kWords[] = {"error", "warning", "note"};

/// What was found, printed as it comes, as one JSON document at the end, or only gathered.
class Report {
 public:
  enum class Form { text, json, none };
  explicit Report(Form form) : form_(form) {}

  void add(Severity severity, const std::string& text) { add(Problem{severity, {}, 0, {}, text}, {}); }
  void add(const Problem& p, const std::string& advice = {}) {
    fatal = fatal || p.severity == Severity::error;
    ++lines;
    const char* level = kWords[static_cast<int>(p.severity)];
    if (form_ == Form::none) return all.push_back({p, advice});
    if (form_ == Form::text) {
      std::printf("%s: %s%s%s\n", level, p.message().c_str(), advice.empty() ? "" : "; write: ", advice.c_str());
      return;
    }
    nlohmann::ordered_json one;
    one["level"] = level;
    if (!p.file.empty()) one["file"] = p.file;
    if (p.line > 0) one["line"] = p.line;
    if (!p.name.empty()) one["setting"] = p.name;
    one["text"] = p.text;
    if (!advice.empty()) one["advice"] = advice;
    found_.push_back(std::move(one));
  }
  /// Returns the exit status.
  int end() const {
    if (form_ == Form::json)
      std::printf("%s\n", found_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    else if (lines == 0)
      std::puts("no problem found");
    return fatal ? EX_CONFIG : EX_OK;
  }

  bool fatal = false;
  int lines = 0;
  std::vector<CheckFinding> all;  // Form::none

 private:
  Form form_;
  nlohmann::ordered_json found_ = nlohmann::ordered_json::array();
};

void check_accounts(const config::Settings& s, Report& report) {
  if (::geteuid() != 0) {
    report.add(Severity::note,
               "not run by root: the mail system runs as this user and delivers to this user's "
               "mailboxes only");
    return;
  }
  if (auto owner = service::mail_owner(s); !owner) {
    report.add(Severity::error, owner.error().message() + ": make it with scripts/accounts, or set mail_owner");
  }
  const group* drop = ::getgrnam(s.setgid_group.c_str());
  if (drop == nullptr) {
    report.add(Severity::warning,
               "no group \"" + s.setgid_group + "\" (setgid_group): only root can hand in mail by sendmail");
    return;
  }
  std::error_code error;  // the programs lie beside this command
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  struct Setgid {
    const char *name, *otherwise;
  };
  for (const auto& [name, otherwise] :
       {Setgid{"pendrop", "only root can hand in mail by sendmail"},
        Setgid{"penqueue", "only root can look at the queue"}, Setgid{"mailq", "only root can look at the queue"},
        Setgid{"penshape", "only root can look at the queue"}}) {
    const std::string path = (self.parent_path() / name).string();
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) continue;
    if (st.st_gid == drop->gr_gid && (st.st_mode & S_ISGID) != 0) continue;
    report.add(Severity::note, path + " is not setgid " + s.setgid_group + ": " + otherwise + " (chgrp " +
                                   s.setgid_group + " and chmod 2755 " + path + ")");
  }
}

void check_directory(const std::string& name, const std::string& path, const config::Settings& s, Report& report) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) {
      report.add(Severity::note, name + " " + path + " does not exist yet: start makes it");
    } else {
      report.add(Severity::error, name + " " + path + ": " + Error::from_errno(errno).message());
    }
    return;
  }
  if (!S_ISDIR(st.st_mode)) return report.add(Severity::error, name + " " + path + " is not a directory");
  if ((st.st_mode & S_IWOTH) != 0) {
    report.add(Severity::error, name + " " + path + " can be written by everyone");
  }
  const auto owner = service::mail_owner(s);
  if (owner && st.st_uid != owner->uid && st.st_uid != 0) {
    report.add(Severity::warning, fmt::format("{} {} belongs to uid {}, not to mail_owner", name, path, st.st_uid));
  }
}

void check_config_file(const std::string& path, Report& report) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return;
  if ((st.st_mode & S_IWOTH) != 0) report.add(Severity::error, path + " can be written by everyone");
  if (::geteuid() == 0 && st.st_uid != 0) {
    report.add(Severity::warning, fmt::format("{} belongs to uid {}, not to root", path, st.st_uid));
  }
}

/// Faults that bounce ignores: notices then have the built-in text, and the postmaster gets none.
void check_notices(const config::Config& config, Report& report) {
  if (auto t = bounce::templates_from(config); !t)
    report.add(Severity::error, t.error().message() + "; notices have the built-in text");
  if (auto copies = bounce::copies_from(config.settings()); !copies)
    report.add(Severity::error, copies.error().context());
}

/// Services that would not start, so that their mail would wait.
void check_mailbox_limits(const config::Config& config, Report& report) {
  for (const auto& service : config.master()) {
    if (service.command != "local" && service.command != "virtual") continue;
    const auto own = config.with(service);
    const config::Settings& s = own.settings();
    const bool local = service.command == "local";
    const auto fits =
        mailbox::check_limit(local ? "mailbox_size_limit" : "virtual_mailbox_limit",
                             static_cast<std::uint64_t>(local ? s.mailbox_size_limit : s.virtual_mailbox_limit),
                             static_cast<std::uint64_t>(s.message_size_limit));
    if (fits) continue;
    const bool used = config::transport_is_used(config.settings(), service.name);
    report.add(used ? Severity::error : Severity::note,
               "service " + service.name + (used ? " will not start: " : " would not start if mail came for it: ") +
                   fits.error().context());
  }
}

std::set<std::string> as_set(const std::vector<std::string>& list) { return {list.begin(), list.end()}; }

/// What smtpd would say at the start of each service that runs it: why it will not start, or what it ignores.
void check_smtpd(const config::Config& config, Report& report) {
  std::set<std::string> told;  // each fault once, however many services have it
  const auto say = [&](Severity severity, const std::string& text) {
    if (told.insert(text).second) report.add(severity, text);
  };
  for (const auto& service : config.master()) {
    if (service.command != "smtpd" || service.type == config::ServiceType::pass) continue;
    const auto own = config.with(service);
    const config::Settings& s = own.settings();
    const auto stops = [&](const Error& why) {
      say(Severity::error, "service " + service.label() + " will not start: " + why.message());
    };
    auto resolve = resolve::Resolve::open(resolve::from_settings(s));
    if (!resolve) {
      stops(resolve.error());
      continue;
    }
    auto policy = smtpd::Policy::open_policy(own, *resolve);
    if (!policy) stops(policy.error());
    if (policy)
      for (const auto& warning : (*policy)->warnings) say(Severity::warning, warning);
    auto intake = intake::from_settings(s);
    if (!intake) stops(intake.error());
    if (intake)
      for (const auto& warning : intake->warnings) say(Severity::warning, warning);
    if (!smtpd::AuthPolicy::available(s)) continue;
    if (auto at = smtpd::AuthPolicy::service(s); !at) stops(at.error());
  }
}

/// The programs read it as mail_owner; root, who checks, can read everything.
void check_secrets(const config::Settings& s, Report& report) {
  struct stat st{};
  const auto owner = service::mail_owner(s);
  if (s.srs_domain.empty() || !owner || ::stat(s.srs_secrets_file.c_str(), &st) != 0) return;
  const bool readable = owner->uid == 0 || (st.st_uid == owner->uid   ? (st.st_mode & S_IRUSR) != 0
                                            : st.st_gid == owner->gid ? (st.st_mode & S_IRGRP) != 0
                                                                      : (st.st_mode & S_IROTH) != 0);
  if (!readable)
    report.add(Severity::warning,
               "srs_secrets_file " + s.srs_secrets_file + ": mail_owner must be able to read it: chown or chgrp it");
}

/// Commands whose service would not start. Postfix's own master.cf has some for software that is not installed: a note.
void check_commands(const config::Config& config, Report& report) {
  const auto owner = service::mail_owner(config.settings());
  for (const auto& service : config.master()) {
    const auto look = [&](const auto& options, const std::string& when) {
      const std::string start = "service " + service.label() + " would not start if " + when + ": ";
      if (!options) {
        report.add(Severity::warning, start + options.error());
      } else if (owner) {
        const auto who = mailbox::command_account(options->user, options->group, owner->uid, owner->gid, service.name);
        if (!who) report.add(Severity::note, start + who.error().context());
      }
    };
    if (service.command == "pipe") look(pipes::parse_options(service.arguments), "mail came for it");
    if (service.command == "spawn") look(spawner::parse_options(service.arguments), "somebody connected");
  }
}

/// Tables that are not made from their text yet, as after a change from Postfix, whose files have another form.
void check_tables(const config::Config& config, Report& report) {
  std::string missing;
  for (const OwnTable& table : own_tables(config)) {
    if (table.has_text() && !table.is_made()) missing += (missing.empty() ? "" : ", ") + table.file();
  }
  if (!missing.empty())
    report.add(Severity::warning, "tables that are not made yet: " + missing + "; make them all: penmap -c " +
                                      config.directory() + " --all");
}

/// Faults that keep smtpd, smtp and lmtp from TLS: files, keys, protocols, ciphers. Mail at level may goes in clear
/// text.
std::set<std::string> tls_problems(const config::Config& config) {
  std::set<std::string> found;  // each fault once, however many services have it
  for (const auto& service : config.master()) {
    const bool lmtp = service.command == "lmtp";
    if (service.command == "smtpd") {
      found.merge(as_set(smtpd::ServerTls::problems(config.with(service))));
    } else if (lmtp || service.command == "smtp") {
      const auto own = config.with(service);
      smtp::ClientTls tls(smtp::settings_from(own.settings(), lmtp).tls, system_clock());
      found.merge(as_set(tls.problems()));
    }
  }
  return found;
}

/// The needs of destdb_backend = redis. The server itself is not contacted: mail is delivered without it.
std::vector<std::string> redis_faults(const config::Settings& s) {
  std::vector<std::string> out;
  if (s.destdb_backend != config::DestdbBackend::redis) return out;
  if (auto options = redis::client_options(s); !options) out.push_back(options.error().message());
  auto unshared = map::MatchList::open(map::MatchList::Kind::network, join(s.destdb_unshared_networks, ", "), {});
  if (!unshared) out.push_back("destdb_unshared_networks: " + unshared.error().message());
  if (unshared && unshared->blocking())
    out.push_back(
        "destdb_unshared_networks: this type of table may wait for others, which the queue manager "
        "cannot");
  if (s.destdb_redis_prefix.empty() || s.destdb_redis_prefix.size() > 100)
    out.push_back("destdb_redis_prefix: between 1 and 100 characters are wanted");
  return out;
}

/// What does not hold programs here (docs/security.md): because main.cf says so, or because the kernel cannot.
void check_confinement(const config::Settings& s, Report& report) {
  const confine::Offers offers = confine::kernel_offers();
  const auto off = [&](bool on, const char* name, const char* what) {
    if (!on) report.add(Severity::note, fmt::format("{} = no: {}", name, what));
  };
  off(s.confine_privileges, "confine_privileges", "a program that is taken over can gain rights by set-id files");
  off(s.confine_system_calls, "confine_system_calls", "a program that is taken over can start others");
  off(s.confine_files, "confine_files", "a program that is taken over can open all that mail_owner can");
  off(s.confine_limits, "confine_limits", "programs may leave core files");
  if (s.confine_files && offers.landlock == 0)
    report.add(Severity::note, "confine_files: this kernel has no Landlock: programs can open all that mail_owner can");
  if (s.confine_system_calls && !offers.filters)
    report.add(Severity::note, "confine_system_calls: this kernel has no filters: programs can make any system call");
}

void look(const std::string& config_directory, bool dns, Report& report) {
  auto config = config::inspect(config_directory);
  if (!config) return report.add(Severity::error, config.error().message());
  std::set<std::string> told;
  for (const auto& p : config->report()) {
    report.add(p);
    told.insert(p.name);
  }
  for (const auto& p : table_problems(*config)) report.add(p);
  const bool unreadable =
      std::ranges::any_of(config->problems(), [](const auto& p) { return p.severity == Severity::error; });
  if (unreadable) {  // no program could work with these settings
    report.add(Severity::note, "no further checks before these errors are put right");
    return;
  }
  const config::Settings& s = config->settings();
  for (const auto& m : mistakes(*config, {.dns = dns})) report.add(m.problem, m.advice);
  for (const auto& problem : tls_problems(*config)) report.add(Severity::warning, problem);
  for (const auto& fault : redis_faults(s)) report.add(Severity::error, fault);
  check_tables(*config, report);
  check_smtpd(*config, report);
  check_secrets(config->settings(), report);
  check_commands(*config, report);
  check_notices(*config, report);
  check_mailbox_limits(*config, report);
  check_config_file(config->main_file(), report);
  check_config_file(config->master_file(), report);
  check_accounts(s, report);
  check_confinement(s, report);
  check_directory("queue_directory", s.queue_directory, s, report);
  check_directory("data_directory", s.data_directory, s, report);
  const auto [programs, passed_over] = service::program_directory(*config);
  if (!passed_over.empty()) report.add(Severity::warning, passed_over);
  const auto machine = service::real_machine(programs);
  if (!machine.has_program("master")) {
    report.add(Severity::error, "the programs of Penstock are missing: " + programs + " holds no master");
  }
  const auto plan = service::make_plan(*config, machine);
  for (const auto& skipped : plan.skipped) {
    if (told.contains(skipped.label)) continue;
    report.add(Severity::note, "service " + skipped.label + " is not started: " + skipped.why);
  }
  if (!s.multi_instance_directories.empty())
    for (const auto& problem : conflicts(list_instances(*config))) report.add(problem);
}

}  // namespace

int check(const std::string& config_directory, const CheckOptions& options) {
  Report report(options.json ? Report::Form::json : Report::Form::text);
  look(config_directory, options.dns, report);
  return report.end();
}

std::vector<CheckFinding> check_findings(const std::string& config_directory, bool dns) {
  Report report(Report::Form::none);
  look(config_directory, dns, report);
  return std::move(report.all);
}

std::vector<std::string> faults(const config::Config& config) {
  std::vector<std::string> found;
  for (const auto& list : {config.report(), table_problems(config)}) {
    for (const auto& p : list) {
      if (p.severity == Severity::error) found.push_back(p.message());
    }
  }
  for (auto& fault : redis_faults(config.settings())) found.push_back(std::move(fault));
  return found;
}

}  // namespace pen::tools
