#include "tools/config_import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/text.h"
#include "lib/config/edit.h"
#include "lib/map/build.h"
#include "tools/output.h"
#include "tools/own_tables.h"
#include "tools/tables.h"

namespace pen::tools {
namespace {
namespace fs = std::filesystem;
using config::Severity;

constexpr const char* kProgram = "penstock import";

// What the target's own main.cf says of where it lives and who it is.
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
    judge(config::Config::parse({options_.to, main_.text, master_.text, {}}, config::system_surroundings()), false);
    return report();
  }
  if (auto written = write(); !written) return say(EX_CANTCREAT, written.error().message());
  auto config = config::inspect(options_.to);
  if (!config) return say(EX_CONFIG, config.error().message());
  if (const int status = make_tables(); status != 0)
    cannot_.push_back("not every table could be made, as said above: penmap -c " + options_.to + " --all");
  judge(*config, true);
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
    cannot_.push_back("there is no master.cf in " + options_.from + ": Penstock's own is used");
  }
  PEN_TRY(find_files());
  Moved moved{.from = {options_.from}, .to = options_.to, .files = {}};
  if (options_.from != "/etc/postfix") moved.from.push_back("/etc/postfix");
  for (const auto& f : files_) moved.files.insert(f.path);
  PEN_TRY_ASSIGN(main_, from_postfix_main(main, moved));
  master_ = from_postfix_master(master, moved);
  dropped_ = main_.dropped;
  dropped_.insert(dropped_.end(), master_.dropped.begin(), master_.dropped.end());
  return {};
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
    if (!out) return fail_errno(fresh, EIO);
    return {};
  });
}

Result<void> ConfigImport::copy(const File& file) {
  const std::string from = options_.from + "/" + file.path, to = options_.to + "/" + file.path;
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (error) return fail_errno(to, error.value());
  PEN_TRY_ASSIGN(const std::string text, read_file(from));
  PEN_TRY(put(file.path, text, file.mode));
  struct stat st{};
  if (::geteuid() == 0 && ::stat(from.c_str(), &st) == 0 && ::lchown(to.c_str(), st.st_uid, st.st_gid) != 0)
    return fail_errno(to);
  return {};
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
  for (const auto& [name, text] : more_) PEN_TRY(put(name, text, name == "sasl_passwd" ? 0600 : 0644));
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

void ConfigImport::judge(const config::Config& config, bool tables) {
  for (const auto& name : config.names_set()) {
    const config::Row* row = config::find_row(name);
    if (row != nullptr && row->kind == config::Class::acts) acts_.push_back(name);
  }
  for (const auto& p : config.report()) differs_.push_back(p);
  if (!tables) return;
  for (const auto& p : table_problems(config)) differs_.push_back(p);
  for (const OwnTable& table : own_tables(config)) {
    if (table.is_made()) continue;
    const std::string old = table.text + ".db";
    cannot_.push_back(table.has_text() ? table.file() + " is not made"
                      : fs::exists(old)
                          ? table.text + " is not there, only " + old +
                                ", which is not read here: write its text with "
                                "postmap -s " +
                                table.type + ":" + table.text + " > " + table.text +
                                " while Postfix is installed, then penmap " + table.type + ":" + table.text
                          : table.text + " is not there");
  }
}

int ConfigImport::report() {
  const bool loses =
      !cannot_.empty() || std::ranges::any_of(differs_, [](const auto& p) { return p.severity == Severity::error; });
  static constexpr const char* kWords[] = {"error", "warning", "note"};
  if (options_.json) {
    nlohmann::ordered_json j;
    j["from"] = options_.from;
    j["to"] = options_.to;
    j["mail_will_flow"] = !loses;
    j["acts"] = acts_;
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
  print(loses ? "\nSome mail would be refused or would wait: see the errors above.\n"
              : fmt::format("\nMail will flow. Next: penstock -c {} check\n", options_.to));
  return loses ? kLoses : EX_OK;
}

}  // namespace pen::tools
