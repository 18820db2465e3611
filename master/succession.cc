#include "master/succession.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "lib/base/async/stream.h"
#include "lib/base/forked_signals.h"
#include "lib/base/text.h"
#include "lib/base/version.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/launch.h"
#include "lib/suite/service/plan.h"
#include "lib/suite/service/setup.h"

namespace pen::master {
namespace {

// A sentence or two.
constexpr std::size_t kMostWords = 4096;
constexpr seconds kProgramPatience{10};
constexpr std::string_view kYes = "ok ";

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

void through(int fd) { ::fcntl(fd, F_SETFD, 0); }

/// Becomes that file; errno where it does not.
int run(const std::string& file, int open_file, const std::vector<std::string>& words,
        const std::vector<std::string>& more) {
  std::vector<std::string> environment = more;
  for (char** at = environ; *at != nullptr; ++at) environment.emplace_back(*at);
  const auto argv = pointers(words);
  const auto envp = pointers(environment);
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  if (file.empty()) {
    ::execveat(open_file, "", argv.data(), envp.data(), AT_EMPTY_PATH);
  } else {
    ::execve(file.c_str(), argv.data(), envp.data());
  }
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return error;
}

std::vector<std::string> words_for(const std::string& directory, int adopt, int former, const std::string& refused) {
  std::vector<std::string> words = {"master", "-c", directory, "--adopt", std::to_string(adopt)};
  if (refused.empty()) {
    words.insert(words.end(), {"--former", std::to_string(former)});
  } else {
    words.insert(words.end(), {"--refused", refused});
  }
  return words;
}

struct Said {
  std::string text;
  int status = -1;
};

/// Runs a program to its end, at most kProgramPatience.
Said listen_to(const std::string& path, const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd out(ends[0]);
  Fd in(ends[1]);
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto argv = pointers(words);
  pid_t pid = -1;
  {
    const HeldSignals held;
    pid = ::fork();
    if (pid == 0) handle_signals_as_new_process();
  }
  if (pid == 0) {
    ::dup2(in.get(), STDOUT_FILENO);
    ::dup2(in.get(), STDERR_FILENO);
    ::execv(path.c_str(), argv.data());
    ::_exit(EX_UNAVAILABLE);
  }
  in.reset();
  Said said;
  const auto end = std::chrono::steady_clock::now() + kProgramPatience;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd look{out.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&look, 1, static_cast<int>(left)) <= 0) break;
    char part[512];
    const ssize_t n = ::read(out.get(), part, sizeof part);
    if (n <= 0) break;
    if (said.text.size() < kMostWords) said.text.append(part, static_cast<std::size_t>(n));
  }
  if (pid > 0) {
    // The end of its output comes before its own: a process that has ended does not hear the signal.
    int status = 0;
    if (said.text.empty()) ::kill(pid, SIGKILL);
    if (::waitpid(pid, &status, 0) == pid && WIFEXITED(status)) said.status = WEXITSTATUS(status);
  }
  return said;
}

/// What is wrong with a program: it does not run (a library is missing), or is of another version.
std::string fault_of(const std::string& path, const std::string& name) {
  const Said said = listen_to(path, {"--version"});
  if (said.status != 0)
    return fmt::format("{} cannot be run: {}", path,
                       said.text.empty() ? "it says nothing" : printable(trim(said.text), 300));
  const std::string_view text = trim(said.text);
  const std::string is(text.substr(text.rfind(' ') + 1));
  if (is != version()) return fmt::format("{} has version {}, master {}: {} is not whole", path, is, version(), name);
  return {};
}

std::string fault_of_programs(const config::Config& config) {
  const std::string directory = config.settings().daemon_directory;
  const service::Plan plan = service::make_plan(config, service::real_machine(directory));
  std::set<std::string> programs;
  for (const service::Planned& planned : plan.services) programs.insert(planned.program);
  for (const std::string& program : programs) {
    if (std::string fault = fault_of(directory + "/" + program, directory); !fault.empty()) return fault;
  }
  if (programs.contains("qmgr")) {
    const Said said = listen_to(directory + "/qmgr", {"--check-queue", config.directory()});
    if (said.status != 0) return "the queue: " + std::string(printable(trim(said.text), 500));
  }
  return {};
}

}  // namespace

async::Task<Result<std::string>> ask_successor(async::Loop& loop, std::string file, const config::Config& config,
                                               Ask ask) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) co_return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  service::Launch what;
  what.path = file;
  what.words = {"-c", config.directory(), "--check-handover", std::to_string(Handover::kFormat)};
  if (ask == Ask::takes_over) what.words.insert(what.words.end(), {"--speaks", std::to_string(ipc::kVersion)});
  what.environment = service::program_environment(config.settings());
  what.output = theirs.get();
  auto started = service::launch(what);
  if (!started) co_return fail(std::move(started).error());
  theirs.reset();
  async::Stream answer(loop, std::move(ours));
  const milliseconds patience = config.settings().upgrade_program_timeout;
  const async::Until until{.deadline = loop.now() + patience};
  std::string text;
  bool late = false;
  while (text.size() < kMostWords) {
    const auto part = co_await answer.read_some(kMostWords, until);
    late = !part && part.error().is(async::WaitError::timed_out);
    if (!part) break;
    text += *part;
  }
  ::kill(started->pid, SIGKILL);  // it is done, or will not be
  int status = 0;
  ::waitpid(started->pid, &status, 0);
  if (late) co_return fail_errno(file + " does not answer", ETIMEDOUT);
  if (text.starts_with(kYes)) co_return std::string(trim(text.substr(kYes.size())));
  if (!text.empty()) co_return fail(HandoverError::nothing_left, printable(trim(text), 500));
  co_return fail_errno(file + " cannot be run", ENOEXEC);
}

int check_handover(const std::string& directory, unsigned format, unsigned speaks) {
  const auto no = [](const std::string& why) {
    std::printf("%s\n", why.c_str());
    std::fflush(stdout);
    return EX_CONFIG;
  };
  const bool none_run = speaks == 0;
  if (!none_run && format != Handover::kFormat)
    return no(fmt::format("version {} cannot take over: the running master hands over in format {}, it knows {}",
                          version(), format, Handover::kFormat));
  if (!none_run && speaks != ipc::kVersion)
    return no(
        fmt::format("programs of version {} and the running ones do not understand each other (conversations of "
                    "version {} and {}): use \"penstock stop\" and \"penstock start\"",
                    version(), ipc::kVersion, speaks));
  const auto config = config::load(config::config_directory(directory));
  if (!config) return no(config.error().message());
  if (const std::string fault = fault_of_programs(*config); !fault.empty()) return no(fault);
  std::printf("%s%s\n", std::string(kYes).c_str(), std::string(version()).c_str());
  std::fflush(stdout);
  return EX_OK;
}

Error succeed(const Succession& next, Handover state) {
  auto memory = StateMemory::create();
  if (!memory) return std::move(memory).error();
  for (const auto& [name, fd] : state.numbers) through(fd);
  if (auto ok = memory->write(state.to_json()); !ok) return std::move(ok).error();
  through(memory->fd());
  through(next.former);
  const int error =
      run(next.file, next.former, words_for(next.directory, memory->fd(), next.former, next.refused), next.environment);
  ::fcntl(next.former, F_SETFD, FD_CLOEXEC);
  return Error::from_errno(error, "execve");
}

Error give_back(int adopt, int former, const std::string& directory, const std::vector<std::string>& environment,
                const std::string& why) {
  if (former < 0) return Error(HandoverError::nothing_left, why);
  return Error::from_errno(run("", former, words_for(directory, adopt, former, why), environment), "execve");
}

Error begin_anew(const std::string& directory, const std::vector<std::string>& environment, const std::string& file) {
  return Error::from_errno(run(file, -1, {"master", "-c", directory, "-f"}, environment), "execve " + file);
}

void let_signals_in() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::size_t Inherited::programs() const {
  std::size_t count = 0;
  if (state) {
    for (const Handover::Service& s : state->services) count += s.programs.size();
  }
  return count;
}

Fd Inherited::take_lock(const std::string& name) {
  const auto it = descriptors.find(name);
  if (it == descriptors.end()) return Fd();
  Fd lock = std::move(it->second);
  descriptors.erase(it);
  return lock;
}

Inherited inherit(int adopt, Descriptors kept) {
  Inherited out;
  const bool in_process = adopt >= 0;
  Fd memory;
  if (in_process) {
    memory = Fd(::fcntl(adopt, F_DUPFD_CLOEXEC, 0));
  } else if (const auto it = kept.find(kState); it != kept.end()) {
    memory = Fd(::fcntl(it->second.get(), F_DUPFD_CLOEXEC, 0));
  }
  if (!memory && kept.empty() && !in_process) return out;
  const auto text = StateMemory::adopt(std::move(memory)).read();
  const auto state = text ? Handover::parse(*text) : Result<Handover>(fail(text.error()));
  if (!state) {
    out.trouble = state.error().message();
    for (const auto& [name, fd] : kept) out.unusable.push_back(name);
    return out;
  }
  if (in_process && (!state->numbers.contains(kMasterLock) || !state->numbers.contains(kProgramsLock))) {
    out.trouble = "the former master's state lacks its locks";
    return out;
  }
  out.state = *state;
  if (!in_process) {
    out.descriptors = std::move(kept);
    return out;
  }
  for (const auto& [name, fd] : state->numbers) out.descriptors.emplace(name, Fd(fd));
  return out;
}

}  // namespace pen::master
