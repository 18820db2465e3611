#include "tools/check.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/config/key_process.h"
#include "lib/config/transport_use.h"
#include "lib/map/match_list.h"
#include "lib/meaning/bounce/from_config.h"
#include "lib/meaning/smtp/from_config.h"
#include "lib/meaning/smtp/tls.h"
#include "lib/meaning/smtpd/policy.h"
#include "lib/meaning/smtpd/tls.h"
#include "lib/net/redis/server.h"
#include "lib/queue/shaping/rules_file.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/send/egress/setup.h"
#include "lib/send/mailbox/limits.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/service/lease_place.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"
#include "lib/trust/signing/sealing.h"
#include "tools/cyrus_check.h"
#include "tools/database_files.h"
#include "tools/finding_place.h"
#include "tools/host_addresses.h"
#include "tools/instances.h"
#include "tools/mistakes.h"
#include "tools/own_tables.h"
#include "tools/service_commands.h"
#include "tools/service_faults.h"
#include "tools/socket_names.h"
#include "tools/tables.h"

namespace pen::tools {
namespace {

using config::Problem;
using config::Severity;

constexpr int kMostStops = 20;  // settings with which a service will not start
constexpr const char* kWords[] = {"error", "warning", "note"};

/// What was found, printed as it comes, as one JSON document at the end, or only gathered.
class Report {
 public:
  enum class Form { text, json, none };
  explicit Report(Form form) : form_(form) {}

  void add(Severity severity, const std::string& text) { add(Problem{severity, {}, 0, {}, text}, {}); }
  void add(Problem p, const std::string& advice = {}) {
    fatal = fatal || p.severity == Severity::error;
    ++lines;
    said_.push_back(p.text);
    const std::string setting = put_in_place(p);
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
    if (!setting.empty()) one["setting"] = setting;
    one["text"] = p.text;
    if (!advice.empty()) one["advice"] = advice;
    found_.push_back(std::move(one));
  }
  /// From now on findings that name no file get the place of what they are about.
  void know(const config::Config& config) { config_ = config; }
  /// Whether this was reported, perhaps with its place and advice: then a program that says the same adds nothing.
  bool said(std::string_view text) const {
    return std::ranges::any_of(said_, [&](const std::string& one) { return one.starts_with(text); });
  }
  /// Whether it was reported as a part of a sentence.
  bool mentioned(std::string_view text) const {
    return std::ranges::any_of(said_, [&](const std::string& one) { return one.contains(text); });
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
  /// Returns the setting that is concerned. Where the sentence names it, the name is not put before it once more.
  std::string put_in_place(Problem& p) const {
    if (!p.file.empty() || !config_) return p.name;
    const auto at = finding_place(*config_, p.text);
    if (!at) return p.name;
    p.file = at->place.file;
    p.line = at->place.line;
    return at->setting;
  }

  Form form_;
  std::optional<config::Config> config_;
  std::vector<std::string> said_;
  nlohmann::ordered_json found_ = nlohmann::ordered_json::array();
};

void check_accounts(const config::Settings& s, Report& report) {
  if (::geteuid() != 0) {
    report.add(Severity::note,
               "not run by root: the mail system runs as this user and delivers to this user's mailboxes only");
    return;
  }
  if (auto owner = service::mail_owner(s); !owner) {
    report.add(Severity::error, owner.error().message() + ": make it with scripts/accounts, or set mail_owner");
  }
  if (const auto owners = service::wanted_owners(s); !owners) {
    if (service::mail_owner(s))
      report.add(Severity::error, owners.error().message() + ": make it with scripts/accounts, or set queue_owner");
  } else if (!owners->apart()) {
    report.add(Severity::note, fmt::format("the queue belongs to mail_owner {}, so each program that is taken over can "
                                           "open it where the kernel does not hinder it: make the account {} "
                                           "(scripts/accounts), and start anew",
                                           s.mail_owner, service::kQueueOwner));
  } else if (const auto now = service::owners(s); now && !now->apart()) {
    report.add(Severity::note, fmt::format("the queue belongs to mail_owner {} still: the next start gives it to "
                                           "queue_owner",
                                           s.mail_owner));
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

/// What smtpd would say at the start of each service that runs it: why it will not start, or what it ignores.
void check_smtpd(const config::Config& config, Report& report) {
  std::set<std::string> told;  // each fault once, however many services have it
  const auto say = [&](Severity severity, const std::string& text) {
    if (!report.said(text) && told.insert(text).second) report.add(severity, text);
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
    // What an error names is put at its default, so that what is behind it is reported too.
    config::Config usual = own;
    auto policy = smtpd::Policy::open_policy(usual, *resolve);
    for (int more = kMostStops; !policy && more > 0; --more) {
      stops(policy.error());
      const config::Row* row = setting_named_by(usual, policy.error().message());
      if (row == nullptr) break;
      usual = usual.with({config::Override{std::string(row->name), std::string(row->default_text)}});
      policy = smtpd::Policy::open_policy(usual, *resolve);
    }
    if (policy)
      for (const auto& warning : (*policy)->warnings) say(Severity::warning, warning);
    auto intake = intake::from_settings(s);
    if (!intake) stops(intake.error());
    if (intake)
      for (const auto& warning : intake->warnings) say(Severity::warning, warning);
    if (const auto sealing = signing::Sealing::open(s); !sealing)
      stops(sealing.error());
    else if (*sealing)
      if (const std::string warning = (*sealing)->warning(); !warning.empty()) say(Severity::warning, warning);
    if (!smtpd::AuthPolicy::available(s)) continue;
    if (auto at = smtpd::AuthPolicy::service(own); !at) stops(at.error());
  }
}

/// What the programs of all services would end with at their start, if nothing above has said it.
void check_services(const config::Config& config, const service::Plan& plan, const std::string& programs,
                    Report& report) {
  for (const ServiceFault& fault : service_faults(config, plan, programs)) {
    if (report.mentioned(fault.text)) continue;
    report.add(fault.used ? Severity::error : Severity::note,
               "service " + fault.service +
                   (fault.used ? " will not start: " : " would not start if mail came for it: ") + fault.text);
  }
}

/// The programs read it as mail_owner; this check runs as root, which can read everything.
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

/// Tables that are not made from their text yet, as after a change from Postfix, where files have another form.
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
  const auto problems = [](const config::Config& own, const std::string& program) {
    if (program == "smtpd") return smtpd::ServerTls::problems(own);
    smtp::ClientTls tls(smtp::settings_from(own.settings(), program == "lmtp").tls, system_clock());
    return tls.problems();
  };
  for (const auto& service : config.master()) {
    if (service.command != "smtpd" && service.command != "smtp" && service.command != "lmtp") continue;
    // What a problem names is put at its default, so that what is behind it is reported too.
    config::Config own = config.with(service);
    for (int more = kMostStops; more > 0; --more) {
      std::vector<config::Override> usual;
      for (const std::string& problem : problems(own, service.command)) {
        if (!found.insert(problem).second) continue;
        const auto at = finding_place(own, problem);
        if (const config::Row* row = at ? config::find_row(at->setting) : nullptr)
          usual.push_back({std::string(row->name), std::string(row->default_text)});
      }
      if (usual.empty()) break;
      own = own.with(usual);
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
    out.push_back("destdb_unshared_networks: this type of table may wait for others, which the queue manager cannot");
  if (s.destdb_redis_prefix.empty() || s.destdb_redis_prefix.size() > 100)
    out.push_back("destdb_redis_prefix: between 1 and 100 characters are wanted");
  return out;
}

/// What keeps the queue manager from starting with these sources.
std::vector<std::string> source_faults(const config::Settings& s) {
  map::OpenOptions tables;
  tables.default_type = s.default_database_type;
  return egress::read_setup(s, egress::read_sources_file(s), tables).faults;
}

void check_lease(const config::Settings& s, Report& report) {
  if (s.standby_lease != config::StandbyLease::file) return;
  if (const std::string doubt = service::doubt_of_lock(s.queue_directory, s.standby_lease_time); !doubt.empty())
    report.add(Severity::warning, doubt);
}

void check_sources(const config::Settings& s, Report& report) {
  for (const auto& fault : source_faults(s)) report.add(Severity::error, fault);
  const auto [setup, faults] = egress::read_setup(s, egress::read_sources_file(s));
  for (const auto& strange : egress::strange_addresses(s, setup->file)) report.add(Severity::warning, strange);
  if (!setup->file.sources.empty() && !setup->in_use())
    report.add(Severity::note,
               "egress_sources_file: no mail is sent from its sources: neither default_egress_pool nor "
               "egress_pool_maps names a pool");
  struct stat st{};
  const bool secret = std::ranges::any_of(setup->file.sources, [](const auto& x) { return !x.proxy.password.empty(); });
  if (secret && ::stat(s.egress_sources_file.c_str(), &st) == 0 && (st.st_mode & S_IROTH) != 0)
    report.add(Severity::warning, s.egress_sources_file + " has passwords of proxies and can be read by everyone");
}

/// What the queue manager cannot use of shaping (docs/shaping.md). An error: it would not start.
void check_shaping(const config::Settings& s, Report& report) {
  shaping::Rules rules;
  for (const std::string& file : s.shaping_rules_files)
    if (auto read = shaping::read_rules_file(file, rules); !read)
      report.add(Severity::warning, "shaping_rules_files: " + read.error().message() + ": nothing of this file counts");
  if (auto limits = map::MapList::open(join(s.delivery_limit_maps, ", "), {}); limits && limits->blocking())
    report.add(Severity::error,
               "delivery_limit_maps: this type of table may wait for others, which the queue manager cannot");
}

/// What does not hold programs here (docs/security.md): because main.cf says so, or because the kernel cannot.
void check_confinement(const config::Config& config, Report& report) {
  const config::Settings& s = config.settings();
  const confine::Offers offers = confine::kernel_offers();
  const auto off = [&](bool on, const char* name, const char* what) {
    if (!on) report.add(Severity::note, fmt::format("{} = no: {}", name, what));
  };
  off(s.confine_privileges, "confine_privileges", "a program that is taken over can gain rights by set-id files");
  off(s.confine_system_calls, "confine_system_calls", "a program that is taken over can start others");
  off(s.confine_files, "confine_files", "a program that is taken over can open all that mail_owner can");
  off(s.confine_limits, "confine_limits", "programs may leave core files");
  if (confine::events_in_data(s))
    report.add(
        Severity::warning,
        "event_log_file or event_accounting_file stands in data_directory itself: programs can rename there what "
        "others keep, and penevents can change it; name a directory below it");
  if (s.confine_files && offers.landlock == 0)
    report.add(Severity::note, "confine_files: this kernel has no Landlock: programs can open all that mail_owner can");
  if (s.confine_system_calls && !offers.filters)
    report.add(Severity::note, "confine_system_calls: this kernel has no filters: programs can make any system call");
  // These drop root's rights whatever the column says.
  static constexpr std::array kHelped = {"local", "virtual", "pipe", "spawn"};
  for (const auto& service : config.master()) {
    if (service.unprivileged || std::ranges::find(kHelped, service.command) != kHelped.end()) continue;
    report.add(Severity::note, fmt::format("service {}: column unpriv is n: who takes {} over is root", service.label(),
                                           service.command));
  }
}

/// Where private keys are not held by a process of their own (docs/keys.md).
void check_keys(const config::Config& config, Report& report) {
  const config::Settings& s = config.settings();
  if (config::key_socket(config)) return;
  report.add(Severity::note,
             !s.tls_key_process
                 ? "tls_key_process = no: smtpd, smtp and whatever signs with DKIM read private keys themselves"
                 : fmt::format("master.cf has no line \"{0} unix - - n - - {1}\": smtpd, smtp and whatever signs with "
                               "DKIM read private keys themselves",
                               s.tls_key_service_name, config::kKeyProgram));
}

/// A copy in which what is set and cannot be read has its default.
config::Config with_defaults(const config::Config& config) {
  std::vector<config::Override> usual;
  for (const Problem& p : config.problems()) {
    const config::Row* row = config::find_row(p.name);
    if (p.severity == Severity::error && row != nullptr && config.where(p.name))
      usual.push_back({p.name, std::string(row->default_text)});
  }
  return config.with(usual);
}

void look(const std::string& config_directory, bool dns, Report& report) {
  auto config = config::inspect(config_directory);
  if (!config) return report.add(Severity::error, config.error().message());
  report.know(*config);
  std::set<std::string> told;
  for (const auto& p : config->report()) {
    report.add(p);
    told.insert(p.name);
  }
  for (const auto& p : table_problems(*config, config::Severity::error)) report.add(p);
  // No program would work with these, so that what else is wrong is looked for with their defaults.
  const bool unreadable =
      std::ranges::any_of(config->problems(), [](const auto& p) { return p.severity == Severity::error; });
  if (unreadable) {
    report.add(Severity::note, "what cannot be read has its default for the further checks");
    config = with_defaults(*config);
  }
  const config::Settings& s = config->settings();
  for (const auto& m : mistakes(*config, {.dns = dns})) report.add(m.problem, m.advice);
  for (const auto& problem : tls_problems(*config)) report.add(Severity::warning, problem);
  for (const auto& fault : redis_faults(s)) report.add(Severity::error, fault);
  check_sources(s, report);
  check_lease(s, report);
  check_shaping(s, report);
  check_tables(*config, report);
  for (const auto& problem : socket_problems(*config)) report.add(problem);
  for (const auto& problem : database_file_problems(*config)) report.add(problem);
  for (const auto& problem : cyrus_problems(*config, this_sasl_machine())) report.add(problem);
  check_smtpd(*config, report);
  check_secrets(config->settings(), report);
  for (const auto& problem : command_problems(*config)) report.add(problem);
  check_notices(*config, report);
  check_mailbox_limits(*config, report);
  check_config_file(config->main_file(), report);
  check_config_file(config->master_file(), report);
  check_accounts(s, report);
  check_confinement(*config, report);
  check_keys(*config, report);
  check_directory("queue_directory", s.queue_directory, s, report);
  check_directory("data_directory", s.data_directory, s, report);
  const std::string& programs = s.daemon_directory;
  const auto machine = service::real_machine(programs);
  if (!machine.has_program("master")) {
    report.add(Severity::error, "the programs of Penstock are missing: " + programs + " holds no master");
  }
  const auto plan = service::make_plan(*config, machine);
  check_services(*config, plan, programs, report);
  for (const auto& problem : foreign_addresses(*config, plan, this_host())) report.add(problem);
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

Faults faults(const config::Config& config) {
  Faults found;
  for (const auto& p : config.report())
    if (p.severity == Severity::error) found.errors.push_back(p.message());
  for (const auto& p : table_problems(config))
    (p.severity == Severity::error ? found.errors : found.warnings).push_back(p.message());
  for (auto& fault : redis_faults(config.settings())) found.errors.push_back(std::move(fault));
  for (auto& fault : source_faults(config.settings())) found.errors.push_back(std::move(fault));
  return found;
}

}  // namespace pen::tools
