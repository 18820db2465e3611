#include "tools/lock_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/send/mailbox/lock.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penlock";

// The command that a signal is passed on to; 0: none runs.
volatile std::sig_atomic_t child = 0;

void pass_on(int signo) {
  if (child != 0) ::kill(child, signo);
}

int fail_temporarily(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
  return EX_TEMPFAIL;
}

}  // namespace

std::expected<LockTool::Options, service::Ending> LockTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{
      .program = kProgram,
      .usage = {"penlock [-c DIR] [-l METHODS] [-v] FOLDER COMMAND ..."},
      .about = "Locks a mailbox file as deliveries do, and runs a command meanwhile. It is made if it is not there.",
      .options = {service::directory_option(o.directory),
                  {"-l METHODS", "some of fcntl, flock, dotlock (mailbox_delivery_lock)", service::into(o.methods)},
                  {"-v", "accepted, and changes nothing", service::accepted()}},
      .options_end_at_a_word = true};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->size() < 2) return std::unexpected(line.misuse("a folder and a command are needed"));
  o.folder = words->front();
  o.command.assign(words->begin() + 1, words->end());
  return o;
}

int LockTool::run() {
  const int status = run_locked();
  if (ran_) std::exit(status);  // the command's: whatever it means, it is passed on
  return status;
}

int LockTool::run_locked() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const auto rules = mailbox::lock_rules(config.settings(), options_.methods);
  if (!rules) return fail_temporarily(rules.error().message());
  const auto slash = options_.folder.rfind('/');
  const std::string name = slash == std::string::npos ? options_.folder : options_.folder.substr(slash + 1);
  const std::string parent = slash == std::string::npos ? "." : options_.folder.substr(0, slash + 1);
  const std::string shown = printable(options_.folder, 500);
  const Fd directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_temporarily(Error::from_errno(errno, "open " + printable(parent, 500)).message());
  const auto wanted = [] { return false; };
  mailbox::Dotlock dotlock;
  if (rules->dotlock) {
    const auto locked = dotlock.take(directory.get(), name, *rules, wanted);
    // A user who may not make files there has the other lock, as in deliveries.
    const bool other = rules->fcntl || rules->flock;
    if (!locked && !(other && locked.error().is_errno(EACCES))) return fail_temporarily(locked.error().message());
  }
  const Fd file(
      ::openat(directory.get(), name.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600));
  if (!file) return fail_temporarily(Error::from_errno(errno, "open " + shown).message());
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return fail_temporarily(shown + ": no mailbox file");
  if (const auto locked = mailbox::lock_file_for_mail(file.get(), *rules, wanted); !locked)
    return fail_temporarily(shown + ": " + locked.error().message());
  return run_command();
}

int LockTool::run_command() {
  std::vector<char*> words;
  for (const std::string& word : options_.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // The lock must not outlive this process, nor end before the command: what ends the one is for the other.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_temporarily("fork: " + Error::from_errno(errno).message());
  if (pid == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execvp(words.front(), words.data());
    std::fprintf(stderr, "%s: %s: %s\n", kProgram, printable(options_.command.front(), 500).c_str(),
                 Error::from_errno(errno).message().c_str());
    ::_exit(1);
  }
  child = pid;
  struct sigaction action{};
  action.sa_handler = pass_on;
  for (const int signo : {SIGHUP, SIGTERM, SIGINT, SIGQUIT}) {
    struct sigaction old{};
    ::sigaction(signo, nullptr, &old);
    // From a terminal the command gets the last two by itself.
    if (old.sa_handler == SIG_IGN) continue;
    if (signo == SIGINT || signo == SIGQUIT)
      std::signal(signo, SIG_IGN);
    else
      ::sigaction(signo, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return fail_temporarily("wait: " + Error::from_errno(errno).message());
  child = 0;
  ran_ = WIFEXITED(status);
  if (ran_) return WEXITSTATUS(status);
  // As postlock: 75 would say that the command has not run.
  std::fprintf(stderr, "%s: %s was ended by signal %d\n", kProgram, printable(options_.command.front(), 500).c_str(),
               WTERMSIG(status));
  return 1;
}

}  // namespace pen::tools
