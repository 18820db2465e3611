#include "tools/instance.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "lib/map/lmdb_file.h"
#include "lib/map/table_text.h"

namespace pen::tools {
namespace {
namespace fs = std::filesystem;

Result<std::string> shipped(const std::string& name) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path path = own.parent_path() / "share/penstock/conf" / name;
  const std::ifstream file(path);
  if (!file) return fail(InstanceError::no_templates, path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<void> write_new(const fs::path& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return fail_errno(path.string());
  const bool good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  if (!good) return fail_errno(path.string(), error);
  return {};
}

/// Writes the alias text and makes the table, so that local names are known from the first start.
Result<void> write_aliases(const fs::path& file) {
  PEN_TRY_ASSIGN(const std::string text, shipped("aliases"));
  PEN_TRY(write_new(file, text));
  const auto table = map::parse_aliases(text, file.string());
  PEN_TRY(map::build_lmdb(file.string() + ".lmdb", table.entries, file.string(), {}));
  return {};
}

/// The owner of the programs: this user; for root the account made for this, else an account that every system has
/// (the shipped main.cf says that it should own nothing else).
std::string owner_here() {
  if (::geteuid() != 0) {
    const passwd* self = ::getpwuid(::geteuid());
    return self ? self->pw_name : std::to_string(::geteuid());
  }
  return ::getpwnam("penstock") ? "penstock" : "daemon";
}

}  // namespace

std::string_view error_module(InstanceError) { return "instance"; }
std::string_view describe(InstanceError e) {
  return e == InstanceError::exists ? "holds an instance already" : "shipped configuration not found";
}

std::string with_setting(std::string text, const std::string& name, const std::string& value) {
  const std::string line = name + " = " + value;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view words(text.data() + at, end - at);
    if (words.starts_with('#')) words.remove_prefix(1);
    if (words.starts_with(name + " =")) return text.replace(at, end - at, line);
    at = end + 1;
  }
  return text + line + "\n";
}

std::string with_smtp_port(std::string text, unsigned port) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::istringstream words(text.substr(at, end - at));
    std::string name, type;
    if (words >> name >> type && name == "smtp" && type == "inet") {
      return text.replace(at, text.find("inet", at) - at, fmt::format("{:<12}", port));
    }
    at = end + 1;
  }
  return text;
}

Result<void> make_instance(const NewInstance& what) {
  PEN_TRY_ASSIGN(std::string main_cf, shipped("main.cf"));
  PEN_TRY_ASSIGN(std::string master_cf, shipped("master.cf"));
  std::error_code error;
  const fs::path top = fs::absolute(what.directory, error).lexically_normal();
  const fs::path etc = top / "etc";
  if (fs::exists(etc / "main.cf") || fs::exists(etc / "master.cf")) {
    return fail(InstanceError::exists, top);
  }
  std::vector<const char*> folders = {"etc", "spool", "data", "log"};
  if (::geteuid() != 0) folders.push_back("mail");
  for (const char* name : folders) {
    if (!fs::create_directories(top / name, error) && error) {
      return fail_errno((top / name).string(), error.value());
    }
  }
  const std::string place = top.string();
  main_cf = with_setting(std::move(main_cf), "inet_interfaces", "loopback-only");
  main_cf = with_setting(std::move(main_cf), "queue_directory", place + "/spool");
  main_cf = with_setting(std::move(main_cf), "data_directory", place + "/data");
  main_cf = with_setting(std::move(main_cf), "maillog_file", place + "/log/mail.log");
  main_cf = with_setting(std::move(main_cf), "maillog_file_prefixes", place + "/log, /dev/stdout");
  main_cf = with_setting(std::move(main_cf), "mail_owner", owner_here());
  // An ordinary user cannot create a file in /var/mail, and a trial must not fill the home directory.
  if (::geteuid() != 0) main_cf = with_setting(std::move(main_cf), "mail_spool_directory", place + "/mail/");
  // The pool of segments is made before the first mail: small ones keep a small instance small
  // (docs/queue-recovery.md).
  main_cf = with_setting(std::move(main_cf), "queue_log_segment_size", "4m");
  main_cf = with_setting(std::move(main_cf), "alias_maps", "lmdb:$config_directory/aliases");
  main_cf = with_setting(std::move(main_cf), "alias_database", "lmdb:$config_directory/aliases");
  if (!fs::exists(etc / "aliases")) PEN_TRY(write_aliases(etc / "aliases"));
  PEN_TRY(write_new(etc / "main.cf", main_cf));
  return write_new(etc / "master.cf", with_smtp_port(std::move(master_cf), what.port));
}

}  // namespace pen::tools
