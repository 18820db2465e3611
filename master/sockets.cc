#include "master/sockets.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "lib/config/trusted.h"
#include "lib/service/as_account.h"

namespace pen::master {

namespace {

/// The directory of a Unix socket, and the peer check in every program, decide who may connect to it. The socket's
/// mode comes from the umask, because chmod() by name might reach another file. The socket is created as mail_owner,
/// unless mail_owner cannot reach the directory (then all programs are root's, the directory's parent is root's, and
/// bind() follows no link).
Result<Fd> listen_at(const async::SocketAddress& address, const service::Account& owner) {
  if (!address.is_unix()) return async::listen_on(address);
  const mode_t before = ::umask(0111);
  auto fd = [&]() -> Result<Fd> {
    const service::AsAccount as_owner(owner);
    if (!as_owner.ok()) return fail_errno("become mail_owner");
    return async::listen_on(address);
  }();
  if (!fd && fd.error().is_errno(EACCES)) fd = async::listen_on(address);
  ::umask(before);
  return fd;
}

}  // namespace

Result<void> Sockets::adopt(const std::vector<service::Planned>& services, const service::Account& owner,
                            std::vector<std::string>& notes) {
  std::map<std::string, Fd> fresh;
  std::map<std::string, bool> wanted;
  for (const service::Planned& service : services) {
    std::size_t opened = 0;
    Error last = Error::from_errno(EADDRNOTAVAIL);
    for (const auto& address : service.sockets) {
      const std::string key = address.text();
      wanted[key] = true;
      if (open_.contains(key) || fresh.contains(key)) {
        ++opened;
        continue;
      }
      auto fd = listen_at(address, owner);
      if (!fd) {
        const bool no_family = fd.error().is_errno(EAFNOSUPPORT) || fd.error().is_errno(EADDRNOTAVAIL);
        if (!service.optional_sockets || !no_family) {
          return fail(std::move(fd).error().within(service.label));
        }
        notes.push_back(service.label + ": " + fd.error().message());
        last = std::move(fd).error();
        continue;
      }
      fresh[key] = *std::move(fd);
      ++opened;
    }
    if (opened == 0) return fail(std::move(last).within(service.label));
  }
  std::erase_if(open_, [&](const auto& entry) { return !wanted.contains(entry.first); });
  open_.merge(fresh);
  return {};
}

std::vector<int> Sockets::of(const service::Planned& service) const {
  std::vector<int> fds;
  for (const auto& address : service.sockets) {
    if (const auto it = open_.find(address.text()); it != open_.end()) fds.push_back(it->second.get());
  }
  return fds;
}

namespace {

struct Rights {
  mode_t mode = 0700;
  uid_t uid = 0;
  gid_t gid = 0;
};

/// Opens the directory, creates it if it is missing, and gives it these rights through its descriptor, never through
/// a link. An ordinary user only checks that it is the user's own.
Result<Fd> make_directory(int parent, const std::string& name, const std::string& shown, const Rights& rights) {
  const bool fresh = ::mkdirat(parent, name.c_str(), rights.mode & 0777) == 0;
  if (!fresh && errno != EEXIST) return fail_errno("make " + shown);
  Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail_errno(shown);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(shown);
  if (::geteuid() != 0) {
    if (st.st_uid != ::geteuid()) return fail_errno(shown + " belongs to another user", EPERM);
    return fd;
  }
  if ((st.st_uid != rights.uid || st.st_gid != rights.gid) && ::fchown(fd.get(), rights.uid, rights.gid) != 0)
    return fail_errno("chown " + shown);
  if (::fchmod(fd.get(), rights.mode) != 0) return fail_errno("chmod " + shown);
  return fd;
}

/// The name of a setting's directory below the queue directory, if it is there: elsewhere qmgr makes it, with rights
/// of its own.
std::optional<std::string> name_below(const std::string& queue, const std::string& directory) {
  if (!directory.starts_with(queue + "/")) return std::nullopt;
  std::string name = directory.substr(queue.size() + 1);
  if (name.empty() || name.contains('/')) return std::nullopt;
  return name;
}

/// See lib/config/trusted.h. The file is replaced in one step: readers see either the old or the new one.
Result<void> record_configuration(const Fd& queue, const std::string& directory) {
  std::error_code error;
  const std::string here = std::filesystem::canonical(directory, error);
  if (error) return fail_errno(directory, error.value());
  const std::string next = std::string(config::kRecord) + ".new";
  ::unlinkat(queue.get(), next.c_str(), 0);  // left by a start that was killed
  if (::symlinkat(here.c_str(), queue.get(), next.c_str()) != 0 ||
      ::renameat(queue.get(), next.c_str(), queue.get(), config::kRecord) != 0)
    return fail_errno(std::string("make ") + config::kRecord);
  return {};
}

}  // namespace

Result<void> prepare_directories(const config::Config& config) {
  const config::Settings& settings = config.settings();
  PEN_TRY_ASSIGN(const service::Account owner, service::mail_owner(settings));
  const bool root = ::geteuid() == 0;
  std::optional<gid_t> drop_group;
  if (root) {
    if (const group* entry = ::getgrnam(settings.setgid_group.c_str())) drop_group = entry->gr_gid;
  }
  const std::string& queue = settings.queue_directory;
  PEN_TRY_ASSIGN(const Fd top, make_directory(AT_FDCWD, queue, queue, {.mode = 0755}));
  const auto below = [&](const std::string& name, const Rights& rights) -> Result<void> {
    PEN_TRY(make_directory(top.get(), name, queue + "/" + name, rights));
    return {};
  };
  const Rights own{.mode = 0700, .uid = owner.uid, .gid = owner.gid};
  const auto shared = [&](mode_t with_group) {
    if (!drop_group) return own;
    return Rights{.mode = with_group, .uid = owner.uid, .gid = *drop_group};
  };
  PEN_TRY(below("pid", {.mode = 0700}));
  PEN_TRY(below("private", own));
  PEN_TRY(below("public", shared(0710)));
  // Every user of the host may come here; an instance of an ordinary user is that user's alone.
  PEN_TRY(below("open", {.mode = root ? mode_t{0711} : mode_t{0700}, .uid = owner.uid, .gid = owner.gid}));
  // As in Postfix: members of the group may leave a file here, but neither see nor remove any.
  PEN_TRY(below("maildrop", shared(01730)));
  PEN_TRY(below("corrupt", own));
  for (const auto& directory : {settings.queue_log_directory, settings.spool_directory}) {
    if (const auto name = name_below(queue, directory)) PEN_TRY(below(*name, own));
  }
  PEN_TRY(record_configuration(top, config.directory()));
  // Entries of directories must be as durable as the data below them.
  if (::fsync(top.get()) != 0) return fail_errno("fsync " + queue);
  PEN_TRY(make_directory(AT_FDCWD, settings.data_directory, settings.data_directory, own));
  return {};
}

}  // namespace pen::master
