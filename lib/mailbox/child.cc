#include "lib/mailbox/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "lib/async/fd.h"
#include "lib/base/log.h"
#include "lib/mailbox/content.h"
#include "lib/mailbox/text_file.h"

namespace pen::mailbox {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
// For a command: it is stopped by the child first, with all that it has begun.
constexpr std::chrono::seconds kGrace{5};
constexpr int kAnswerFd = 3, kBodyFd = 4;

Answer trouble(std::string dsn, std::string text) {
  Answer a;
  a.status.action = mail::Action::deferred;
  a.status.dsn = std::move(dsn);
  a.status.text = std::move(text);
  return a;
}

// ---- in the child: no locks of other threads are taken here (glibc's malloc is safe after fork),
// no logging ----

void plain_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s)
    (void)::sigaction(s, &action, nullptr);  // SIGKILL and the like refuse: fine
  action.sa_handler = SIG_IGN;
  (void)::sigaction(SIGPIPE, &action, nullptr);
  (void)::sigaction(SIGXFSZ, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<void> become(const Identity& who) {
  if (who.uid == 0) return fail_errno("refusing to deliver as root", EPERM);
  if (::setgroups(who.groups.size(), who.groups.data()) != 0) return fail_errno("setgroups");
  if (::setresgid(who.gid, who.gid, who.gid) != 0) return fail_errno("setgid");
  if (::setresuid(who.uid, who.uid, who.uid) != 0) return fail_errno("setuid");
  if (::setuid(0) == 0) return fail_errno("privileges did not go away", EPERM);
  return {};
}

bool is_one_of(int error, std::initializer_list<int> errors) {
  return std::ranges::find(errors, error) != errors.end();
}

/// What became of the search for a forward file.
struct Forward {
  std::string path, text,
      ignored;  // path empty: there is none. ignored: it is there, and why it does not count
};
Result<Forward> find_forward(const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) {
      // Nothing that could be a file of this user.
      if (is_one_of(errno, {ENOENT, ENOTDIR, ELOOP, EACCES, ENAMETOOLONG})) continue;
      return fail_errno("cannot read " + path);
    }
    auto file = read_text_file(path, kMaxForward, Links::refuse);
    if (!file) {
      const int why = file.error().sys_errno();
      if (why == ENOENT) continue;  // gone meanwhile
      if (is_one_of(why, {ENOTDIR, ELOOP, EINVAL, EPERM, EACCES, ENXIO}))
        return Forward{path, {}, file.error().message()};
      return std::unexpected(std::move(file).error());
    }
    if (file->owner != ::geteuid() && file->owner != 0)
      return Forward{path, {}, fmt::format("{} belongs to uid {}", path, file->owner)};
    return Forward{path, std::move(file->text), {}};
  }
  return Forward{};
}

Result<std::string_view> read_some(std::string& buffer) {
  for (;;) {
    const auto n = ::read(kBodyFd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read content");
    return std::string_view(buffer).substr(0, static_cast<std::size_t>(n));
  }
}

/// The parent has closed its end: nobody wants the outcome any more.
bool called_off() {
  pollfd answer{kAnswerFd, 0, 0};
  return ::poll(&answer, 1, 0) > 0;
}

/// An mbox cannot be completed later: small content is taken whole before the file is touched, so that the death of
/// the parent at any moment leaves either all or nothing. Larger content is cut off again by store() at an early end.
mail::DeliveryStatus store_content(const Work& work) {
  std::string buffer(kChunk, '\0');
  const auto chunks = [&] { return read_some(buffer); };
  if (work.target.form != Form::mbox || work.message.size > kWholeContent)
    return store(work.target, work.message, chunks, called_off);
  std::string whole;
  whole.reserve(work.message.size);
  for (;;) {
    auto chunk = chunks();
    if (!chunk) return trouble("4.3.0", chunk.error().message()).status;
    if (chunk->empty()) break;
    whole += *chunk;
  }
  if (whole.size() != work.message.size) return trouble("4.3.0", "content incomplete").status;
  std::string_view rest = whole;
  const auto once = [&]() -> Result<std::string_view> {
    return std::exchange(rest, std::string_view{});
  };
  return store(work.target, work.message, once, called_off);
}

/// The place has not been looked at: a mailbox that is not there yet would be made.
mail::DeliveryStatus would_do(const Work& work) {
  std::string where = work.target.shown;
  if (where.empty()) where = work.target.form == Form::maildir ? "maildir" : "mailbox";
  if (work.command) where = "command: " + work.command->shown();
  return mail::make_status(mail::Action::delivered, "2.0.0", "delivers to " + where);
}

Answer child_work(const Work& work, std::chrono::seconds limit) {
  if (!work.root.empty() && (::chroot(work.root.c_str()) != 0 || ::chdir("/") != 0))
    return trouble("4.3.5", "chroot " + work.root + ": " + Error::from_errno(errno).message());
  if (work.become) {
    if (auto r = become(*work.become); !r)
      return trouble("4.3.5", "cannot take the recipient's rights: " + r.error().message());
  }
  // No other process of this user may look into this one, which was made from one with everybody's mail.
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(077);
  if (::chdir("/") != 0) return trouble("4.3.5", "cannot change to /");
  Answer answer;
  if (!work.read_path.empty()) {
    auto file = read_text_file(work.read_path, work.read_limit, Links::follow);
    if (!file) return trouble("4.3.5", file.error().message());
    answer.file_found = true;
    answer.file_text = std::move(file->text);
    answer.file_owner = file->owner;
    return answer;
  }
  struct stat st{};
  if (!work.home.empty() && ::stat(work.home.c_str(), &st) != 0)
    return trouble("4.3.0", fmt::format("cannot use the home directory {}: {}", work.home,
                                        Error::from_errno(errno).message()));
  auto forward = find_forward(work.forward_files);
  if (!forward) return trouble("4.3.5", forward.error().message());
  answer.file_ignored = std::move(forward->ignored);
  // An empty one is as good as none.
  if (!forward->text.empty()) {
    answer.file_found = true;
    answer.file_path = std::move(forward->path);
    answer.file_text = std::move(forward->text);
    return answer;
  }
  if (work.only_look)
    answer.status = would_do(work);
  else if (work.command)
    answer.status = run_command(*work.command, work.message, kBodyFd, kAnswerFd, limit);
  else
    answer.status = store_content(work);
  return answer;
}

[[noreturn]] void child(const Work& work, int answer_fd, int body_fd, std::chrono::seconds limit) {
  plain_signals();
  // Above the fixed numbers first, so that neither dup2 closes the other.
  const int high_answer = ::fcntl(answer_fd, F_DUPFD_CLOEXEC, 10);
  const int high_body = ::fcntl(body_fd, F_DUPFD_CLOEXEC, 10);
  if (high_answer < 0 || high_body < 0 || ::dup2(high_answer, kAnswerFd) < 0 ||
      ::dup2(high_body, kBodyFd) < 0)
    ::_exit(71);
  if (::close_range(5, ~0U, 0) != 0) ::_exit(71);
  ::alarm(static_cast<unsigned>((limit + kGrace).count()));
  const std::string answer = encode(child_work(work, limit));
  std::string_view rest = answer;
  while (!rest.empty()) {
    const auto n = ::write(kAnswerFd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(74);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  ::_exit(0);
}

// ---- in the parent ----

/// Children that did not end when killed (uninterruptible I/O): reaped when they do.
class Stragglers {
 public:
  void add(pid_t pid) {
    std::lock_guard lock(mutex_);
    pids_.push_back(pid);
  }
  void reap() {
    std::lock_guard lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};
Stragglers& stragglers() {
  static Stragglers instance;
  return instance;
}

class Feeder {
 public:
  Feeder(const ipc::Content& body, async::Fd socket) : body_(body), socket_(std::move(socket)) {}
  bool open() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }
  /// Sends what fits. Closes the socket at the end, or when the child no longer reads.
  void pump() {
    for (;;) {
      if (pending_.empty() && !fill()) return socket_.reset();
      const auto n =
          ::send(socket_.get(), pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return socket_.reset();
      pending_.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  const std::string& error() const { return error_; }

 private:
  bool fill() {
    if (sent_ >= body_.size()) return false;
    if (body_.in_memory()) {
      pending_ = body_.memory();
    } else {
      buffer_.resize(std::min<std::uint64_t>(kChunk, body_.size() - sent_));
      if (auto done = body_.read(sent_, buffer_); !done) {
        error_ = done.error().message();
        return false;
      }
      pending_ = buffer_;
    }
    sent_ += pending_.size();
    return true;
  }

  const ipc::Content& body_;
  async::Fd socket_;
  std::string buffer_;
  std::string_view pending_;
  std::uint64_t sent_ = 0;
  std::string error_;
};

}  // namespace

Answer deliver_in_child(Work work, const ipc::Content& body, std::chrono::seconds time_limit,
                        const Ending* ending) {
  stragglers().reap();
  const auto ended_meanwhile = [] {
    return trouble("4.3.0", "the conversation with the queue manager has ended");
  };
  if (ending != nullptr && ending->has_come()) return ended_meanwhile();
  work.message.size = body.size();
  work.message.from_line = mbox_from_line(work.message.sender, work.message.now);
  int answer_pipe[2], body_pair[2];
  if (::pipe2(answer_pipe, O_CLOEXEC) != 0)
    return trouble("4.3.0", Error::from_errno(errno, "pipe").message());
  async::Fd answer_in(answer_pipe[0]), answer_out(answer_pipe[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, body_pair) != 0)
    return trouble("4.3.0", Error::from_errno(errno, "socketpair").message());
  async::Fd body_in(body_pair[0]), body_out(body_pair[1]);

  log::flush();  // or the child would have a copy of what waits
  const pid_t pid = ::fork();
  if (pid < 0) return trouble("4.3.0", Error::from_errno(errno, "fork").message());
  if (pid == 0) child(work, answer_out.get(), body_in.get(), time_limit);
  answer_out.reset();
  body_in.reset();

  const auto deadline =
      std::chrono::steady_clock::now() + time_limit + (work.command ? 2 * kGrace : seconds(0));
  const std::size_t max_answer = std::max(kMaxForward, work.read_limit) + 64 * 1024;
  Feeder feeder(body, std::move(body_out));
  std::string raw;
  bool ended = false, late = false;
  while (!ended) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) {
      late = true;
      break;
    }
    pollfd fds[3] = {{answer_in.get(), POLLIN, 0},
                     {feeder.open() ? feeder.fd() : -1, POLLOUT, 0},
                     {ending != nullptr ? ending->fd() : -1, POLLIN, 0}};
    const int n = ::poll(fds, 3, static_cast<int>(std::min<long long>(left, 60'000)));
    if (n < 0 && errno != EINTR) break;
    if (n <= 0) continue;
    if (fds[2].revents != 0) {
      // It sees both pipes closed, and ends by itself.
      stragglers().add(pid);
      return ended_meanwhile();
    }
    if (fds[1].revents != 0) feeder.pump();
    if (fds[0].revents != 0) {
      char chunk[16 * 1024];
      const auto got = ::read(answer_in.get(), chunk, sizeof chunk);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0)
        ended = true;
      else
        raw.append(chunk, static_cast<std::size_t>(got));
      if (raw.size() > max_answer) break;
    }
  }
  if (!ended) (void)::kill(pid, SIGKILL);
  int wait_status = 0;
  pid_t waited = 0;
  if (ended) {
    do {
      waited = ::waitpid(pid, &wait_status, 0);
    } while (waited < 0 && errno == EINTR);
  } else {
    waited = ::waitpid(pid, &wait_status, WNOHANG);
    if (waited == 0) stragglers().add(pid);
  }
  if (late)
    return trouble("4.3.0", fmt::format("delivery took longer than {} seconds and was stopped",
                                        time_limit.count()));
  if (auto answer = decode<Answer>(raw); ended && answer) {
    if (!feeder.error().empty() && answer->status.action != mail::Action::delivered &&
        !answer->file_found)
      answer->status.text += " (" + feeder.error() + ")";
    return *std::move(answer);
  }
  if (waited == pid && WIFSIGNALED(wait_status))
    return trouble("4.3.0",
                   fmt::format("delivery process killed by signal {}", WTERMSIG(wait_status)));
  return trouble("4.3.0", "delivery process ended without an answer");
}

}  // namespace pen::mailbox
