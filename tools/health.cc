#include "tools/health.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/async/loop.h"
#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/suite/ipc/ask_once.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/setup.h"
#include "tools/doctor_probes.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/instance_status.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

constexpr const char* kStatusFile = "master.status";

nlohmann::json status_of(const std::string& state) {
  std::ifstream file(state + "/" + kStatusFile);
  return nlohmann::json::parse(file, nullptr, false);
}

/// The services that master has, by their labels.
std::set<std::string> services(const nlohmann::json& status) {
  std::set<std::string> labels;
  if (!status.is_object() || !status.contains("services") || !status["services"].is_array()) return labels;
  for (const auto& one : status["services"])
    if (one.is_object()) labels.insert(one.value("service", std::string()));
  return labels;
}

/// Waits until the status file has been replaced. False: it was not in that time.
Result<bool> replaced(const Fd& changes, milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    alignas(inotify_event) char events[4096];
    const ssize_t n = ::read(changes.get(), events, sizeof events);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("inotify");
    for (ssize_t at = 0; at < n;) {
      inotify_event event{};
      std::memcpy(&event, events + at, sizeof event);
      if (event.len > 0 && std::strcmp(events + at + sizeof event, kStatusFile) == 0) return true;
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{changes.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return fail_errno("poll");
  }
}

/// Master answers by writing its status anew, which takes its loop. Empty: it did, or it is an older one that cannot be
/// asked; else what is wrong.
std::string ask_master(const service::Process& master, const std::string& state, const nlohmann::json& status) {
  if (!status.is_object() || !status.contains("asked")) return {};
  const Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!changes || ::inotify_add_watch(changes.get(), state.c_str(), IN_MOVED_TO) < 0)
    return "whether master answers is not known: " + Error::from_errno(errno, "inotify " + state).message();
  if (auto sent = master.signal(service::kAskMaster); !sent)
    return "whether master answers is not known: " + sent.error().message();
  const auto answered = replaced(changes, kConnectTime);
  if (!answered) return "whether master answers is not known: " + answered.error().message();
  if (*answered) return {};
  if (master.gone_within({})) return fmt::format("master pid {} has ended", master.pid());
  return fmt::format(
      "master pid {} does not answer: it is stopped or hangs; what it had started goes on, and nothing that ends is "
      "started again",
      master.pid());
}

async::Task<void> ask_status(async::Loop* loop, std::string path, Result<void>* out) {
  using namespace ipc::queue;
  auto done = co_await (ipc::ask_once<FromQmgr, ToQmgr, Done>(*loop, std::move(path), kName, AskStatus{.request = 1},
                                                              {.until = {.deadline = loop->now() + kHangs}}));
  *out = done ? Result<void>() : fail(std::move(done).error());
}

/// Empty: the queue manager answers.
std::string ask_qmgr(const std::string& path) {
  async::Loop loop;
  Result<void> answer = fail(async::WaitError::closed);
  loop.spawn("ask", ask_status(&loop, path, &answer));
  loop.run();
  return answer ? "" : "the queue manager does not answer: " + answer.error().message();
}

}  // namespace

int health(const config::Config& config) {
  if (waits_as_standby(config)) return EX_OK;
  const auto master = next_master(config);
  if (!master) return cannot_tell(master.error());
  if (!*master) return say_no_master(config);
  const std::string state = service::state_directory(config.settings());
  const auto now = status_of(state);
  const auto known = services(now);
  struct Tries {
    std::vector<std::future<ServerFacts>> of_each_address;
  };
  std::map<std::string, Tries> tries;
  for (const Target& target : own_services(config, true)) {
    constexpr std::string_view kBefore = "service ";
    const std::string label = target.facts.what.substr(kBefore.size());
    if (!known.contains(label)) continue;
    tries[label].of_each_address.push_back(std::async(std::launch::async, [target] { return try_target(target); }));
  }
  auto of_master = std::async(std::launch::async, [&] { return ask_master(**master, state, now); });
  int status = EX_OK;
  const auto judge = [&status](const std::string& fault) {
    if (!fault.empty()) status = fail_with(EX_TEMPFAIL, fault);
  };
  if (known.contains("qmgr/unix"))
    judge(ask_qmgr(config.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket)));
  judge(of_master.get());
  for (auto& [label, all] : tries) {
    bool answers = false;
    std::string fault;
    for (auto& one : all.of_each_address) {
      const ServerFacts facts = one.get();
      // Any greeting: one that turns a client away comes from a program that works.
      answers = answers || (facts.connected && (!facts.smtp || !facts.greeting.empty()));
      if (!facts.fault.empty()) fault = facts.address + ": " + facts.fault;
    }
    if (!answers) judge("the service " + printable(label) + " does not answer: " + fault);
  }
  return status;
}

}  // namespace pen::tools
