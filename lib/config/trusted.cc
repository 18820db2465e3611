#include "lib/config/trusted.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace pen::config {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Whether only root can have written it.
bool written_by_root(const File& file, mode_t type) {
  struct stat st{};
  return ::fstat(file.get(), &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == 0 &&
         (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::unexpected<Error> not_trusted(const std::string& directory, std::string_view why) {
  return fail(TrustError::not_trusted, directory + ": " + std::string(why));
}

/// The present path of the descriptor; "": it has none.
std::string place_of(const File& directory) {
  char text[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(directory.get());
  const ssize_t n = ::readlink(link.c_str(), text, sizeof text);
  return n > 0 && static_cast<std::size_t>(n) < sizeof text ? std::string(text, static_cast<std::size_t>(n))
                                                            : std::string();
}

/// The directory with which the mail system of this queue was started.
Result<std::string> recorded(const std::string& queue_directory) {
  const File queue(::open(queue_directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!queue.is_open() && errno == ENOENT) return fail(TrustError::no_record, queue_directory);
  if (!queue.is_open()) return fail_errno(queue_directory);
  if (!written_by_root(queue, S_IFDIR)) return not_trusted(queue_directory, "the queue directory must belong to root");
  char text[PATH_MAX];
  const ssize_t n = ::readlinkat(queue.get(), kRecord, text, sizeof text);
  if (n < 0 && errno == ENOENT) return fail(TrustError::no_record, queue_directory);
  if (n < 0) return fail_errno(queue_directory + "/" + kRecord);
  return std::string(text, static_cast<std::size_t>(n));
}

Result<std::string> read_whole(const File& file, const std::string& name) {
  std::string text;
  char block[16384];
  for (ssize_t n = 0; (n = ::read(file.get(), block, sizeof block)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ConfigError::unreadable, name, errno);
    text.append(block, static_cast<std::size_t>(n));
    if (text.size() > kMaxFile) return fail(ConfigError::too_large, name);
  }
  return text;
}

}  // namespace

Result<Config> load_trusted(const std::string& directory) {
  const File folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return fail(ConfigError::unreadable, directory, errno);
  const File main_cf(::openat(folder.get(), "main.cf", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!main_cf.is_open()) return fail(ConfigError::unreadable, directory + "/main.cf", errno);
  if (!written_by_root(folder, S_IFDIR) || !written_by_root(main_cf, S_IFREG))
    return not_trusted(directory,
                       "the directory and its main.cf must belong to root, and nobody else may be able to write there");
  Sources sources;
  sources.directory = place_of(folder);
  PEN_TRY_ASSIGN(sources.main_cf, read_whole(main_cf, directory + "/main.cf"));
  auto config = Config::parse(std::move(sources), system_surroundings());
  if (!config.problems().empty() && config.problems().front().severity == Severity::error)
    return fail(ConfigError::bad_syntax, config.problems().front().message());
  const std::string& queue = config.settings().queue_directory;
  PEN_TRY_ASSIGN(const std::string record, recorded(queue));
  if (record != config.directory())
    return not_trusted(directory,
                       "the mail system with the queue " + queue + " was started with another configuration");
  return config;
}

}  // namespace pen::config
