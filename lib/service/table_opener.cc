#include "lib/service/table_opener.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>

#include "lib/async/descriptor_message.h"
#include "lib/confine/apply.h"
#include "lib/map/table_file.h"
#include "lib/service/named_tables.h"
#include "lib/service/setup.h"

namespace pen::service {
namespace {

constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};

struct Request {
  std::uint64_t number = 0;
  std::array<char, PATH_MAX> path{};
};
struct Reply {
  std::uint64_t number = 0;
  int error = 0;  // errno; 0: a descriptor comes along
};

/// A table's file, and where it really was when the list was made.
struct Listed {
  std::string path, real;
};

std::string place_of(int fd) {
  std::array<char, PATH_MAX> text{};
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text.data(), text.size());
  return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : std::string();
}

// The process that stays root. It does what the list allows and nothing else: who asks may be an attacker by now. A
// link that was put in the way since the list was made leads to another place, and is not followed.
Result<Fd> open_listed(const std::vector<Listed>& allowed, const Request& request) {
  const auto listed = std::ranges::find(allowed, std::string_view(request.path.data()), &Listed::path);
  if (listed == allowed.end()) return fail_errno("not a table", EACCES);
  Fd fd(::open(listed->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("open");
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("fstat");
  if (!S_ISREG(st.st_mode) || place_of(fd.get()) != listed->real)
    return fail_errno("not the file that was listed", EACCES);
  return fd;
}

void answer(int socket, const Request& request, const Result<Fd>& opened) {
  const Reply reply{request.number, opened ? 0 : opened.error().sys_errno()};
  const std::string_view bytes(reinterpret_cast<const char*>(&reply), sizeof reply);
  const auto sent = async::send_descriptor_message(socket, bytes, opened ? opened->get() : -1);
  if (!sent && !sent.error().is_errno(EAGAIN)) ::_exit(0);  // nobody is there
}

// What opening files of others takes. The rest of root's rights is of no use here.
constexpr confine::Capabilities kOpens = (1U << CAP_DAC_OVERRIDE) | (1U << CAP_DAC_READ_SEARCH);

[[noreturn]] void serve(int socket, const std::vector<Listed>& allowed, bool with_less, bool root) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (with_less) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (root && !confine::keep_capabilities(kOpens)) ::_exit(EX_OSERR);
  }
  for (const int signo : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) ::signal(signo, SIG_IGN);  // its program's end is its own
  if (socket > 3) ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
  ::close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
  for (;;) {
    Request request;
    const ssize_t n = ::recv(socket, &request, sizeof request, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof request || request.path.back() != '\0') ::_exit(0);
    answer(socket, request, open_listed(allowed, request));
  }
}

class TableOpener {
 public:
  explicit TableOpener(Fd socket) : socket_(std::move(socket)) {
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  }
  /// Any thread; one at a time.
  Result<Fd> open(const std::string& path) {
    const auto failed = [&](int error) {
      return fail(map::MapError::unreadable, "open " + path, error == EAGAIN ? ETIMEDOUT : error);
    };
    Request request;
    if (path.size() >= request.path.size()) return failed(ENAMETOOLONG);
    const std::lock_guard lock(mutex_);
    request.number = ++number_;
    path.copy(request.path.data(), path.size());
    if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return failed(errno);
    for (;;) {
      Reply reply;
      Fd fd;
      if (const int error = receive(reply, fd); error != 0) return failed(error);
      if (reply.number != request.number) continue;  // the late answer to one that was given up
      if (reply.error != 0 || !fd) return failed(reply.error != 0 ? reply.error : EACCES);
      return fd;
    }
  }

 private:
  int receive(Reply& reply, Fd& fd) {
    auto got = async::receive_descriptor_message(socket_.get(), {reinterpret_cast<char*>(&reply), sizeof reply});
    if (!got) return got.error().sys_errno();
    if (got->size != sizeof reply) return EPIPE;  // the opener is gone
    fd = std::move(got->descriptor);
    return 0;
  }

  std::mutex mutex_;
  Fd socket_;
  std::uint64_t number_ = 0;
};

/// Whether mail_owner may read every one that is there. This process is mail_owner while it looks, and root again
/// after.
Result<bool> all_readable(const std::vector<std::string>& files, const config::Settings& settings) {
  PEN_TRY_ASSIGN(const Account owner, mail_owner(settings));
  const gid_t group = ::getegid();
  const int count = ::getgroups(0, nullptr);
  if (count < 0) return fail_errno("getgroups");
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgroups(count, groups.data()) != count) return fail_errno("getgroups");
  const bool changed = ::initgroups(settings.mail_owner.c_str(), owner.gid) == 0 && ::setegid(owner.gid) == 0 &&
                       ::seteuid(owner.uid) == 0;
  const int error = errno;
  const bool readable = changed && std::ranges::none_of(files, [](const std::string& file) {
                          return ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) != 0 && errno == EACCES;
                        });
  const bool back = ::seteuid(0) == 0 && ::setegid(group) == 0 && ::setgroups(groups.size(), groups.data()) == 0;
  if (!back) ::_exit(EX_OSERR);  // half of root's rights are worse than none
  if (!changed) return fail_errno("rights of " + settings.mail_owner, error);
  return readable;
}

/// Whether one of the files is in a directory that a confined program cannot have whole, because the queue is in it
/// too: the program can open the file that is there, but not the one that takes its place.
bool stand_in_the_way(const std::vector<std::string>& files, const config::Settings& s) {
  if (!s.confine_files || confine::landlock_version() == 0) return false;
  const std::vector<std::string> kept_out = confine::places_kept_out(s);
  return std::ranges::any_of(files, [&](const std::string& file) { return confine::stands_alone(file, kept_out); });
}

}  // namespace

Result<void> lend_private_tables(const config::Config& config, const std::string& program) {
  std::vector<std::string> files;
  for (const NamedTable& table : named_tables(config, std::string(confine::settings_name(program)))) {
    if (table.file_only) files.push_back(table.spec);
    for (const map::PlainTable& plain : map::plain_tables(table.spec, config.settings().default_database_type)) {
      if (std::string file = plain.file(); !file.empty()) files.push_back(std::move(file));
    }
  }
  if (files.empty()) return {};
  const bool root = ::geteuid() == 0;
  const bool beside_queue =
      confine::row_of(program).kind == confine::Kind::confined && stand_in_the_way(files, config.settings());
  bool private_to_root = false;
  if (root) {
    PEN_TRY_ASSIGN(const bool readable, all_readable(files, config.settings()));
    private_to_root = !readable;
  }
  if (!beside_queue && !private_to_root) return {};
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    std::vector<Listed> listed;
    for (const std::string& file : files) {
      std::error_code error;
      listed.push_back({file, std::filesystem::weakly_canonical(file, error).string()});
    }
    if (!private_to_root && !drop_privileges(config.settings().mail_owner)) ::_exit(EX_OSERR);
    serve(theirs.get(), listed, config.settings().confine_privileges, private_to_root);
  }
  const auto opener = std::make_shared<TableOpener>(std::move(ours));
  map::lend_table_files([opener](const std::string& path) { return opener->open(path); });
  return {};
}

}  // namespace pen::service
