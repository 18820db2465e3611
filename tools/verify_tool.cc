#include "tools/verify_tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/topology.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using namespace ipc::verify;
using Channel = ipc::Channel<FromVerify, ToVerify>;

constexpr const char* kProgram = "penverify";
constexpr std::size_t kMaxAddress = 2000;
constexpr std::uint32_t kAtOnce = 500;
constexpr seconds kAnswer{30};
constexpr seconds kProbe{600};  // the longest that a check waits for the host's answer

std::string_view word(State state) {
  switch (state) {
    case State::probing:
      return "probing";
    case State::good:
      return "good";
    case State::deferred:
      return "deferred";
    case State::bad:
      return "bad";
  }
  return "?";
}

struct Row {
  const char* name;
  const char* words;
  const char* text;
  VerifyTool::Command command;
};
constexpr Row kCommands[] = {
    {"list", "", "every address that something is known of", VerifyTool::Command::list},
    {"show", " ADDRESS", "what is known of it", VerifyTool::Command::show},
    {"check", " ADDRESS", "the same, and a probe where nothing is known", VerifyTool::Command::check},
    {"forget", " ADDRESS", "drop what is known of it: the next question is a probe", VerifyTool::Command::forget}};

}  // namespace

std::expected<VerifyTool::Options, service::Ending> VerifyTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{.program = kProgram,
                            .usage = {"penverify [-c DIR] [-j] COMMAND"},
                            .about = "Looks at the addresses that a Penstock instance has verified.",
                            .options = {}};
  for (const Row& row : kCommands) line.options.push_back({std::string(row.name) + row.words, row.text});
  line.options.push_back({"-j, --json", "one JSON object a line", service::set(o.json)});
  line.options.push_back(service::directory_option(o.directory));
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  const auto* row = std::ranges::find(kCommands, words->front(), &Row::name);
  if (row == std::end(kCommands)) return std::unexpected(line.misuse("unknown command: " + readable(words->front())));
  o.command = row->command;
  const bool takes = row->command != Command::list;
  if (words->size() != (takes ? 2U : 1U))
    return std::unexpected(line.misuse(std::string(row->name) + (takes ? " takes an ADDRESS" : " takes no argument")));
  if (takes) o.address = words->at(1);
  if (takes && (o.address.empty() || o.address.size() > kMaxAddress))
    return std::unexpected(line.misuse("not an address: " + readable(o.address, 100)));
  return o;
}

std::string VerifyTool::shown(const Entry& e, bool json) {
  if (json) {
    const auto clean = [](const std::string& text) { return readable(text); };
    nlohmann::ordered_json out = {{"address", clean(e.address)}, {"state", word(e.state)}, {"text", clean(e.text)},
                                  {"updated", e.updated},        {"probed", e.probed},     {"under_way", e.under_way}};
    return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  const std::string when = e.updated == 0 ? "-" : rfc5322_date(WallTime(seconds(e.updated)));
  return fmt::format("{:<8} {:<31} {}{}{}\n", word(e.state), when, readable(e.address), e.under_way ? " (probing)" : "",
                     e.text.empty() ? "" : " (" + readable(e.text) + ")");
}

async::Task<void> VerifyTool::converse(VerifyTool* tool, async::Loop* loop, std::string path, int* status) {
  const Options& o = tool->options_;
  const auto until = [loop](seconds time) { return async::Until{.deadline = loop->now() + time}; };
  auto channel = co_await ipc::connect_channel<FromVerify, ToVerify>(*loop, std::move(path), kName, until(kAnswer));
  if (!channel) {
    tool->why_ = channel.error().message();
    co_return;
  }
  const auto lost = [tool](const Error& why) { tool->why_ = "no answer: " + why.message(); };
  if (o.command == Command::check) {
    (void)channel->send(Ask{1, o.address});
    Answer answer;
    do {
      auto received = co_await channel->receive(until(answer.request == 0 ? kAnswer : kProbe));
      if (!received) co_return lost(received.error());
      if (auto* a = std::get_if<Answer>(&received->message)) answer = std::move(*a);
    } while (answer.request == 0 || answer.state == State::probing);
    *status = answer.state == State::good ? EX_OK : EX_DATAERR;
    print(shown({.address = o.address, .state = answer.state, .text = answer.text}, o.json));
    co_return;
  }
  if (o.command == Command::forget) {
    (void)channel->send(Forget{1, o.address});
    auto received = co_await channel->receive(until(kAnswer));
    if (!received) co_return lost(received.error());
    const auto* done = std::get_if<Forgotten>(&received->message);
    *status = done != nullptr && done->known ? EX_OK : EX_DATAERR;
    if (*status != EX_OK) tool->why_ = "nothing is known of " + readable(o.address);
    co_return;
  }
  std::string after;
  for (;;) {
    const bool only = o.command == Command::show;
    (void)channel->send(List{1, only ? o.address : after, only, kAtOnce});
    auto received = co_await channel->receive(until(kAnswer));
    if (!received) co_return lost(received.error());
    const auto* listed = std::get_if<Listed>(&received->message);
    if (listed == nullptr) co_return lost(Error(ipc::IpcError::out_of_place));
    for (const auto& entry : listed->entries) print(shown(entry, o.json));
    *status = only && listed->entries.empty() ? EX_DATAERR : EX_OK;
    if (*status != EX_OK) tool->why_ = "nothing is known of " + readable(o.address);
    if (!listed->more || listed->entries.empty()) co_return;
    after = listed->entries.back().address;
  }
}

int VerifyTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const auto& s = config.settings();
  const std::string path = s.queue_directory + "/" + ipc::service_socket(s.address_verify_service_name);
  async::Loop loop;
  int status = EX_UNAVAILABLE;
  loop.spawn("ask", converse(this, &loop, path, &status));
  loop.run();
  if (status == EX_UNAVAILABLE) die(kProgram, status, path + ": " + why_);
  if (!why_.empty()) die(kProgram, status, why_);
  return status;
}

}  // namespace pen::tools
