#include "lib/send/mailbox/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/send/mailbox/job_stream.h"

namespace pen::mailbox {
namespace {

constexpr std::string_view kBlank = " \t";
constexpr std::size_t kMaxShown = 200;
constexpr std::size_t kMaxSaid = 100;  // bytes of a successful command's output
constexpr int kMaxLastReads = 32;      // of 4 KiB; a pipe holds 64

mail::DeliveryStatus deferred(std::string text) {
  return mail::make_status(mail::Action::deferred, "4.3.0", std::move(text));
}

/// Characters that mean the same with and without a shell.
bool plain(char c) { return ascii_alnum(c) || std::string_view("!@%-_=+:,./ \t").contains(c); }

struct ExitMeaning {
  int status;
  std::string_view dsn, text;
};
/// The exit codes of sysexits.h, each with its RFC 3463 status.
constexpr ExitMeaning kMeanings[] = {
    {EX_USAGE, "5.3.0", "the command was called wrongly"},
    {EX_DATAERR, "5.6.0", "the command cannot use this message"},
    {EX_NOINPUT, "5.3.0", "the command has no input"},
    {EX_NOUSER, "5.1.1", "user unknown"},
    {EX_NOHOST, "5.1.2", "host name unknown"},
    {EX_UNAVAILABLE, "5.3.0", "service unavailable"},
    {EX_SOFTWARE, "5.3.0", "internal error of the command"},
    {EX_OSERR, "4.3.0", "system error"},
    {EX_OSFILE, "5.3.0", "a system file is missing"},
    {EX_CANTCREAT, "5.2.0", "the command cannot create its output"},
    {EX_IOERR, "4.3.0", "input or output error"},
    {EX_TEMPFAIL, "4.3.0", "temporary failure"},
    {EX_PROTOCOL, "5.5.0", "protocol error"},
    {EX_NOPERM, "5.7.0", "permission denied"},
    {EX_CONFIG, "5.3.5", "configuration error"},
};

/// The output as one line, fit for a log and a notification.
std::string one_line(std::string_view output) {
  std::string line;
  for (const char c : trim(output)) {
    const bool gap = static_cast<unsigned char>(c) <= ' ' || c == 127;
    if (!gap)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return printable(trim(line), kMaxOutput);
}

/// The part of a status's text that quotes the output.
std::string said(const std::string& line) { return line.empty() ? "" : ". Command output: " + line; }

/// Splits "4.7.1 text" at the start of the output into {"4.7.1", "text"}.
std::optional<std::pair<std::string, std::string>> stated(const std::string& line) {
  std::size_t at = 0;
  int number = 0;
  for (; number < 3; ++number) {
    const std::size_t start = at;
    while (at < line.size() && at - start < 3 && line[at] >= '0' && line[at] <= '9') ++at;
    if (at == start) return std::nullopt;
    if (number == 0 && (at != 1 || (line[0] != '4' && line[0] != '5'))) return std::nullopt;
    if (number < 2 && (at >= line.size() || line[at++] != '.')) return std::nullopt;
  }
  if (at < line.size() && line[at] != ' ') return std::nullopt;
  return std::pair(line.substr(0, at), std::string(trim(std::string_view(line).substr(at))));
}

mail::DeliveryStatus unsuccessful(std::string dsn, std::string text, const std::string& output) {
  auto status = mail::make_status(dsn.starts_with('4') ? mail::Action::deferred : mail::Action::failed, std::move(dsn),
                                  std::move(text));
  status.diagnostic = "x-unix; " + (output.empty() ? status.text : output);
  return status;
}

// ---- the command's own process, between fork and exec ----

struct Failure {  // why the command did not start
  int error = 0;
  bool directory = false;
};

/// The arguments of exec, made before the fork: afterwards, other threads may hold malloc's locks.
struct Prepared {
  Prepared(const Command& c, const std::vector<std::string>& words) : command(c) {
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    for (const auto& entry : c.environment) envp.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
  const Command& command;
  std::vector<char*> argv, envp;
};

[[noreturn]] void become_command(const Prepared& prepared, pid_t feeder, int in, int out, int failure_pipe) {
  const Command& command = prepared.command;
  ::setpgid(0, 0);
  // If the feeding process ends early, the command must not take that for the end of the message.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != feeder) ::_exit(EX_OSERR);
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) (void)::sigaction(s, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::umask(077);
  Failure failure;
  const int high = ::fcntl(failure_pipe, F_DUPFD_CLOEXEC, 10);
  if (high < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) ::_exit(EX_OSERR);
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) ::_exit(EX_OSERR);
  if (::chdir(command.directory.c_str()) != 0) {
    failure = {errno, true};
  } else {
    char* const* argv = prepared.argv.data();
    ::environ = const_cast<char**>(prepared.envp.data());
    ::execvp(argv[0], argv);
    failure = {errno, false};
    // A word that only a shell knows, such as "exit".
    if (errno == ENOENT && !command.line.empty() && command.shell.empty() && std::strchr(argv[0], '/') == nullptr)
      ::execl("/bin/sh", "sh", "-c", command.line.c_str(), nullptr);
  }
  (void)!::write(high, &failure, sizeof failure);
  ::_exit(EX_OSERR);
}

// ---- the process that feeds it ----

class Run {
 public:
  Run(const Command& command, const Message& message, JobStream& job)
      : command_(command), message_(message), job_(job), form_(command.form) {}

  mail::DeliveryStatus operator()(std::chrono::seconds limit) {
    form_.head((command_.from_line ? message_.from_line : "") + message_.fields, pending_);
    if (message_.size <= kWholeContent) {
      while (!ended_)
        if (!read_content()) return deferred("the message could not be read completely");
    }
    if (job_.called_off()) return deferred("nobody waits for the command any more");
    if (auto started = start(); !started) return deferred(started.error().message());
    return talk(std::chrono::steady_clock::now() + limit);
  }

 private:
  bool read_content() {
    const auto piece = job_.read();
    if (!piece) return false;
    form_.feed(*piece, pending_);
    if (!job_.whole()) return true;
    form_.finish(pending_);
    ended_ = true;
    return true;
  }

  Result<void> start() {
    int in[2], out[2], failure[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd in_read(in[0]);
    in_ = Fd(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return fail_errno("pipe");
    out_ = Fd(out[0]);
    Fd out_write(out[1]);
    if (::pipe2(failure, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd failure_read(failure[0]), failure_write(failure[1]);
    ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(out_.get(), F_SETFL, O_NONBLOCK);
    const auto words = command_words(command_);
    if (words.empty()) return fail_errno("the command is empty", EINVAL);
    const Prepared prepared(command_, words);
    const pid_t self = ::getpid();
    // Not fork(): the handlers that libuv runs in the child close descriptors by number, and here these are ours. No
    // lock is taken before exec.
    pid_ = ::_Fork();
    if (pid_ < 0) return fail_errno("fork");
    if (pid_ == 0) become_command(prepared, self, in_read.get(), out_write.get(), failure_write.get());
    (void)::setpgid(pid_, pid_);  // in both processes, because either may run first
    failure_write.reset();
    Failure why;
    ssize_t n = 0;
    while ((n = ::read(failure_read.get(), &why, sizeof why)) < 0 && errno == EINTR) {
    }
    if (n != sizeof why) {
      ended_process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
      if (ended_process_) return {};
      const Error no = Error::from_errno(errno, "pidfd_open");
      stop();
      return fail(no);
    }
    (void)::waitpid(pid_, nullptr, 0);
    return fail_errno(why.directory ? "cannot begin in the directory " + command_.directory
                                    : "cannot execute " + printable(words.front(), kMaxShown),
                      why.error);
  }

  mail::DeliveryStatus talk(std::chrono::steady_clock::time_point deadline) {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0) {
        stop();
        const std::string line = one_line(output_);
        return unsuccessful("5.3.0", fmt::format("Command time limit exceeded: \"{}\"{}", command_.shown(), said(line)),
                            line);
      }
      const bool want = in_ && pending_.size() == sent_ && !ended_;
      const bool offer = in_ && pending_.size() > sent_;
      pollfd fds[5] = {{ended_process_.get(), POLLIN, 0},
                       {out_ ? out_.get() : -1, POLLIN, 0},
                       {offer ? in_.get() : -1, POLLOUT, 0},
                       {want ? job_.fd() : -1, POLLIN, 0},
                       {job_.fd(), 0, 0}};
      if (::poll(fds, 5, want && job_.has_read_ahead() ? 0 : static_cast<int>(std::min<long long>(left, 60'000))) < 0 &&
          errno != EINTR) {
        stop();
        return deferred("poll: " + Error::from_errno(errno).message());
      }
      if (fds[4].revents != 0) {
        stop();
        return deferred("nobody waits for the command any more");
      }
      if (want && (fds[3].revents != 0 || job_.has_read_ahead()) && !read_content()) {
        stop();
        return deferred("the message could not be read completely");
      }
      if (fds[2].revents != 0) feed();
      if (in_ && ended_ && pending_.size() == sent_) in_.reset();
      if (fds[1].revents != 0) listen();
      if (fds[0].revents == 0) continue;
      int wait_status = 0;
      if (::waitpid(pid_, &wait_status, WNOHANG) != pid_) continue;
      // At most what a pipe holds: processes that the command left behind may write for ever.
      for (int rounds = 0; rounds < kMaxLastReads && out_ && listen(); ++rounds) {
      }
      return command_status(command_, wait_status, output_);
    }
  }

  void feed() {
    const auto n = ::write(in_.get(), pending_.data() + sent_, pending_.size() - sent_);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return in_.reset();  // the command does not want the rest: its exit status has the reason
    sent_ += static_cast<std::size_t>(n);
    if (sent_ < pending_.size()) return;
    pending_.clear();
    sent_ = 0;
  }

  /// Reads output; false: there is none now.
  bool listen() {
    char chunk[4096];
    const auto n = ::read(out_.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return true;
    if (n == 0) out_.reset();
    if (n <= 0) return false;
    const auto room = kMaxOutput - std::min(kMaxOutput, output_.size());
    output_.append(chunk, std::min(static_cast<std::size_t>(n), room));
    return true;
  }

  void stop() {
    (void)::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  const Command& command_;
  const Message& message_;
  JobStream& job_;
  PipeForm form_;
  std::string pending_, output_;
  std::size_t sent_ = 0;
  bool ended_ = false;
  Fd ended_process_, in_, out_;
  pid_t pid_ = -1;
};

}  // namespace

mail::DeliveryStatus run_command(const Command& command, const Message& message, JobStream& job,
                                 std::chrono::seconds limit) {
  return Run(command, message, job)(limit);
}

std::string Command::shown() const { return printable(line.empty() ? join(argv, " ") : line, kMaxShown); }

std::vector<std::string> command_words(const Command& command) {
  if (command.line.empty()) return command.argv;
  std::vector<std::string> words;
  if (!command.shell.empty()) {
    for (const auto word : split(command.shell, kBlank)) words.emplace_back(word);
    words.push_back(command.line);
  } else if (std::ranges::all_of(command.line, plain)) {
    for (const auto word : split(command.line, kBlank)) words.emplace_back(word);
  } else {
    words = {"/bin/sh", "-c", command.line};
  }
  return words;
}

mail::DeliveryStatus command_status(const Command& command, int wait_status, std::string_view output) {
  const std::string shown = command.shown();
  const std::string line = one_line(output);
  if (!WIFEXITED(wait_status))
    return unsuccessful("4.3.0",
                        fmt::format("Command died with signal {}: \"{}\"{}",
                                    WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0, shown, said(line)),
                        line);
  const int code = WEXITSTATUS(wait_status);
  if (code == 0) {
    std::string text = command.delivered;
    if (text.empty())
      text = "delivered to command: " + shown;
    else if (!line.empty())
      text += fmt::format(" ({})", printable(line, kMaxSaid));
    return mail::make_status(mail::Action::delivered, "2.0.0", std::move(text));
  }
  if (auto own = stated(line)) return unsuccessful(own->first, own->second, own->second);
  const auto* meaning = std::ranges::find(kMeanings, code, &ExitMeaning::status);
  if (meaning != std::end(kMeanings))
    return unsuccessful(std::string(meaning->dsn), std::string(meaning->text) + said(line), line);
  return unsuccessful("5.3.0", fmt::format("Command died with status {}: \"{}\"{}", code, shown, said(line)), line);
}

}  // namespace pen::mailbox
