#include "lib/receive/submission/drop_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/mail/queue_id.h"
#include "lib/receive/submission/drop_view.h"

namespace pen::submission {

DropNames::DropNames(const std::string& directory)
    : directory_(directory), dir_(::opendir(directory.c_str())), error_(dir_ ? 0 : errno) {}

DropNames::DropNames(Fd directory, std::string shown)
    : directory_(std::move(shown)), dir_(::fdopendir(directory.get())), error_(dir_ ? 0 : errno) {
  if (dir_ != nullptr) (void)directory.release();  // it is closed with the listing
}

DropNames::~DropNames() {
  if (dir_ != nullptr) ::closedir(dir_);
}

Result<std::vector<std::string>> DropNames::next(std::size_t most) {
  if (dir_ == nullptr) return fail_errno(directory_, error_);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = names.size() < most ? ::readdir(dir_) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (names.empty() && errno != 0) return fail_errno(directory_);
  std::ranges::sort(names);
  return names;
}

Result<std::optional<DropEntry>> open_drop(const std::string& directory, const std::string& name) {
  // A name given by a user must not lead to another directory.
  if (name.empty() || name.starts_with('.') || name.contains('/')) return std::nullopt;
  const std::string path = directory + "/" + name;
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return fail_errno(path);
  }
  DropEntry entry;
  entry.size = static_cast<std::uint64_t>(st.st_size);
  entry.modified = st.st_mtime;
  entry.regular = S_ISREG(st.st_mode);
  if (!entry.regular) return entry;
  if ((st.st_mode & S_IXUSR) == 0) return std::nullopt;
  entry.file = Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!entry.file) {
    if (errno == ENOENT) return std::nullopt;
    entry.error = errno;
  }
  return entry;
}

Dropped look_at_drop(const std::string& name, const DropEntry& entry) {
  Dropped found;
  found.name = name;
  found.size = entry.size;
  found.arrival = WallTime(seconds(entry.modified));
  if (!entry.regular) {
    found.fault = "not a regular file";
    return found;
  }
  if (!entry.file) {
    found.fault = Error::from_errno(entry.error).message();
    return found;
  }
  if (!mail::is_queue_id(name)) {
    found.fault = "not a name that pendrop gives";
    return found;
  }
  auto view = DropView::open(entry.file.get(), DropView::Found::in_maildrop, DropView::Check::ends);
  if (!view) {
    found.fault = view.error().message();
    return found;
  }
  found.fault = view->fault();
  found.size = view->content_size();
  found.submission = view->submission();
  if (found.submission) found.arrival = found.submission->arrival;
  if (found.fault.empty() && found.submission && found.submission->queue_id != name)
    found.fault = "it is " + found.submission->queue_id + " by its content";
  return found;
}

Result<std::optional<Dropped>> look_at_drop(const std::string& directory, const std::string& name) {
  PEN_TRY_ASSIGN(const auto entry, open_drop(directory, name));
  if (!entry) return std::nullopt;
  return look_at_drop(name, *entry);
}

}  // namespace pen::submission
