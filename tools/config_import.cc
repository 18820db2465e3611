#include "tools/config_import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ranges>
#include <sstream>

#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/config/edit.h"
#include "lib/config/edit_master.h"
#include "lib/config/findings.h"
#include "lib/config/restrictions.h"
#include "lib/map/build.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"
#include "tools/cyrus_check.h"
#include "tools/database_files.h"
#include "tools/open_relays.h"
#include "tools/output.h"
#include "tools/own_tables.h"
#include "tools/postsrsd.h"
#include "tools/service_faults.h"
#include "tools/socket_names.h"
#include "tools/tables.h"

namespace pen::tools {
namespace {
namespace fs = std::filesystem;
using config::Problem;
using config::Severity;

constexpr const char* kProgram = "penstock import";

// What the target's own main.cf says of its places and its accounts.
constexpr const char* kOwnSettings[] = {"queue_directory",        "data_directory",    "spool_directory",
                                        "queue_log_directory",    "daemon_directory",  "mail_owner",
                                        "setgid_group",           "maillog_file",      "maillog_file_prefixes",
                                        "queue_log_segment_size", "command_directory", "mail_spool_directory"};

Result<std::string> read_file(const std::string& path) {
  const std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno(path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return fail_errno(path, EIO);
  return text.str();
}

/// What Postfix or its package has made, and what it has for itself.
bool is_made(const std::string& name) {
  for (const char* end : {".db", ".lmdb", ".cdb", ".pag", ".dir", ".proto", ".dpkg-old", ".dpkg-dist", ".dpkg-new"})
    if (name.ends_with(end)) return true;
  for (const char* whole : {"main.cf", "master.cf", "dynamicmaps.cf", "makedefs.out", "post-install", "postfix-files",
                            "postfix-script", "LICENSE", "TLS_LICENSE"})
    if (name == whole) return true;
  return name.starts_with("dynamicmaps.cf.d/") || name.starts_with("postfix-files.d/");
}

constexpr std::uint64_t kMostOfRules = 1 << 20;  // of a file of patterns, which people write by hand

/// Whether a pattern of a regexp or pcre table has the name in it.
bool rules_name_postfix(std::string_view text) {
  for (const auto part : text | std::views::split('\n')) {
    const std::string_view line = trim(std::string_view(part.begin(), part.end()));
    const auto slash = line.find('/');
    const bool rule = slash == 0 || line.starts_with("!/") || istarts_with(line, "if");
    if (rule && slash != line.npos && line.substr(0, line.rfind('/')).contains("Postfix")) return true;
  }
  return false;
}

/// The master.cf that comes with Penstock.
Result<std::string> shipped_master() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error).parent_path();
  return read_file((self.parent_path() / "share/penstock/conf/master.cf").string());
}

}  // namespace

int ConfigImport::run() {
  const auto say = [](int status, const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", kProgram, what.c_str());
    return status;
  };
  std::error_code error;
  options_.from = fs::absolute(options_.from, error).lexically_normal().string();
  options_.to = fs::absolute(options_.to, error).lexically_normal().string();
  while (options_.from.size() > 1 && options_.from.ends_with('/')) options_.from.pop_back();
  while (options_.to.size() > 1 && options_.to.ends_with('/')) options_.to.pop_back();
  if (options_.from == options_.to) return say(EX_USAGE, "--from and --to are the same directory");
  exim_ = !fs::exists(options_.from + "/main.cf") && fs::exists(options_.from + "/update-exim4.conf.conf");
  if (auto read = exim_ ? read_exim() : read_postfix(); !read) return say(EX_NOINPUT, read.error().message());
  if (fs::exists(options_.to + "/main.cf")) {
    if (!options_.force && !options_.dry_run)
      return say(EX_CANTCREAT, options_.to + " holds a main.cf already: nothing was changed (--force replaces it)");
    if (auto kept = keep_own_settings(); !kept) return say(EX_CONFIG, kept.error().message());
  }
  if (options_.dry_run) {
    for (const File& f : files_)
      if (const auto text = read_file(options_.from + "/" + f.path)) tell_old_names(f.path, *text);
    const auto parse = [](const std::string& directory, const std::string& main, const std::string& master) {
      return config::Config::parse({directory, main, master, {}}, config::system_surroundings());
    };
    judge(parse(options_.to, main_.text, master_.text));
    // Files are where they are still.
    judge_tables(exim_ ? parse(options_.to, main_.text, master_.text)
                       : parse(options_.from, unmoved_main_, unmoved_master_));
    return report();
  }
  if (auto written = write(); !written) return say(EX_CANTCREAT, written.error().message());
  auto config = config::inspect(options_.to);
  if (!config) return say(EX_CONFIG, config.error().message());
  hand_over_secrets(*config);
  if (const int status = make_tables(); status != 0)
    cannot_.push_back("not every table could be made, as said above: penmap -c " + options_.to + " --all");
  judge(*config);
  judge_tables(*config);
  if (!nothing_starts_) judge_programs(*config);
  return report();
}

Result<void> ConfigImport::find_files() {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(options_.from, error); !error && it != fs::end(it);
       it.increment(error)) {
    const std::string path = fs::path(it->path()).lexically_relative(options_.from).string();
    const bool link = it->is_symlink(error), directory = !link && it->is_directory(error);
    if (directory || is_made(path)) continue;
    struct stat st{};
    if (::stat(it->path().c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;  // sockets, links to nowhere
    files_.push_back({path, static_cast<std::uint64_t>(st.st_size), st.st_mode & 07777U, link});
    bytes += files_.back().size;
    if (files_.size() > kMostFiles || bytes > kMostBytes)
      return fail_errno(fmt::format("{} holds more than {} files or {} bytes: is it a configuration directory?",
                                    options_.from, kMostFiles, kMostBytes),
                        E2BIG);
  }
  if (error) return fail_errno(options_.from, error.value());
  return {};
}

Result<void> ConfigImport::read_postfix() {
  PEN_TRY_ASSIGN(const std::string main, read_file(options_.from + "/main.cf"));
  std::string master;
  if (fs::exists(options_.from + "/master.cf")) {
    PEN_TRY_ASSIGN(master, read_file(options_.from + "/master.cf"));
  } else {
    PEN_TRY_ASSIGN(master, shipped_master());
    differs_.push_back(
        {.severity = Severity::warning,
         .file = options_.from + "/master.cf",
         .line = 0,
         .name = {},
         .text = "is not there: the one that comes with Penstock is used, as Postfix's package has one"});
  }
  PEN_TRY(find_files());
  Moved moved{.from = {options_.from}, .to = options_.to, .files = {}};
  if (options_.from != "/etc/postfix") moved.from.push_back("/etc/postfix");
  for (const auto& f : files_) moved.files.insert(f.path);
  AbsoluteSockets sockets = absolute_sockets({.main = main, .master = master, .directory = options_.from});
  postfix_queue_ = sockets.queue_directory;
  config::Problems ignored;
  made_sockets_ = sockets_of(config::parse_master_cf(master, "master.cf", ignored));
  std::ranges::move(sockets.changes, std::back_inserter(differs_));
  PEN_TRY_ASSIGN(main_, from_postfix_main(sockets.main, moved));
  PEN_TRY(take_postsrsd_over());
  PEN_TRY(keep_old_defaults(sockets.main, sockets.master));
  PEN_TRY(keep_name(sockets.main));
  if (options_.dry_run) {
    Moved nowhere = moved;
    nowhere.to = options_.from;
    PEN_TRY_ASSIGN(ForeignText unmoved, from_postfix_main(sockets.main, nowhere));
    unmoved_main_ = std::move(unmoved.text);
    unmoved_master_ = from_postfix_master(sockets.master, nowhere).text;
  }
  master_ = from_postfix_master(sockets.master, moved);
  if (master_.chrooted > 0)
    differs_.push_back({.severity = Severity::note,
                        .file = options_.from + "/master.cf",
                        .line = 0,
                        .name = "chroot",
                        .text = fmt::format("y is written as n in {} services: no program is confined to "
                                            "queue_directory",
                                            master_.chrooted)});
  PEN_TRY(keep_lenience(sockets.main, sockets.master));
  PEN_TRY(add_cyrus());
  dropped_ = main_.dropped;
  dropped_.insert(dropped_.end(), master_.dropped.begin(), master_.dropped.end());
  return {};
}

Result<void> ConfigImport::take_postsrsd_over() {
  // Beside the directory, where packages have them.
  const std::string etc = fs::path(options_.from).parent_path().string();
  PostsrsdFiles files;
  files.defaults = read_file(etc + "/default/postsrsd").value_or("");
  for (const char* name : {"/postsrsd.conf", "/postsrsd/postsrsd.conf"})
    if (files.conf.empty()) files.conf = read_file(etc + name).value_or("");
  const std::string name = "postsrsd.secret";
  PEN_TRY_ASSIGN(auto taken, take_postsrsd(main_.text, files, options_.to + "/" + name));
  if (!taken) return {};
  main_.text = std::move(taken->main_cf);
  std::ranges::move(taken->dropped, std::back_inserter(main_.dropped));
  if (auto secrets = read_file(taken->secrets_file))
    more_.emplace_back(name, *std::move(secrets));
  else
    cannot_.push_back(options_.to + "/" + name +
                      ": the secrets of postsrsd cannot be read: " + secrets.error().message());
  return {};
}

/// In Postfix smtpd asks Cyrus SASL itself; here a service of its own does.
Result<void> ConfigImport::add_cyrus() {
  const auto config = config::Config::parse({options_.to, main_.text, master_.text, {}}, config::system_surroundings());
  if (config::cyrus_applications(config).empty()) return {};
  PEN_TRY(move_cyrus_options(config));
  if (config::cyrus_socket(config)) return {};
  const std::string line = config::cyrus_line(config.master());
  for (std::string* text : {&master_.text, &unmoved_master_})
    if (!text->empty()) *text += "# Decides logins with Cyrus SASL: see cyrus(8).\n" + line + "\n";
  differs_.push_back({.severity = Severity::note,
                      .file = options_.from + "/master.cf",
                      .line = 0,
                      .name = "smtpd_sasl_type",
                      .text = "the line \"" + line + "\" is added: Cyrus SASL has a program of its own"});
  return {};
}

/// Copies the files in the directories of cyrus_sasl_config_path.
Result<void> ConfigImport::move_cyrus_options(const config::Config& config) {
  if (!config.where("cyrus_sasl_config_path")) return {};
  const auto moved_to = [&](const std::string& to) {
    std::vector<std::string> directories;
    for (const std::string_view part : split(config.settings().cyrus_sasl_config_path, ":")) {
      std::string directory(trim(part));
      for (const std::string& from : {options_.from, std::string("/etc/postfix")}) {
        if (!directory.starts_with(from + "/")) continue;
        const std::string below = directory.substr(from.size() + 1) + (directory.ends_with('/') ? "" : "/");
        if (std::ranges::any_of(files_, [&](const File& f) { return f.path.starts_with(below); })) {
          directory.replace(0, from.size(), to);
          break;
        }
      }
      directories.push_back(std::move(directory));
    }
    return std::vector<config::Edit>{
        {.kind = config::Edit::Kind::set, .name = "cyrus_sasl_config_path", .value = join(directories, ":")}};
  };
  PEN_TRY_ASSIGN(main_.text, config::edit_main_cf(main_.text, moved_to(options_.to)));
  if (!unmoved_main_.empty()) {
    PEN_TRY_ASSIGN(unmoved_main_, config::edit_main_cf(unmoved_main_, moved_to(options_.from)));
  }
  return {};
}

/// Programs without root's rights read the secrets.
void ConfigImport::hand_over_secrets(const config::Config& config) {
  const std::string path = options_.to + "/postsrsd.secret";
  if (::geteuid() != 0 || config.settings().srs_secrets_file != path || !fs::exists(path)) return;
  const passwd* owner = ::getpwnam(config.settings().mail_owner.c_str());
  if (owner == nullptr || ::chown(path.c_str(), owner->pw_uid, owner->pw_gid) != 0)
    cannot_.push_back(path + " must be readable for mail_owner (" + config.settings().mail_owner + ")");
}

Result<void> ConfigImport::read_exim() {
  EximFiles files;
  PEN_TRY_ASSIGN(files.conf, read_file(options_.from + "/update-exim4.conf.conf"));
  // Beside the directory, where Debian has them.
  const std::string etc = fs::path(options_.from).parent_path().string();
  files.mailname = read_file(etc + "/mailname").value_or("");
  files.addresses = read_file(etc + "/email-addresses").value_or("");
  files.passwd_client = read_file(options_.from + "/passwd.client").value_or("");
  if (fs::exists(etc + "/aliases")) files.aliases = etc + "/aliases";
  PEN_TRY_ASSIGN(EximConfig found, from_exim(files, options_.to));
  main_.text = "# From " + options_.from + "/update-exim4.conf.conf.\n";
  for (const auto& [name, value] : found.settings) main_.text += name + (value.empty() ? " =" : " = " + value) + "\n";
  PEN_TRY_ASSIGN(master_.text, shipped_master());
  if (!found.passwords.empty()) more_.emplace_back("sasl_passwd", found.passwords);
  if (!found.generic.empty()) more_.emplace_back("generic", found.generic);
  dropped_ = found.dropped;
  for (const char* own : {"exim4.conf", "exim4.conf.localmacros"})
    if (fs::exists(options_.from + "/" + own))
      cannot_.push_back(options_.from + "/" + own + " is not read: it is written in Exim's own language");
  return {};
}

Result<void> ConfigImport::keep_own_settings() {
  PEN_TRY_ASSIGN(const std::string own, read_file(options_.to + "/main.cf"));
  config::Problems ignored;
  std::vector<config::Edit> edits;
  for (const auto& a : config::parse_main_cf(own, "main.cf", ignored))
    if (std::ranges::find(kOwnSettings, a.name) != std::end(kOwnSettings))
      edits.push_back({.kind = config::Edit::Kind::set, .name = a.name, .value = a.value});
  PEN_TRY_ASSIGN(main_.text, config::edit_main_cf(main_.text, edits));
  return {};
}

Result<void> ConfigImport::put(const std::string& name, const std::string& text, unsigned mode) {
  return map::replace_file(options_.to + "/" + name, mode, [&](const std::string& fresh) -> Result<void> {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) return fail_errno(name, EIO);
    return {};
  });
}

Result<void> ConfigImport::copy(const File& file) {
  const std::string from = options_.from + "/" + file.path, to = options_.to + "/" + file.path;
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (error) return fail_errno(to, error.value());
  PEN_TRY_ASSIGN(const std::string text, read_file(from));
  tell_old_names(file.path, text);
  PEN_TRY(put(file.path, text, file.mode));
  struct stat st{};
  if (::geteuid() == 0 && ::stat(from.c_str(), &st) == 0 && ::lchown(to.c_str(), st.st_uid, st.st_gid) != 0)
    return fail_errno(to);
  return {};
}

/// An :include: or a command of an alias: what a table says is copied as it is.
void ConfigImport::tell_old_names(const std::string& file, const std::string& text) {
  int number = 0;
  bool told = false;
  for (const auto line : std::string_view(text) | std::views::split('\n')) {
    ++number;
    const std::string_view content(line.begin(), line.end());
    if (trim(content).starts_with('#')) continue;
    tell_sockets(file, number, content);
    for (const std::string& from : {options_.from, std::string("/etc/postfix")}) {
      if (told || !content.contains(from + "/")) continue;
      told = true;
      differs_.push_back({.severity = Severity::note,
                          .file = options_.to + "/" + file,
                          .line = number,
                          .name = {},
                          .text = "names a file in " + from + ": it is read there, so that this directory must stay"});
    }
  }
}

/// A transport or a filter in a table, with a socket below Postfix's queue directory.
void ConfigImport::tell_sockets(const std::string& file, int line, std::string_view text) {
  for (const SocketName& socket : socket_names(text)) {
    if (postfix_queue_.empty() || socket.path.starts_with('/') || made_sockets_.contains(socket.path)) continue;
    cost_mail_.push_back({.severity = Severity::warning,
                          .file = options_.to + "/" + file,
                          .line = line,
                          .name = {},
                          .text = fmt::format("the socket {0} is below Postfix's queue directory: write {1}/{0}",
                                              printable(socket.path, 100), postfix_queue_)});
    differs_.push_back(cost_mail_.back());
  }
}

Result<void> ConfigImport::write() {
  std::error_code error;
  fs::create_directories(options_.to, error);
  if (error) return fail_errno(options_.to, error.value());
  for (const char* name : {"main.cf", "master.cf"}) {
    if (!fs::exists(options_.to + "/" + name)) continue;
    PEN_TRY_ASSIGN(const std::string before, read_file(options_.to + "/" + name));
    PEN_TRY(put(std::string(name) + ".before-import", before, 0644));
  }
  if (!exim_)
    for (const File& f : files_) PEN_TRY(copy(f));
  for (const auto& [name, text] : more_)
    PEN_TRY(put(name, text, name == "sasl_passwd" || name == "postsrsd.secret" ? 0600 : 0644));
  PEN_TRY(put("master.cf", master_.text, 0644));
  return put("main.cf", main_.text, 0644);
}

int ConfigImport::make_tables() {
  std::error_code error;
  const std::string tool = (fs::read_symlink("/proc/self/exe", error).parent_path() / "penmap").string();
  std::vector<std::string> words = {tool, "-c", options_.to, "--all"};
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // our output may be JSON
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, tool.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    std::fprintf(stderr, "%s: %s: %s\n", kProgram, tool.c_str(), Error::from_errno(failed).message().c_str());
    return failed;
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// A file that sets no level goes on with the defaults that it had in Postfix, which are those of level 0.
Result<void> ConfigImport::keep_old_defaults(const std::string& main, const std::string& master) {
  const auto config = config::Config::parse({options_.from, main, master, {}}, config::system_surroundings());
  const bool unset = !config.where("compatibility_level");
  const auto below = config.expand("${{$compatibility_level} <level {1} ? {yes} : {no}}");
  if (!unset && (!below || *below != "yes")) return {};
  std::vector<config::Edit> edits;
  const auto set = [&](const char* name, const char* value, std::string why) {
    edits.push_back({.kind = config::Edit::Kind::set, .name = name, .value = value});
    differs_.push_back({.severity = Severity::note,
                        .file = options_.from + "/main.cf",
                        .line = 0,
                        .name = name,
                        .text = std::move(why)});
  };
  if (unset) {
    std::string differ;
    for (const auto& old : config::old_defaults(config))
      if (config::find_row(old.name) != nullptr && old.name != "smtpd_relay_restrictions")
        differ += (differ.empty() ? ": " : ", ") + old.name + " " + (old.there.empty() ? "empty" : old.there);
    set("compatibility_level", "0", "is not set, and is written as 0: what Postfix takes then goes on" + differ);
  }
  // At this level Postfix has no smtpd_relay_restrictions, so that what the other list lets through is relayed.
  const auto items = config.list("smtpd_recipient_restrictions").value_or(std::vector<std::string>());
  if (config::refuses_relaying(config, items) && !config.where("smtpd_relay_restrictions"))
    set("smtpd_relay_restrictions", "",
        "is not set, and is written as empty, as it is in Postfix below compatibility_level 1: "
        "smtpd_recipient_restrictions alone decides who may relay");
  PEN_TRY_ASSIGN(main_.text, config::edit_main_cf(main_.text, edits));
  return {};
}

/// Since 3.9 Postfix excepts its own networks from the rules for line ends, and its master.cf the submission services
/// from those for commands ahead of their turn, which Thunderbird's search for servers sends. Before, nobody was held
/// to them.
Result<void> ConfigImport::keep_lenience(const std::string& main, const std::string& master) {
  constexpr const char* kExclusions = "smtpd_forbid_bare_newline_exclusions";
  constexpr const char* kAhead = "smtpd_forbid_unauth_pipelining";
  const auto config = config::Config::parse({options_.from, main, master, {}}, config::system_surroundings());
  const auto say = [&](const char* file, std::string name, std::string text) {
    differs_.push_back({.severity = Severity::note,
                        .file = options_.from + file,
                        .line = 0,
                        .name = std::move(name),
                        .text = std::move(text)});
  };
  if (!config.where(kExclusions)) {
    const std::vector<config::Edit> edit{
        {.kind = config::Edit::Kind::set, .name = kExclusions, .value = "$mynetworks"}};
    for (std::string* text : {&main_.text, &unmoved_main_}) {
      if (text->empty()) continue;
      PEN_TRY_ASSIGN(*text, config::edit_main_cf(*text, edit));
    }
    say("/main.cf", kExclusions,
        "is written as $mynetworks, as in Postfix since 3.9: devices there may end lines and messages by LF. From "
        "other "
        "clients a message ends by CRLF.CRLF alone");
  }
  if (config.where(kAhead)) return {};
  std::vector<config::ServiceEdit> edits;
  std::string names;
  for (const auto& service : config.master()) {
    const std::string_view port = std::string_view(service.name).substr(service.name.rfind(':') + 1);
    const bool submission =
        service.type == config::ServiceType::inet && service.command == "smtpd" &&
        (port == "submission" || port == "submissions" || port == "smtps" || port == "587" || port == "465");
    if (!submission ||
        std::ranges::find(service.overrides, kAhead, &config::Assignment::name) != service.overrides.end())
      continue;
    names += (names.empty() ? "" : ", ") + service.name;
    edits.push_back({.kind = config::Edit::Kind::set,
                     .of = config::ServiceEdit::Of::setting,
                     .name = service.name,
                     .type = "inet",
                     .part = kAhead,
                     .value = "no"});
  }
  if (edits.empty()) return {};
  PEN_TRY_ASSIGN(auto done, config::edit_master_cf(master_.text, edits));
  master_.text = std::move(done.text);
  say("/master.cf", kAhead,
      "is written as no for " + names +
          ", as Postfix's own master.cf has it since 3.9: some mail programs send "
          "commands ahead of their turn when they look for a server");
  return {};
}

/// Rules that know Received: by Postfix's name, most of which hide where a user's mail came from, go on to match.
Result<void> ConfigImport::keep_name(const std::string& main) {
  config::Problems ignored;
  const auto settings = config::parse_main_cf(main, "main.cf", ignored);
  if (std::ranges::find(settings, "mail_name", &config::Assignment::name) != settings.end()) return {};
  std::string where;
  for (const auto& a : settings)
    if (a.value.contains("Postfix") && (a.value.contains("regexp:{") || a.value.contains("pcre:{"))) where = a.name;
  for (const File& f : files_) {
    if (!where.empty()) break;
    if (f.size > kMostOfRules) continue;
    const auto text = read_file(options_.from + "/" + f.path);
    if (text && rules_name_postfix(*text)) where = f.path;
  }
  if (where.empty()) return {};
  const std::vector<config::Edit> name{{.kind = config::Edit::Kind::set, .name = "mail_name", .value = "Postfix"}};
  PEN_TRY_ASSIGN(main_.text, config::edit_main_cf(main_.text, name));
  differs_.push_back({.severity = Severity::note,
                      .file = options_.from + "/main.cf",
                      .line = 0,
                      .name = "mail_name",
                      .text = "is written as Postfix: rules in " + where +
                              " look for this name, which stands in Received: and in notices"});
  return {};
}

void ConfigImport::judge(const config::Config& config) {
  config::Findings found = config::findings(config);
  nothing_starts_ =
      std::ranges::any_of(config.problems(), [](const Problem& p) { return p.severity == Severity::error; });
  judge_names(config, found.without_effect);
  std::ranges::move(found.all, std::back_inserter(differs_));
  std::ranges::move(found.cost_mail, std::back_inserter(cost_mail_));
  // Of servers that Postfix was connected to, and of databases that its account could read. Until they are there for
  // ours, mail waits and nobody logs in.
  auto waits = socket_problems(config);
  std::ranges::move(database_file_problems(config), std::back_inserter(waits));
  for (Problem& p : waits) {
    if (p.file == config.main_file() || p.file == config.master_file())
      p.file.replace(0, config.directory().size(), options_.to);
    differs_.push_back(p);
    cost_mail_.push_back(std::move(p));
  }
}

/// Each name that is set is in one of the lists, if only because something is said of it.
void ConfigImport::judge_names(const config::Config& config, const std::set<std::string, std::less<>>& without_effect) {
  const auto said = config.report();
  for (const auto& name : config.names_set()) {
    if (without_effect.contains(name)) continue;
    const config::Row* row = config::find_row(name);
    const bool told = std::ranges::any_of(said, [&](const Problem& p) { return p.name == name; });
    if (row != nullptr ? row->kind == config::Class::acts : !told)
      acts_.push_back(name);  // also a transport's own, and names that other values refer to
    else if (!told)
      idle_.push_back(name);
  }
}

/// What the programs say at their start of what no other judgement has seen.
void ConfigImport::judge_programs(const config::Config& config) {
  const std::string& programs = config.settings().daemon_directory;
  const auto plan = service::make_plan(config, service::real_machine(programs));
  for (const ServiceFault& fault : service_faults(config, plan, programs)) {
    const bool known = std::ranges::any_of(differs_, [&](const Problem& p) { return fault.text.contains(p.text); });
    if (fault.used && !known)
      differs_.push_back({.severity = Severity::error,
                          .file = options_.to + "/master.cf",
                          .line = 0,
                          .name = fault.service,
                          .text = "will not start: " + fault.text});
  }
}

void ConfigImport::judge_tables(const config::Config& config) {
  for (const OpenRelay& relay : open_relays(config)) {
    open_relay_ = open_relay_ || relay.severity == Severity::error;
    const bool of_service = relay.service != nullptr;
    const auto place = config.where(relay.setting);
    differs_.push_back({.severity = relay.severity,
                        .file = options_.to + (of_service ? "/master.cf" : "/main.cf"),
                        .line = of_service ? relay.service->line
                                : place    ? place->line
                                           : 0,
                        .name = relay.setting,
                        .text = relay.what + "; write: " + relay.advice});
  }
  const auto tables = own_tables(config);
  for (Problem p : table_problems(config)) {
    if (p.file == config.main_file() || p.file == config.master_file())  // reported for the files that would be written
      p.file.replace(0, config.directory().size(), options_.to);
    // Nothing is made in a dry run, but what has a text would be.
    const bool would_be_made = options_.dry_run && std::ranges::any_of(tables, [&](const OwnTable& table) {
                                 return table.has_text() && p.text.contains(table.file());
                               });
    if (!would_be_made) differs_.push_back(std::move(p));
  }
  for (Problem p : cyrus_problems(config, this_sasl_machine())) {
    if (p.file == config.main_file()) p.file = options_.to + "/main.cf";
    differs_.push_back(std::move(p));
  }
  for (const OwnTable& table : tables) {
    if (table.is_made() || (options_.dry_run && table.has_text())) continue;
    const std::string old = table.text + ".db";
    cannot_.push_back(table.has_text() ? table.file() + " is not made"
                      : fs::exists(old)
                          ? table.text + " is not there, only " + old +
                                ", which is not read here: write its text with postmap -s " + table.type + ":" +
                                table.text + " > " + table.text + " while Postfix is installed, then penmap " +
                                table.type + ":" + table.text
                          : table.text + " is not there");
  }
}

/// What the report comes to, with what costs mail although every program starts.
std::string ConfigImport::verdict() const {
  const bool errors = std::ranges::any_of(differs_, [](const auto& p) { return p.severity == Severity::error; });
  if (nothing_starts_) return "Mail will not flow: no program starts before the errors above are put right.";
  if (open_relay_) return "Strangers could send to everybody through this host: see the errors above.";
  std::string what = errors             ? "Some mail would be refused or would wait: see the errors above."
                     : !cannot_.empty() ? "Some mail would be refused or would wait: see what could not be done above."
                     : cost_mail_.empty() ? fmt::format("Mail will flow. Next: penstock -c {} check", options_.to)
                                          : "Mail will flow, but not all of it:";
  if ((errors || !cannot_.empty()) && !cost_mail_.empty()) what += " Also:";
  for (const Problem& p : cost_mail_) what += "\n  " + p.message();
  return what;
}

int ConfigImport::report() {
  const bool errors = std::ranges::any_of(differs_, [](const auto& p) { return p.severity == Severity::error; });
  const bool loses = errors || !cannot_.empty() || !cost_mail_.empty();
  static constexpr const char* kWords[] = {"error", "warning", "note"};
  if (options_.json) {
    nlohmann::ordered_json j;
    j["from"] = options_.from;
    j["to"] = options_.to;
    j["mail_will_flow"] = !loses;
    j["verdict"] = verdict();
    j["acts"] = acts_;
    j["as_it_is_anyway"] = idle_;
    j["differs"] = nlohmann::ordered_json::array();
    for (const auto& p : differs_) {
      nlohmann::ordered_json one;
      one["level"] = kWords[static_cast<int>(p.severity)];
      if (!p.file.empty()) one["file"] = p.file;
      if (p.line > 0) one["line"] = p.line;
      if (!p.name.empty()) one["setting"] = p.name;
      one["text"] = p.text;
      j["differs"].push_back(std::move(one));
    }
    j["left_out"] = nlohmann::ordered_json::array();
    for (const auto& d : dropped_) j["left_out"].push_back({{"name", d.what}, {"why", d.why}});
    j["could_not"] = cannot_;
    print(j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return loses ? kLoses : EX_OK;
  }
  print(fmt::format("{} -> {}{}\n", options_.from, options_.to, options_.dry_run ? " (nothing is written)" : ""));
  print(fmt::format("\nActs as it stands: {} settings.\n", acts_.size()));
  print("\nDifferent here:\n");
  for (const auto& p : differs_) print(fmt::format("  {}: {}\n", kWords[static_cast<int>(p.severity)], p.message()));
  for (const auto& d : dropped_) print(fmt::format("  left out: {}: {}\n", d.what, printable(d.why)));
  if (differs_.empty() && dropped_.empty()) print("  nothing\n");
  print("\nCould not be done:\n");
  for (const auto& what : cannot_) print("  " + what + "\n");
  if (cannot_.empty()) print("  nothing to do by hand\n");
  print("\n" + verdict() + "\n");
  return loses ? kLoses : EX_OK;
}

}  // namespace pen::tools
