#include "keeper/watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "keeper/message.h"
#include "lib/suite/service/standby.h"

namespace pen::keeper {
namespace {

// For a directory that nobody else can enter or replace.
constexpr const char* kPlaces[] = {"/run", "/tmp"};
constexpr std::string_view kName = "penstock-keeper.";
// More than one in a message is nothing that master sends: they are taken to be closed.
constexpr std::size_t kMostAtOnce = 4;
// Descriptors of its own, and room for those of libraries.
constexpr rlim_t kOwn = 64;

SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

/// What keepers that were killed have left: directories with a socket, which was bound under a lock that is free now.
void clear_former(const std::string& place) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (!at->path().filename().string().starts_with(kName)) continue;
    const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat st{};
    if (!directory || ::fstat(directory.get(), &st) != 0 || st.st_uid != ::geteuid()) continue;
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (::unlinkat(directory.get(), "notify", 0) == 0) ::rmdir(path.c_str());
  }
}

sigset_t heard_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signo : {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH})
    ::sigaddset(&set, signo);
  return set;
}

/// A new master has each of them twice for a moment.
std::size_t most_kept() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < kOwn) return 0;
  return std::min<rlim_t>((limit.rlim_cur - kOwn) / 2, kMostKept);
}

struct Heard {
  pid_t from = -1;
  std::string text;
  std::vector<Fd> descriptors;
};

/// The next message; nullopt: none waits.
std::optional<Heard> next_message(int socket) {
  Heard heard;
  heard.text.resize(kMostText + 1);
  iovec part{heard.text.data(), heard.text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMostAtOnce * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) return std::nullopt;
  heard.text.resize(static_cast<std::size_t>(n));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred who{};
      std::memcpy(&who, CMSG_DATA(header), sizeof who);
      heard.from = who.pid;
    } else if (header->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        heard.descriptors.emplace_back(fd);
      }
    }
  }
  return heard;
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::make(Place place, int report) {
  std::unique_ptr<Watch> watch(new Watch(std::move(place), report));
  PEN_TRY(watch->open());
  return watch;
}

Watch::Watch(Place place, int report) : place_(std::move(place)), report_(report), kept_(most_kept()) {}

Watch::~Watch() {
  if (directory_.empty()) return;
  ::unlink((directory_ + "/notify").c_str());
  ::rmdir(directory_.c_str());
}

Result<void> Watch::open() {
  for (const char* place : kPlaces) {
    clear_former(place);
    std::string name = fmt::format("{}/{}XXXXXX", place, kName);
    if (::mkdtemp(name.data()) == nullptr) continue;
    directory_ = std::move(name);
    break;
  }
  if (directory_.empty()) return fail_errno("a directory for the keeper's socket in /run or /tmp");
  // Before there is a socket in it: what is not locked is a former keeper's. Those that clean /tmp respect it as well.
  lock_ = Fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Another keeper that starts may hold it for the moment in which it looks whether there is a socket.
  if (!lock_ || ::flock(lock_.get(), LOCK_SH) != 0) return fail_errno("lock " + directory_);
  notify_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_ + "/notify";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int on = 1;
  if (!notify_ || ::setsockopt(notify_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(notify_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("the keeper's socket " + path);
  // A starter may ignore it, which an exec keeps: the kernel would reap master and say nothing.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t heard = heard_signals();
  ::sigprocmask(SIG_SETMASK, &heard, nullptr);
  signals_ = Fd(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno("signalfd");
  PEN_TRY_ASSIGN(door_, service::open_keeper_door(place_.directory));
  return {};
}

int Watch::run() {
  start();
  while (!done_) {
    pollfd look[] = {{signals_.get(), POLLIN, 0}, {notify_.get(), POLLIN, 0}, {door_.get(), POLLIN, 0}};
    if (::poll(look, std::size(look), patience()) < 0 && errno != EINTR) return EX_OSERR;
    hear();
    take_signals();
    service::answer_at_door(door_.get(), master_ >= 0 ? "" : service::keeper_answer(outlook(), until_next()));
    if (!done_ && master_ < 0) let_another_host();
    if (!done_ && master_ < 0 && steady_now() >= next_) start();
  }
  return status_;
}

/// For poll(): until the next master starts, or another host may have the queue, in milliseconds.
int Watch::patience() const {
  if (master_ >= 0) return -1;
  const auto left = std::chrono::ceil<milliseconds>(std::min(next_, lease_ends()) - steady_now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

/// When what is kept must not hold the queue any more.
SteadyTime Watch::lease_ends() const {
  return place_.lease.count() == 0 || kept_.size() == 0 ? SteadyTime::max() : lost_ + place_.lease;
}

/// A master that is being started has copies of its own: it goes on, or ends and is seen here.
void Watch::let_another_host() {
  if (steady_now() < lease_ends()) return;
  kept_.let_go();
  log(log::Level::warning, fmt::format("no master has been ready for {} s, standby_lease_time: all programs end, and "
                                       "another host may have the queue",
                                       std::chrono::ceil<seconds>(place_.lease).count()));
}

void Watch::start() {
  if (std::exchange(lets_go_, false)) kept_.let_go();
  ready_ = {};
  began_ = steady_now();
  master_ = run_master(place_, directory_ + "/notify", kept_, report_);
  const int why = errno;
  if (report_ >= 0) ::close(std::exchange(report_, -1));
  if (master_ < 0)
    ended({.value = EX_OSERR, .at = began_}, "master cannot be started: " + Error::from_errno(why).message());
}

void Watch::hear() {
  while (auto heard = next_message(notify_.get())) {
    if (heard->from != master_ || master_ < 0) continue;
    Fd fd;
    if (heard->descriptors.size() == 1) fd = std::move(heard->descriptors.front());
    take(heard->text, std::move(fd));
  }
}

void Watch::take(std::string_view text, Fd fd) {
  const auto said = parse(text);
  if (!said) return;
  if (said->ready && ready_ == SteadyTime{}) ready_ = steady_now();
  if (said->stopping) meant_ = true;
  if (said->forgets) kept_.forget(said->name);
  if (!said->keeps || !fd || kept_.keep(said->name, std::move(fd)) || std::exchange(over_full_, true)) return;
  log(log::Level::warning,
      fmt::format("there is room for {} descriptors alone (ulimit -n): not every program outlives master",
                  kept_.size()));
}

void Watch::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signo = static_cast<int>(info.ssi_signo);
    switch (signo) {
      case SIGCHLD:
        look_after_children();
        break;
      case SIGTERM:
      case SIGINT:
      case SIGQUIT:
        stop(signo);
        break;
      default:
        if (master_ >= 0)
          ::kill(master_, signo);
        else if (signo == SIGHUP)
          next_ = steady_now();
    }
  }
}

void Watch::stop(int signo) {
  meant_ = true;
  if (master_ >= 0)
    ::kill(master_, signo);
  else
    done_ = true;
}

void Watch::look_after_children() {
  std::erase_if(writers_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  siginfo_t info{};
  if (master_ < 0) return;
  const bool known = ::waitid(P_PID, static_cast<id_t>(master_), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  const bool lost = !known && errno == ECHILD;  // somebody else has waited for it
  if (!lost && (!known || info.si_pid != master_)) return;
  hear();  // its last words: until it is waited for, the number is its own
  const pid_t pid = std::exchange(master_, -1);
  ::waitpid(pid, nullptr, 0);
  const bool killed = !lost && info.si_code != CLD_EXITED, ready = ready_ != SteadyTime{};
  const SteadyTime now = steady_now();
  const End end{.killed = killed,
                .value = lost ? EX_OSERR : info.si_status,
                .meant = meant_,
                .ready = ready,
                .lived = now - began_,
                .served = ready ? now - ready_ : std::chrono::nanoseconds(0),
                .at = now};
  const char* how = killed ? "was killed by signal" : "ended with status";
  ended(end, lost ? fmt::format("master pid {} has ended, nobody knows how", pid)
                  : fmt::format("master pid {} {} {}", pid, how, info.si_status));
}

void Watch::ended(const End& end, const std::string& text) {
  if (end.ready || end.lived >= kSurelyReady) lost_ = steady_now();
  const Next next = course_.after(end, kept_.size() != 0);
  last_end_ = text;
  const int row = course_.in_a_row();
  if (row > 1) last_end_ += fmt::format(", {} times in a row", row);
  if (next.let_go && row < kLetsGo) last_end_ += fmt::format(", {} times in {} s", kLetsGo, kWindow.count());
  if (!next.start) {
    // Of an end by itself at the first start master says the reason.
    if (!end.meant && (end.killed || row > 0)) log(log::Level::error, last_end_ + ": no other one is started");
    done_ = true;
    status_ = next.status;
    return;
  }
  next_ = steady_now() + next.pause;
  lets_go_ = next.let_go;  // by start(): until then programs serve
  const char* programs = kept_.size() != 0 ? "programs go on, and it takes them over" : "nothing is kept for it";
  if (next.let_go) programs = "all programs end then, and start anew with it";
  log(log::Level::warning, outlook() + "; " + programs);
}

milliseconds Watch::until_next() const { return std::chrono::ceil<milliseconds>(next_ - steady_now()); }

/// What is to come after the master that has ended, for the log and for tools that ask.
std::string Watch::outlook() const {
  const auto left = std::chrono::ceil<seconds>(until_next()).count();
  return last_end_ + (left <= 0 ? ": the next one starts at once" : fmt::format(": the next one starts in {} s", left));
}

void Watch::log(log::Level level, const std::string& text) {
  if (const pid_t pid = say(place_, level, text); pid > 0) writers_.push_back(pid);
}

}  // namespace pen::keeper
