#include "lib/suite/service/table_opener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>

#include "lib/base/async/descriptor_message.h"
#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/config/key_process.h"
#include "lib/map/table_file.h"
#include "lib/suite/confine/named_files.h"
#include "lib/suite/confine/programs.h"
#include "lib/suite/service/named_tables.h"
#include "lib/suite/service/roots_file.h"
#include "lib/suite/service/table_request.h"

namespace pen::service {
namespace {

constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};

std::atomic<bool> borrowed = false;
std::function<void()>& first_borrowed() {
  static std::function<void()> told;
  return told;
}

bool can_be_lent(const std::string& path) { return path.starts_with('/') && path.size() <= kMaxTablePath; }

/// What the key process may be lent: for it alone.
struct KeyFiles {
  std::vector<std::string> files;
  std::vector<map::PlainTable> tables;  // whose texts name further ones
};

KeyFiles key_files(const config::Config& config) {
  KeyFiles out;
  confine::Named named;
  const auto add_from = [&](const config::Config& from) {
    for (const config::Row& row : config::rows()) {
      if (!confine::reads(row, config::kKeyProgram)) continue;
      const config::Names names = config::names_of(row);
      const auto value = from.text(row.name);
      if (!value) continue;
      if (names == config::Names::keys || names == config::Names::certificates)
        confine::add_named(row.name, *value, {}, named);
      else if (names == config::Names::key_tables)
        std::ranges::move(map::plain_tables(*value, from.settings().default_database_type),
                          std::back_inserter(out.tables));
    }
  };
  add_from(config);
  for (const config::Service& service : config.master())
    if (!service.overrides.empty()) add_from(config.with(service));
  out.files.assign(named.paths.begin(), named.paths.end());
  return out;
}

std::vector<std::string> table_files(const config::Config& config, const std::string& program) {
  std::vector<std::string> files;
  const bool holds_keys = program == config::kKeyProgram;
  // Tables with keys in them are for the process that holds keys, where there is one.
  const bool no_keys = !holds_keys && config::key_socket(config);
  for (const NamedTable& table : named_tables(config, std::string(confine::settings_name(program)))) {
    if (no_keys && names_in(config, table.setting) == config::Names::key_tables) continue;
    if (table.file_only) files.push_back(table.spec);
    for (const map::PlainTable& plain : map::plain_tables(table.spec, config.settings().default_database_type))
      files.push_back(plain.file());
  }
  if (program == config::kCyrusProgram)
    for (const std::string& spec : config::login_tables(config))
      for (const map::PlainTable& plain : map::plain_tables(spec, config.settings().default_database_type)) {
        files.push_back(plain.file());
        files.push_back(plain.name);
      }
  if (holds_keys) std::ranges::move(key_files(config).files, std::back_inserter(files));
  std::erase_if(files, [](const std::string& file) { return !can_be_lent(file); });
  return files;
}

/// Whether the text has the path as a word.
bool has_word(std::string_view text, std::string_view path) {
  return std::ranges::count(split(text, " \t\r\n,={}\""), path) != 0;
}

/// Whether a table that root alone can have written names this file of a key.
bool names_file(const map::PlainTable& table, const std::string& path) {
  if (has_word(table.name, path)) return table.name != path;  // its entries stand in the setting
  if (!table.name.starts_with('/')) return false;
  const auto file = open_roots_file(table.name);
  struct stat st{};
  if (!file || !*file || ::fstat((*file)->get(), &st) != 0) return false;
  if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
  const auto text = map::read_table_file((*file)->get(), table.name);
  return text && has_word(*text, path);
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
  // Which files such tables name the helper finds out.
  const bool by_table = program == config::kKeyProgram && !key_files(config).tables.empty();
  if (files.empty() && !by_table) return;
  map::lend_table_files(
      [files = std::move(files), by_table, helper](const std::string& path, bool in_table) -> Result<Fd> {
        int error = EACCES;  // what is no table of ours the helper would refuse, and tell
        Fd file;
        if (std::ranges::find(files, path) != files.end() || (by_table && in_table && can_be_lent(path))) {
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
      files_(table_files(config, program_)) {
  if (program_ == config::kKeyProgram) key_tables_ = key_files(config).tables;
}

Result<Fd> LentTables::open(const std::string& path) const {
  if (std::ranges::find(files_, path) == files_.end() &&
      std::ranges::none_of(key_tables_, [&](const auto& table) { return names_file(table, path); }))
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
