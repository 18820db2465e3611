#include "master/sockets.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/service/setup.h"

namespace pen::master {

Result<void> Sockets::adopt(const std::vector<service::Planned>& services,
                            std::vector<std::string>& notes) {
  std::map<std::string, async::Fd> fresh;
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
      auto fd = async::listen_on(address);
      if (!fd) {
        const bool no_family =
            fd.error().is_errno(EAFNOSUPPORT) || fd.error().is_errno(EADDRNOTAVAIL);
        if (!service.optional_sockets || !no_family) {
          return fail(std::move(fd).error().within(service.label));
        }
        notes.push_back(service.label + ": " + fd.error().message());
        last = std::move(fd).error();
        continue;
      }
      // Who may connect is a matter of the directory, and of the peer check in every program.
      if (address.is_unix()) ::chmod(address.path.c_str(), 0666);
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
    if (const auto it = open_.find(address.text()); it != open_.end())
      fds.push_back(it->second.get());
  }
  return fds;
}

namespace {

Result<void> make_directory(const std::string& path, mode_t mode, const service::Account& owner,
                            std::optional<gid_t> group) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno("make " + path);
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return fail_errno(path);
  if (!S_ISDIR(st.st_mode)) return fail_errno(path, ENOTDIR);
  if (::geteuid() != 0) {
    if (st.st_uid != ::geteuid()) return fail_errno(path + " belongs to another user", EPERM);
    return {};
  }
  if (st.st_uid != owner.uid || (group && st.st_gid != *group)) {
    if (::lchown(path.c_str(), owner.uid, group.value_or(owner.gid)) != 0)
      return fail_errno("chown " + path);
  }
  if (::chmod(path.c_str(), mode) != 0) return fail_errno("chmod " + path);
  return {};
}

}  // namespace

Result<void> prepare_directories(const config::Settings& settings) {
  PEN_TRY_ASSIGN(const service::Account owner, service::mail_owner(settings));
  std::optional<gid_t> drop_group;
  if (::geteuid() == 0) {
    if (const group* entry = ::getgrnam(settings.setgid_group.c_str())) drop_group = entry->gr_gid;
  }
  const std::string& queue = settings.queue_directory;
  PEN_TRY(make_directory(queue, 0755, owner, {}));
  PEN_TRY(make_directory(queue + "/private", 0700, owner, {}));
  PEN_TRY(make_directory(queue + "/public", ::geteuid() == 0 && drop_group ? 0710 : 0700, owner,
                         drop_group));
  // As Postfix has it: who has the group may leave a file here, and see or remove nothing.
  PEN_TRY(make_directory(queue + "/maildrop", ::geteuid() == 0 && drop_group ? 01730 : 0700, owner,
                         drop_group));
  PEN_TRY(make_directory(queue + "/corrupt", 0700, owner, {}));
  return make_directory(settings.data_directory, 0700, owner, {});
}

}  // namespace pen::master
