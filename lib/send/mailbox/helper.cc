#include "lib/send/mailbox/helper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/worker.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/service/table_request.h"

namespace pen::mailbox {
namespace {

constexpr int kWrongUse = 64, kSystemFault = 71;  // sysexits.h

constexpr int kHearsSocket = 5;
constexpr int kOut = 10;         // out of the way of the numbers that are given out
constexpr int kFirstAsker = 20;  // and up: sockets of programs
constexpr std::size_t kLongestTold = 400;

void plain_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) (void)::sigaction(s, &action, nullptr);  // may fail for SIGKILL and the like
  action.sa_handler = SIG_IGN;
  (void)::sigaction(SIGPIPE, &action, nullptr);
  (void)::sigaction(SIGXFSZ, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Makes a new pair kTellsSocket and kHearsSocket; closes all others but the standard ones, kHelperSocket, and those of
/// kFirstAsker and up.
bool arrange() {
  int pair[2];
  if (::fcntl(kHelperSocket, F_GETFD) < 0 && ::dup2(STDIN_FILENO, kHelperSocket) < 0) return false;  // keeps its number
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) return false;
  const int tells = ::fcntl(pair[0], F_DUPFD, kOut), hears = ::fcntl(pair[1], F_DUPFD, kOut);
  return tells >= 0 && hears >= 0 && ::dup2(tells, kTellsSocket) >= 0 && ::dup2(hears, kHearsSocket) >= 0 &&
         ::close_range(kHearsSocket + 1, kFirstAsker - 1, 0) == 0;
}

void write_to_log(const Policy& policy, std::string_view text) {
  // Opened for this one line: the file may differ from the one of the last line.
  auto opened = log::open({.program = std::string(kHelperName),
                           .tag = policy.log_tag,
                           .hostname = policy.log_host,
                           .target = policy.log_path.empty() ? log::Target::syslog : log::Target::file,
                           .path = policy.log_path,
                           .syslog_facility = policy.log_facility});
  if (!opened) log::warning("{}", opened.error().message());  // to the place of earlier lines
  log::warning("service {}: refused: {}", policy.name, text);
}

// For a process that asks, in a process that was made for it.
unsigned asked_by = 0;

/// A program that asks.
struct Known {
  Fd socket;
  Asker asker;
  bool settled = false;  // it has sent its policy
  unsigned told = 0;     // lines in the log
  std::uint64_t living = 0;
  /// Processes that may live at once. Processes that wait for a request count as well.
  std::uint64_t most() const {
    if (asker.policy.service == Policy::Service::tables) return kTablesAtOnce;
    return asker.policy.at_once == 0 ? kProcessesAtOnce : asker.policy.at_once + kAhead;
  }
  bool full() const { return living >= most(); }
};

/// The end of a process comes only while the helper waits: none is missed between the count and the wait. What ends
/// programs does not end it before them.
void helper_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  (void)::sigaction(SIGCHLD, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) (void)::sigaction(s, &action, nullptr);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGCHLD);
  (void)::sigprocmask(SIG_BLOCK, &one, nullptr);
}

class Helper {
 public:
  /// introduce: null where there is no master, and kHelperSocket is closed.
  explicit Helper(const Introduce* introduce) : introduce_(introduce) { sigemptyset(&none_); }

  void add(Known known) { known_.emplace(++last_, std::move(known)); }

  [[noreturn]] void run() {
    helper_signals();
    while (introduce_ != nullptr || !known_.empty()) turn();
    ::_exit(0);
  }

 private:
  void turn() {
    collect();
    std::vector<pollfd> sockets{{kHearsSocket, POLLIN, 0}, {introduce_ ? kHelperSocket : -1, POLLIN, 0}};
    std::vector<unsigned> ids;
    for (const auto& [id, known] : known_) {
      sockets.push_back({known.socket.get(), static_cast<short>(known.full() ? 0 : POLLIN), 0});
      ids.push_back(id);
    }
    if (::ppoll(sockets.data(), sockets.size(), nullptr, &none_) < 0) {
      if (errno == EINTR) return;
      ::_exit(kSystemFault);
    }
    if (sockets[0].revents != 0) hear();
    if (sockets[1].revents != 0) meet();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (sockets[i + 2].revents == 0) continue;
      Known& known = known_.at(ids[i]);
      if (known.full() || !attend(ids[i], known)) known_.erase(ids[i]);  // it has ended
    }
  }

  void collect() {
    for (pid_t pid = 0; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;) {
      const auto counted = counted_.extract(pid);
      if (counted.empty()) continue;
      if (const auto known = known_.find(counted.mapped()); known != known_.end()) --known->second.living;
    }
  }

  /// Reads what processes report: at most so many lines a program, because an attacker in it may report without end.
  void hear() {
    char text[kLongestTold];
    for (ssize_t n = 0; (n = ::recv(kHearsSocket, text, sizeof text, MSG_DONTWAIT)) > 0;) {
      const std::string_view told(text, static_cast<std::size_t>(n));
      const auto space = told.find(' ');
      const auto id = parse_unsigned(told.substr(0, space));
      const auto known = id ? known_.find(static_cast<unsigned>(*id)) : known_.end();
      if (known == known_.end() || space == told.npos || known->second.told++ >= kMostRefusals) continue;
      write_to_log(known->second.asker.policy, told.substr(space + 1));
    }
  }

  /// A program that master is about to start; or master's end.
  void meet() {
    auto packet = receive_descriptor(kHelperSocket);
    if (!packet || (!packet->descriptor && packet->bytes.empty())) {
      introduce_ = nullptr;
      (void)::dup2(STDIN_FILENO, kHelperSocket);  // keeps its number
      return;
    }
    if (!packet->descriptor) return;
    auto asker = (*introduce_)(packet->bytes);
    if (!asker) return;  // its socket closes, and it hears of that
    Known known;
    known.socket = Fd(::fcntl(packet->descriptor.get(), F_DUPFD_CLOEXEC, kFirstAsker));
    known.asker = *std::move(asker);
    if (known.socket) add(std::move(known));
  }

  /// false: it has ended, or is not what it should be.
  bool attend(unsigned id, Known& known) {
    auto packet = receive_descriptor(known.socket.get());
    if (!packet || (!packet->descriptor && packet->bytes.empty())) return false;
    if (!known.settled) return settle(known, *packet);
    if (!packet->descriptor) return true;
    const pid_t pid = ::_Fork();
    if (pid == 0) become_process(id, known, packet->descriptor.release());
    if (pid > 0) {
      ++known.living;
      counted_[pid] = id;
    }
    return true;  // after a failed fork the control socket closes here
  }

  static bool settle(Known& known, const Received& first) {
    if (first.descriptor) return false;
    known.settled = true;
    if (first.bytes == service::kTablesOnly) return true;
    auto policy = decode<Policy>(first.bytes);
    // master has said which program this is: it gets no more than that program ever does.
    const bool wide = policy && (!may_send(known.asker.program, policy->service) ||
                                 (policy->service == Policy::Service::own) != (::geteuid() != 0));
    if (!policy || wide) {
      write_to_log(known.asker.policy, fmt::format("the policy that {} has sent", known.asker.program));
      return false;
    }
    known.asker.policy = *std::move(policy);
    // Modules of the name service are loaded once, not in each process anew.
    if (known.asker.policy.service == Policy::Service::users) (void)find_account(uid_t{0});
    return send_message(known.socket.get(), kHelperReady).has_value();
  }

  [[noreturn]] static void become_process(unsigned id, const Known& known, int control) {
    plain_signals();
    asked_by = id;
    if (::dup2(control, kHelperSocket) < 0 || ::close_range(kHearsSocket, ~0U, 0) != 0) ::_exit(kSystemFault);
    const Policy& policy = known.asker.policy;
    // Commands may be set-id files, as from a shell; where there are none, nothing gives new rights.
    const bool none = policy.service == Policy::Service::mailboxes || policy.service == Policy::Service::tables;
    if (none && policy.fewer_capabilities && ::geteuid() == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
      ::_exit(kSystemFault);
    run_worker(kHelperSocket, policy, known.asker.open_table);
  }

  const Introduce* introduce_;
  std::map<unsigned, Known> known_;
  std::map<pid_t, unsigned> counted_;  // the row that a process counts for, where they are counted
  unsigned last_ = 0;
  sigset_t none_{};
};

}  // namespace

bool is_helper(int argc, char** argv) { return argc > 1 && argv[0] == kHelperName && argv[1] == kHelperWord; }

void run_helper(bool fewer_capabilities, const Introduce& introduce) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(kHelperSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) ::_exit(kWrongUse);
  ::prctl(PR_SET_NAME, kHelperName.data());
#ifndef PEN_SANITIZED
  ::prctl(PR_SET_DUMPABLE, 0);
#endif
  plain_signals();
  // The bounding set stays whole: set-id files of commands must work as from a shell.
  const bool sheds = fewer_capabilities && ::geteuid() == 0;
  if (sheds && !confine::keep_capabilities(confine::row_of(kHelperName).keeps)) ::_exit(kSystemFault);
  if (!arrange()) ::_exit(kSystemFault);
  Helper(&introduce).run();
}

void nurse(int socket, Asker asker) {
  plain_signals();
  Known only;
  if (::dup2(socket, kFirstAsker) < 0 || ::close_range(kFirstAsker + 1, ~0U, 0) != 0 ||
      ::close_range(kHelperSocket, kFirstAsker - 1, 0) != 0 || !arrange())
    ::_exit(kSystemFault);
  only.socket = Fd(kFirstAsker);
  only.asker = std::move(asker);
  only.settled = true;
  Helper helper(nullptr);
  helper.add(std::move(only));
  helper.run();
}

void tell_refused(std::string_view what, std::string_view why) {
  const std::string text = fmt::format("{} {}: {}", asked_by, what, why).substr(0, kLongestTold);
  (void)::send(kTellsSocket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);  // full: there is enough to read
}

}  // namespace pen::mailbox
