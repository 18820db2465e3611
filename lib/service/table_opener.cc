#include "lib/service/table_opener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "lib/async/descriptor_message.h"
#include "lib/confine/programs.h"
#include "lib/map/table_file.h"
#include "lib/service/named_tables.h"
#include "lib/service/roots_file.h"
#include "lib/service/table_request.h"

namespace pen::service {
namespace {

constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};

std::atomic<bool> borrowed = false;
std::function<void()>& first_borrowed() {
  static std::function<void()> told;
  return told;
}

std::vector<std::string> table_files(const config::Config& config, const std::string& program) {
  std::vector<std::string> files;
  const auto add = [&](std::string file) {
    if (file.starts_with('/') && file.size() <= kMaxTablePath) files.push_back(std::move(file));
  };
  for (const NamedTable& table : named_tables(config, std::string(confine::settings_name(program)))) {
    if (table.file_only) add(table.spec);
    for (const map::PlainTable& plain : map::plain_tables(table.spec, config.settings().default_database_type))
      add(plain.file());
  }
  return files;
}

/// The errno of what failed; 0: `file` is set.
int ask(int helper, const std::string& path, Fd& file) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return errno;
  const Fd ours(pair[0]);
  Fd theirs(pair[1]);
  ::setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  const std::string request = encode_table_request(path);
  if (::send(ours.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return errno;
  if (auto sent = async::send_descriptor_message(helper, "table", theirs.get()); !sent) return sent.error().sys_errno();
  theirs.reset();
  std::array<char, kTableAnswerBytes + 1> room{};
  auto got = async::receive_descriptor_message(ours.get(), room);
  if (!got) return got.error().is_errno(EAGAIN) ? ETIMEDOUT : got.error().sys_errno();
  const auto error = parse_table_answer({room.data(), got->size});
  if (!error) return got->size == 0 ? EPIPE : EPROTO;
  if (*error != 0 || !got->descriptor) return *error != 0 ? *error : EPROTO;
  file = std::move(got->descriptor);
  return 0;
}

}  // namespace

bool names_tables(const config::Config& config, const std::string& program) {
  return !table_files(config, program).empty();
}

void borrow_tables(const config::Config& config, const std::string& program, int helper) {
  auto files = table_files(config, program);
  if (files.empty()) return;
  map::lend_table_files([files = std::move(files), helper](const std::string& path) -> Result<Fd> {
    int error = EACCES;  // what is no table of ours the helper would refuse, and tell
    Fd file;
    if (std::ranges::find(files, path) != files.end()) {
      if (!borrowed.exchange(true) && first_borrowed()) first_borrowed()();
      error = ask(helper, path, file);
    }
    if (error != 0) return fail(map::MapError::unreadable, "open " + path, error);
    return file;
  });
}

void on_first_borrowed(std::function<void()> told) { first_borrowed() = std::move(told); }

LentTables::LentTables(const config::Config& config, const Owners& owners, std::string program)
    : settings_(config.settings()),
      owners_(owners),
      program_(std::move(program)),
      files_(table_files(config, program_)) {}

Result<Fd> LentTables::open(const std::string& path) const {
  if (std::ranges::find(files_, path) == files_.end())
    return fail_errno("no setting of " + program_ + " names it", EPERM);
  if (::geteuid() == 0) {
    PEN_TRY_ASSIGN(std::optional<Fd> file, open_roots_file(path));
    if (file) return *std::move(file);
    PEN_TRY(drop_privileges(settings_, owners_, confine::row_of(program_).account));
  }
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno(path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (!S_ISREG(st.st_mode)) return fail_errno(path, EACCES);
  return fd;
}

}  // namespace pen::service
