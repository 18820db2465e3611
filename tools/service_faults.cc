#include "tools/service_faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/config/transport_use.h"
#include "lib/suite/service/launch.h"

namespace pen::tools {
namespace {

constexpr seconds kPatience{30};
constexpr int kMostFaults = 20;
constexpr std::size_t kMostOutput = 1024 * 1024;

/// All that it writes until it ends; nullopt: it took too long.
std::optional<std::string> read_until(int fd, SteadyTime deadline) {
  std::string out;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - system_clock().now());
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    const int n = left.count() <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left.count()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    std::array<char, 4096> room{};
    const ssize_t got = ::read(fd, room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    if (out.size() < kMostOutput) out.append(room.data(), static_cast<std::size_t>(got));
  }
}

/// Standard output of a program; the error says why there is none.
Result<std::string> output_of(const std::string& path, std::vector<std::string> words,
                              std::vector<std::string> environment) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return fail_errno("pipe");
  const Fd ours(pipe_ends[0]);
  Fd theirs(pipe_ends[1]);
  words.insert(words.begin(), path.substr(path.rfind('/') + 1));
  std::vector<char*> argv, env;
  for (auto& word : words) argv.push_back(word.data());
  for (auto& word : environment) env.push_back(word.data());
  argv.push_back(nullptr);
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fail_errno(path, failed);
  theirs.reset();
  auto text = read_until(ours.get(), system_clock().now() + kPatience);
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!text)
    return fail_errno(fmt::format("{} reads its settings for longer than {} s", path, kPatience.count()), ETIMEDOUT);
  if (WIFSIGNALED(status)) return fail_errno(fmt::format("{} died of signal {}", path, WTERMSIG(status)), EIO);
  return *std::move(text);
}

/// What `program --look` calls an error.
std::optional<std::string> first_error(std::string_view output) {
  constexpr std::string_view kWord = "error ";
  for (const auto line : split(output, "\n"))
    if (line.starts_with(kWord)) return std::string(line.substr(kWord.size()));
  return std::nullopt;
}

std::vector<std::string> faults_of(const config::Config& config, const service::Planned& planned,
                                   const std::string& programs, const std::vector<std::string>& environment) {
  service::Arguments arguments = planned.arguments;
  arguments.config_directory = config.directory();
  arguments.look = true;
  std::vector<std::string> found;
  for (int i = 0; i < kMostFaults; ++i) {
    const config::Config own = config.with(arguments.settings());
    const auto said = output_of(programs + "/" + planned.program, arguments.to_words(), environment);
    const auto error = said ? first_error(*said) : said.error().message();
    if (!error) return found;
    const config::Row* row = setting_named_by(own, *error);
    const bool again = row != nullptr && std::ranges::none_of(arguments.overrides, [&](const config::Override& o) {
                         return o.name == row->name && o.value == row->default_text;
                       });
    found.push_back(*error);
    if (!again) return found;
    arguments.overrides.push_back({std::string(row->name), std::string(row->default_text)});
  }
  return found;
}

}  // namespace

const config::Row* setting_named_by(const config::Config& config, std::string_view error) {
  std::size_t from = 0;
  const auto of_name = [](char c) { return ascii_alnum(c) || c == '_'; };
  for (std::size_t i = 0; i <= error.size(); ++i) {
    if (i < error.size() && of_name(error[i])) continue;
    const config::Row* row = config::find_row(error.substr(from, i - from));
    if (row != nullptr && row->kind == config::Class::acts && config.where(row->name)) return row;
    from = i + 1;
  }
  return nullptr;
}

std::vector<ServiceFault> service_faults(const config::Config& config, const service::Plan& plan,
                                         const std::string& programs) {
  std::vector<ServiceFault> out;
  const auto environment = service::program_environment(config.settings());
  for (const service::Planned& planned : plan.services) {
    const std::string& name = planned.arguments.service;
    const bool transport = !planned.at_once && planned.arguments.type == "unix" &&
                           (planned.program == "smtp" || planned.program == "lmtp" || planned.program == "local" ||
                            planned.program == "virtual" || planned.program == "pipe");
    const bool used = !transport || config::transport_is_used(config.settings(), name);
    if (std::string fault = service::socket_fault(planned); !fault.empty())
      out.push_back({planned.label, std::move(fault), true});
    for (std::string& text : faults_of(config, planned, programs, environment))
      out.push_back({planned.label, std::move(text), used});
  }
  return out;
}

}  // namespace pen::tools
