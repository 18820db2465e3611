#include "lib/service/setup.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <filesystem>

#include "lib/base/fd.h"
#include "lib/base/log.h"

namespace pen::service {
namespace {

struct Facility {
  std::string_view name;
  int value;
};
constexpr Facility kFacilities[] = {
    {"mail", LOG_MAIL},     {"daemon", LOG_DAEMON}, {"auth", LOG_AUTH},     {"user", LOG_USER},
    {"local0", LOG_LOCAL0}, {"local1", LOG_LOCAL1}, {"local2", LOG_LOCAL2}, {"local3", LOG_LOCAL3},
    {"local4", LOG_LOCAL4}, {"local5", LOG_LOCAL5}, {"local6", LOG_LOCAL6}, {"local7", LOG_LOCAL7},
};

Result<int> facility(const std::string& name) {
  for (const Facility& f : kFacilities) {
    if (f.name == name) return f.value;
  }
  return fail(config::ConfigError::bad_value, "syslog_facility = " + name);
}

/// The modes that Postfix takes too.
Result<unsigned> log_mode(const std::string& text) {
  if (text == "0600" || text == "600") return 0600;
  if (text == "0640" || text == "640") return 0640;
  if (text == "0644" || text == "644") return 0644;
  return fail(config::ConfigError::bad_value, "maillog_file_permissions = " + text + " (use 0600, 0640 or 0644)");
}

Result<passwd> account_entry(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (!entry) return fail(SetupError::no_account, "mail_owner \"" + name + "\"");
  return *entry;
}

}  // namespace

Result<void> open_log(const config::Settings& settings, const std::string& program, bool debug) {
  log::Options options;
  options.program = program;
  options.tag = settings.syslog_name;
  options.hostname = settings.myhostname;
  options.debug = debug;
  PEN_TRY_ASSIGN(options.syslog_facility, facility(settings.syslog_facility));
  if (settings.maillog_file.empty()) {
    options.target = log::Target::syslog;
  } else {
    options.target = log::Target::file;
    options.path = settings.maillog_file;
    PEN_TRY_ASSIGN(options.mode, log_mode(settings.maillog_file_permissions));
  }
  return log::open(std::move(options));
}

Result<Account> mail_owner(const config::Settings& settings) {
  if (::geteuid() != 0) return Account{::geteuid(), ::getegid()};
  PEN_TRY_ASSIGN(const passwd entry, account_entry(settings.mail_owner));
  if (entry.pw_uid == 0) {
    return fail(SetupError::root_account, settings.mail_owner);
  }
  return Account{entry.pw_uid, entry.pw_gid};
}

Result<void> drop_privileges(const std::string& account) {
  if (::geteuid() != 0) return {};
  PEN_TRY_ASSIGN(const passwd entry, account_entry(account));
  if (::initgroups(account.c_str(), entry.pw_gid) != 0) return fail_errno("initgroups " + account);
  if (::setgid(entry.pw_gid) != 0) return fail_errno("setgid for " + account);
  if (::setuid(entry.pw_uid) != 0) return fail_errno("setuid for " + account);
  return {};
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

namespace {

// In every program that links this file, and in no other mail system's.
constexpr std::string_view kMark = "@(#) a program of the Penstock mail system";

/// Whether the file is a program of Penstock: another mail system has a master too, which must not be run.
bool is_ours(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return false;
  const auto size = static_cast<std::size_t>(st.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return false;
  const bool found = ::memmem(mapped, size, kMark.data(), kMark.size()) != nullptr;
  ::munmap(mapped, size);
  return found;
}

std::string own_directory(const config::Config& config) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    if (own.filename() == "penstock" && own.parent_path().filename() == "libexec") return own;
    const fs::path beside = own.parent_path() / "libexec" / "penstock";
    if (fs::is_directory(beside, error)) return beside;
  }
  const config::Row* row = config::find_row("daemon_directory");
  return config.expand(row->default_text).value_or("/usr/local/libexec/penstock");
}

}  // namespace

ProgramDirectory program_directory(const config::Config& config) {
  ProgramDirectory found;
  const std::string& set = config.settings().daemon_directory;
  if (config.where("daemon_directory") && is_ours(set + "/master")) {
    found.path = set;
    return found;
  }
  found.path = own_directory(config);
  if (config.where("daemon_directory"))
    found.warning = "daemon_directory " + set + " holds no program of Penstock: passed over, the programs in " +
                    found.path + " are run; take the line out of main.cf";
  return found;
}

}  // namespace pen::service
