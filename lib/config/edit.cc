#include "lib/config/edit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/config/main_cf.h"

namespace pen::config {

std::vector<std::string> physical_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool is_comment(std::string_view line) {
  line = trim(line);
  return line.empty() || line.front() == '#';
}

namespace {

/// The lines of one setting: first to last, from 1.
struct Stretch {
  int first = 0, last = 0;
};

std::vector<Stretch> find_setting(const std::vector<LogicalLine>& all, std::string_view name) {
  std::vector<Stretch> found;
  for (const LogicalLine& line : all) {
    Assignment assignment;
    if (parse_assignment(line.text, assignment).empty() && assignment.name == name)
      found.push_back({line.first, line.last});
  }
  return found;
}

std::string join(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string applied(std::string_view text, const Edit& edit) {
  Problems ignored;  // lines that are not settings stay unchanged
  std::vector<std::string> lines = physical_lines(text);
  const auto stretches = find_setting(logical_lines(text, "", ignored), edit.name);
  const std::string wanted = edit.name + (edit.value.empty() ? " =" : " = " + edit.value);
  if (edit.kind == Edit::Kind::set && stretches.empty()) lines.push_back(wanted);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    const bool place = edit.kind == Edit::Kind::set && stretch == stretches.rbegin();
    std::vector<std::string> instead;
    if (place) instead.push_back(wanted);
    for (int i = stretch->first; i <= stretch->last; ++i) {
      std::string& line = lines[static_cast<std::size_t>(i - 1)];
      if (is_comment(line)) {
        instead.push_back(std::move(line));
      } else if (edit.kind == Edit::Kind::comment_out) {
        instead.push_back("#" + line);
      }
    }
    const auto from = lines.erase(lines.begin() + stretch->first - 1, lines.begin() + stretch->last);
    lines.insert(from, instead.begin(), instead.end());
  }
  return join(lines);
}

struct Closer {
  int fd;
  ~Closer() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::string> edit_main_cf(std::string_view text, const std::vector<Edit>& edits) {
  std::string result(text);
  for (const Edit& edit : edits) {
    if (!valid_name(edit.name)) return fail(ConfigError::bad_value, "the name \"" + printable(edit.name, 60) + "\"");
    if (edit.value.find_first_of(std::string_view("\n\0", 2)) != std::string::npos)
      return fail(ConfigError::bad_value, edit.name + ": a line break or NUL");
    result = applied(result, edit);
  }
  return result;
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(path);
  const std::string target = real.get(), temporary = target + ".tmp";
  struct stat was{};
  if (::stat(target.c_str(), &was) != 0) return fail_errno(target);
  const Closer file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, was.st_mode & 0777)};
  if (file.fd < 0)
    return fail_errno(errno == EEXIST ? temporary + " (left by another edit: remove it if none is running)"
                                      : temporary);
  const auto give_up = [&](const std::string& step) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return fail_errno(step, error);
  };
  // Only root may change a file's owner; for another user the new file has the right owner already.
  if (::geteuid() == 0 && ::fchown(file.fd, was.st_uid, was.st_gid) != 0) return give_up("chown " + temporary);
  if (::fchmod(file.fd, was.st_mode & 07777) != 0) return give_up("chmod " + temporary);
  if (auto written = write_all(file.fd, text, "write " + temporary); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::fsync(file.fd) != 0) return give_up("sync " + temporary);
  if (::rename(temporary.c_str(), target.c_str()) != 0) return give_up("rename " + temporary);
  return sync_directory(target.substr(0, target.rfind('/') + 1));
}

}  // namespace pen::config
