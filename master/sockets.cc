#include "master/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "lib/config/trusted.h"
#include "lib/suite/confine/plan.h"
#include "lib/suite/service/as_account.h"
#include "master/ownership.h"

namespace pen::master {

namespace {

constexpr int kBacklog = 1024;

/// The directory of a Unix socket, and the peer check in every program, decide which accounts may connect to it. The
/// socket's mode comes from the umask, because chmod() by name might reach another file. The socket is created as
/// mail_owner, unless mail_owner cannot reach the directory (then all programs are root's, the directory's parent is
/// root's, and bind() follows no link).
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

void share_port(int fd, bool shared) {
  const int value = shared ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &value, sizeof value);
}

/// As async::listen_on(), at an address where others listen that share their port.
Result<Fd> listen_shared(const async::SocketAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0)
    return fail_errno(address.text(), EINVAL);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (found->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  share_port(fd.get(), true);
  PEN_TRY(async::limit_tcp_window(fd.get()));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) return fail_errno("bind " + address.text());
  if (::listen(fd.get(), kBacklog) != 0) return fail_errno("listen on " + address.text());
  return fd;
}

}  // namespace

Result<void> Sockets::adopt(const std::vector<service::Planned>& services, const service::Account& owner,
                            std::vector<std::string>& notes) {
  std::map<std::string, Open> fresh;
  std::map<std::string, bool> wanted;
  for (const service::Planned& service : services) {
    // Where the service itself is found: a socket for traces does not make up for all of its addresses.
    const bool inet = std::ranges::any_of(service.sockets, [](const auto& a) { return !a.is_unix(); });
    std::size_t opened = 0;
    Error last = Error::from_errno(EADDRNOTAVAIL);
    for (const auto& address : service.sockets) {
      const std::string key = address.text();
      wanted[key] = true;
      if (open_.contains(key) || fresh.contains(key)) {
        if (address.is_unix() != inet) ++opened;
        continue;
      }
      auto fd = listen_at(address, owner);
      if (!fd && fd.error().is_errno(EADDRINUSE) && !address.is_unix()) fd = open_beside_own(address);
      if (!fd) {
        const bool no_family = fd.error().is_errno(EAFNOSUPPORT) || fd.error().is_errno(EADDRNOTAVAIL);
        if (!service.optional_sockets || !no_family) {
          return fail(std::move(fd).error().within(service.label));
        }
        notes.push_back(service.label + ": " + fd.error().message());
        last = std::move(fd).error();
        continue;
      }
      fresh[key] = {*std::move(fd), {}};
      if (address.is_unix() != inet) ++opened;
    }
    if (opened == 0) return fail(std::move(last).within(service.label));
  }
  std::erase_if(open_, [&](const auto& entry) {
    if (wanted.contains(entry.first)) return false;
    keeper_.forget(entry.second.name);
    return true;
  });
  for (auto& [key, open] : fresh) {
    open.name = keeper_.name('l');
    keeper_.keep(open.name, open.fd.get());
  }
  open_.merge(fresh);
  return {};
}

/// On a port on which own sockets listen at addresses that overlap with this one.
Result<Fd> Sockets::open_beside_own(const async::SocketAddress& address) {
  std::vector<int> own;
  const std::string port = "]:" + std::to_string(address.port);
  for (const auto& [key, open] : open_) {
    if (key.ends_with(port)) own.push_back(open.fd.get());
  }
  if (own.empty()) return fail_errno("bind " + address.text(), EADDRINUSE);
  for (const int fd : own) share_port(fd, true);
  auto fd = listen_shared(address);
  for (const int other : own) share_port(other, false);
  if (fd) share_port(fd->get(), false);
  return fd;
}

void Sockets::take(const std::string& address, std::string name, Fd fd) {
  open_[address] = {std::move(fd), std::move(name)};
}

void Sockets::keep_all() {
  for (const auto& [key, open] : open_) keeper_.keep(open.name, open.fd.get());
}

void Sockets::close() {
  for (const auto& [key, open] : open_) keeper_.forget(open.name);
  open_.clear();
}

std::map<std::string, std::string> Sockets::names() const {
  std::map<std::string, std::string> out;
  for (const auto& [key, open] : open_) out[key] = open.name;
  return out;
}

std::map<std::string, int> Sockets::numbers() const {
  std::map<std::string, int> out;
  for (const auto& [key, open] : open_) out[open.name] = open.fd.get();
  return out;
}

std::vector<int> Sockets::of(const service::Planned& service) const {
  std::vector<int> fds;
  for (const auto& address : service.sockets) {
    if (const auto it = open_.find(address.text()); it != open_.end()) fds.push_back(it->second.fd.get());
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

namespace {

/// Where directories of an instance are made, by descriptor, as root.
class Maker {
 public:
  Maker(const config::Settings& settings, const service::Owners& owners, const Told& told)
      : settings_(settings), owners_(owners), told_(told) {}

  /// Below the queue directory or wherever a setting has it. Elsewhere it is made where root owns the way there, for
  /// nobody else may choose what is found there; where a queue has no account of its own, by qmgr.
  Result<void> queue_directory(const Fd& top, const std::string& directory) {
    if (const auto name = name_below(settings_.queue_directory, directory)) {
      PEN_TRY_ASSIGN(const Fd fd, open_or_make(top.get(), *name, directory));
      return give(fd, directory, confine::Account::queue);
    }
    const auto slash = directory.find_last_of('/');
    const std::string parent = slash == 0 ? "/" : directory.substr(0, slash);
    const Fd above(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!above && !owners_.apart()) return {};
    struct stat st{};
    if (!above || ::fstat(above.get(), &st) != 0) return fail_errno(parent);
    const std::string name = directory.substr(slash + 1);
    const bool ours = st.st_uid == 0 && ((st.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (st.st_mode & S_ISVTX) != 0);
    const bool there = ::faccessat(above.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && !owners_.apart()) return {};
    if (!there && !ours) {  // nothing that root should make there; qmgr's account may be able to
      const service::AsAccount owner(owners_.queue);
      if (!owner.ok()) return fail_errno("become queue_owner");
      if (::mkdirat(above.get(), name.c_str(), 0700) != 0) return fail_errno("make " + directory + " as queue_owner");
    }
    if (owners_.apart() && !ours)
      told_(fmt::format("{} is not root's alone: who owns it can put another queue in the place of {}", parent, name));
    PEN_TRY_ASSIGN(const Fd fd, open_or_make(above.get(), name, directory));
    return give(fd, directory, confine::Account::queue);
  }

  /// What a program keeps in data_directory. What is neither a directory nor a file there stays as it is: its program
  /// does without, and says so.
  Result<void> kept(const Fd& data, const confine::Kept& what) {
    const std::string shown = settings_.data_directory + "/" + what.name;
    const service::Account& owner = ids(what.account);
    const bool directory = what.kind == confine::Place::Kind::directory;
    struct stat st{};
    const bool there = ::fstatat(data.get(), what.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && (directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))) {
      told_(fmt::format("{} stays as it is: no {}", shown, directory ? "directory" : "file"));
      return {};
    }
    if (there && st.st_uid == owner.uid && what.account != confine::Account::queue) return {};
    if (!directory) return keep_file(data, what.name, shown, owner);
    PEN_TRY_ASSIGN(const Fd fd, open_or_make(data.get(), what.name, shown));
    return give(fd, shown, what.account);
  }

 private:
  /// One that is made is root's until it is given away.
  static Result<Fd> open_or_make(int parent, const std::string& name, const std::string& shown) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("make " + shown);
    Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return fail_errno(shown);
    return fd;
  }
  const service::Account& ids(confine::Account which) const {
    return which == confine::Account::queue ? owners_.queue : owners_.mail;
  }
  /// A file that a program writes in place. It is root's until it is given away.
  Result<void> keep_file(const Fd& data, const std::string& name, const std::string& shown,
                         const service::Account& owner) {
    const Fd fd(::openat(data.get(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat st{};
    if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno("make " + shown);
    if (st.st_nlink != 1) {
      told_(fmt::format("{} stays as it is: it has another name", shown));
      return {};
    }
    if (::fchown(fd.get(), owner.uid, owner.gid) != 0) return fail_errno("chown " + shown);
    return {};
  }
  Result<void> give(const Fd& fd, const std::string& shown, confine::Account which) {
    const service::Account& owner = ids(which);
    PEN_TRY_ASSIGN(const Moved done, change_owner(fd, shown, owner, [&](std::uint64_t files) {
                     told_(fmt::format("{}: {} files given to uid {} so far", shown, files, owner.uid));
                   }));
    for (const std::string& name : done.left)
      told_(fmt::format("{}/{} stays as it is: no regular file of one name that a mail system has made", shown, name));
    if (!done.moved || done.files == 0) return {};
    if (which != confine::Account::queue) {
      told_(fmt::format("{} and its {} files now belong to uid {} (mail_owner)", shown, done.files, owner.uid));
      return {};
    }
    told_(
        fmt::format("{} and its {} files now belong to uid {} ({}). A version of Penstock that knows no queue_owner "
                    "cannot open them: before it is installed, start this one once with queue_owner = $mail_owner",
                    shown, done.files, owners_.queue.uid, owners_.apart() ? "queue_owner" : "mail_owner"));
    return {};
  }

  const config::Settings& settings_;
  const service::Owners& owners_;
  const Told& told_;
};

/// data_directory, and in it what each program keeps there. The directory is root's, so that nobody makes or renames
/// what another program keeps.
Result<void> prepare_data_for(const config::Settings& settings, const service::Owners& owners, const Told& told) {
  const std::string& path = settings.data_directory;
  const service::Account& mail = owners.mail;
  if (::geteuid() != 0) {
    PEN_TRY(make_directory(AT_FDCWD, path, path, {.mode = 0700, .uid = mail.uid, .gid = mail.gid}));
    return {};
  }
  Rights rights{.mode = owners.apart() ? 0711U : 0710U, .uid = 0, .gid = mail.gid};
  const bool open = confine::events_in_data(settings);
  if (open) {
    rights = owners.apart() ? Rights{.mode = 01771, .uid = 0, .gid = mail.gid} : Rights{0700, mail.uid, mail.gid};
    told(
        fmt::format("a file of events stands in {} itself: so programs may make and rename files there. Name a "
                    "directory below it in event_log_file and event_accounting_file",
                    path));
  }
  struct stat before{};
  const bool there = ::lstat(path.c_str(), &before) == 0;
  PEN_TRY_ASSIGN(const Fd data, make_directory(AT_FDCWD, path, path, rights));
  const bool was_open = there && (before.st_uid != 0 || (before.st_mode & (S_IWGRP | S_IWOTH)) != 0);
  if (was_open && !open)
    told(
        fmt::format("{} is root's from now on; what each program keeps in it stays where it is, and is that program's "
                    "alone. An older version makes it its own again when it starts",
                    path));
  Maker maker(settings, owners, told);
  for (const confine::Kept& what : confine::kept_in_data(settings))
    if (!open || what.account == confine::Account::queue) PEN_TRY(maker.kept(data, what));
  if (::fsync(data.get()) != 0) return fail_errno("fsync " + path);
  return {};
}

}  // namespace

Result<void> prepare_data(const config::Config& config, const Told& told) {
  PEN_TRY_ASSIGN(const service::Owners owners, service::owners(config.settings()));
  return prepare_data_for(config.settings(), owners, told);
}

Result<void> prepare_state(const config::Config& config) {
  const std::string& queue = config.settings().queue_directory;
  PEN_TRY(service::wanted_owners(config.settings()));
  PEN_TRY_ASSIGN(const Fd top, make_directory(AT_FDCWD, queue, queue, {.mode = 0755}));
  PEN_TRY(make_directory(top.get(), "pid", queue + "/pid", {.mode = 0700}));
  return {};
}

Result<void> prepare_directories(const config::Config& config, Programs programs, const Told& told) {
  const config::Settings& settings = config.settings();
  // What runs keeps the queue that it has open: the move waits for a start.
  PEN_TRY_ASSIGN(const service::Owners owners,
                 programs == Programs::run ? service::owners(settings) : service::wanted_owners(settings));
  const service::Account& owner = owners.mail;
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
  // Sockets are where two accounts meet: neither may replace what the other connects to.
  const bool apart = owners.apart();
  PEN_TRY(below("private", apart ? Rights{.mode = 0710, .uid = 0, .gid = owner.gid} : own));
  PEN_TRY(
      below("public", apart ? Rights{.mode = 0710, .uid = 0, .gid = drop_group.value_or(owner.gid)} : shared(0710)));
  // Every user of the host may come here; an instance of an ordinary user is that user's alone.
  const mode_t open_mode = root ? 0711 : 0700;
  PEN_TRY(below("open", apart ? Rights{.mode = open_mode} : Rights{open_mode, owner.uid, owner.gid}));
  // As in Postfix: members of the group may leave a file here, but neither see nor remove any.
  PEN_TRY(below("maildrop", shared(01730)));
  PEN_TRY(below("corrupt", own));
  PEN_TRY(record_configuration(top, config.directory()));
  PEN_TRY(prepare_data_for(settings, owners, told));
  if (root) {
    Maker maker(settings, owners, told);
    PEN_TRY(maker.queue_directory(top, settings.spool_directory));
    // The queue log last: from its owner programs and tools learn the account that they work with (service::owners()).
    PEN_TRY(maker.queue_directory(top, settings.queue_log_directory));
  } else {
    for (const auto& directory : {settings.queue_log_directory, settings.spool_directory})
      if (const auto name = name_below(queue, directory)) PEN_TRY(below(*name, own));
  }
  // Entries of directories must be as durable as the data below them.
  if (::fsync(top.get()) != 0) return fail_errno("fsync " + queue);
  return {};
}

}  // namespace pen::master
