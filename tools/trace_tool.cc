#include "tools/trace_tool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/trace/filter.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using namespace ipc::trace;
using Channel = ipc::Channel<FromProgram, ToProgram>;

constexpr const char* kProgram = "pentrace";
constexpr seconds kAnswer{10};
constexpr milliseconds kSoonAgain{50}, kLaterAgain{1000};
constexpr int kMostSessions = 100'000;

/// Appends the words of an option: divided by commas or blanks, and given as often as one likes.
std::function<std::string(const service::Given&)> add_to(std::vector<std::string>& words) {
  return [&words](const service::Given& given) -> std::string {
    for (const auto word : split(given.value)) words.emplace_back(word);
    return {};
  };
}

/// 2026-11-27 01:02:03, local time as in the log. Of lines that come many in a second: the last one is remembered.
std::string_view shown_second(std::time_t second) {
  static std::time_t known = -1;
  static std::string text;
  if (second != std::exchange(known, second)) text = local_text(WallTime(seconds(second)));
  return text;
}

std::string_view word(Kind kind) {
  switch (kind) {
    case Kind::received:
      return "received";
    case Kind::sent:
      return "sent";
    case Kind::mark:
      return "mark";
    case Kind::end:
      return "end";
  }
  return "?";
}
std::string_view sign(Kind kind) {
  switch (kind) {
    case Kind::received:
      return "<";
    case Kind::sent:
      return ">";
    case Kind::mark:
      return "=";
    case Kind::end:
      return "|";
  }
  return "?";
}

std::string json_line(const nlohmann::ordered_json& j) {
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::expected<TraceTool::Options, service::Ending> TraceTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{
      .program = kProgram,
      .usage = {"pentrace [-c DIR] [-j] in | out [CHOICE ...]"},
      .about =
          "Shows the dialogue of SMTP sessions of a Penstock instance as it happens. Content and passwords are "
          "left out.",
      .options = {
          {"in", "sessions of clients with smtpd"},
          {"out", "connections of smtp and lmtp"},
          {"", "Only sessions that every CHOICE fits are shown. A WORD may be several, divided by commas:"},
          {"--client WORD", "in: an address, a network, a host name, .DOMAIN", add_to(o.filter.clients)},
          {"--host WORD", "the same, of the other side; in: also the name in its EHLO", add_to(o.filter.hosts)},
          {"--domain WORD", "of the sender or of a recipient; .DOMAIN: what is below", add_to(o.filter.domains)},
          {"--recipient WORD", "an address or @DOMAIN", add_to(o.filter.recipients)},
          {"--queue-id ID", "the session that takes or delivers that message", add_to(o.filter.queue_ids)},
          {"--service NAME", "of master.cf; only this one", add_to(o.services)},
          {"", ""},
          {"--count N", "end after N sessions have ended; no others are shown",
           service::into(o.count, 1, kMostSessions)},
          {"-j, --json", "one JSON object a line", service::set(o.json)},
          service::directory_option(o.directory)}};
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  if (words->size() != 1 || (words->front() != "in" && words->front() != "out"))
    return std::unexpected(line.misuse("say one of: in, out"));
  o.way = words->front() == "in" ? Way::in : Way::out;
  if (o.way == Way::out && !o.filter.clients.empty())
    return std::unexpected(line.misuse("--client is for sessions that come in; --host names the other side"));
  if (const auto wrong = trace::Filter::problem(o.filter); !wrong.empty()) return std::unexpected(line.misuse(wrong));
  return o;
}

std::vector<TraceTool::Place> TraceTool::places(const config::Config& config, Way way, const Exists& exists) {
  const std::string& queue = config.settings().queue_directory;
  std::vector<Place> out;
  const auto add = [&](const config::Service& s, const auto& socket) {
    for (unsigned i = 1;; ++i) {
      std::string path = queue + "/" + socket(s.name, i);
      if (i > 1 && !exists(path)) return;
      out.push_back({s.name, std::move(path), i});
    }
  };
  for (const config::Service& s : config.master()) {
    if (way == Way::in && s.command == "smtpd" && s.type != config::ServiceType::pass) add(s, smtpd_socket);
    if (way == Way::in || (s.command != "smtp" && s.command != "lmtp") || s.type != config::ServiceType::unix_stream)
      continue;
    if (s.is_private)
      add(s, ipc::service_socket);
    else
      out.push_back({s.name, queue + "/public/" + s.name});
  }
  return out;
}

std::string TraceTool::shown(const Line& line, const std::string& service, bool json) {
  const auto since = line.time.time_since_epoch();
  if (!json)
    return fmt::format("{}.{:06} {} {} {} {}\n", shown_second(std::chrono::floor<seconds>(since).count()),
                       (since % seconds(1)).count(), service, line.session, sign(line.kind), line.text);
  return json_line({{"time", std::chrono::duration<double>(since).count()},
                    {"service", service},
                    {"session", line.session},
                    {"kind", word(line.kind)},
                    {"text", line.text}});
}

std::string TraceTool::shown(const Dropped& gap, const std::string& service, bool json) {
  if (json) return json_line({{"service", service}, {"kind", "dropped"}, {"lines", gap.lines}});
  return fmt::format("({}: {} lines are missing here: they came faster than they were read)\n", service, gap.lines);
}

void TraceTool::note(const Follower& follower, const std::string& text) const {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s: %s\n", kProgram, follower.place.service.c_str(), text.c_str());
}

void TraceTool::see(const Line& line, const std::string& service) {
  if (options_.count > 0) {
    const auto wanted = static_cast<std::size_t>(options_.count);
    if (ended_.size() >= wanted) return;
    if (!chosen_.contains(line.session)) {
      if (chosen_.size() >= wanted) return;
      chosen_.emplace(line.session);
    }
    if (line.kind == Kind::end) ended_.emplace(line.session);
  }
  print(shown(line, service, options_.json));
  if (options_.count > 0 && ended_.size() >= static_cast<std::size_t>(options_.count)) over_.raise();
}

/// One conversation. False: there is no use in another one.
async::Task<bool> TraceTool::converse(TraceTool* tool, async::Loop* loop, Follower* follower) {
  auto channel = co_await ipc::connect_channel<FromProgram, ToProgram>(
      *loop, follower->place.path, kName, {.deadline = loop->now() + kAnswer, .cancel = &tool->over_});
  if (!channel) {
    const bool left_over = follower->place.process > 1 && channel.error().is_errno(ECONNREFUSED);
    follower->why = left_over ? "" : channel.error().message();
    co_return follower->reached;
  }
  (void)channel->send(Follow{tool->options_.filter});
  for (;;) {
    auto received = co_await channel->receive({.cancel = &tool->over_});
    if (!received) {
      follower->why = received.error().message();
      co_return true;
    }
    if (auto* line = std::get_if<Line>(&received->message)) {
      tool->see(*line, follower->place.service);
    } else if (auto* gap = std::get_if<Dropped>(&received->message)) {
      print(shown(*gap, follower->place.service, tool->options_.json));
    } else if (auto* no = std::get_if<Refused>(&received->message)) {
      follower->why = readable(no->why);
      follower->reached = false;
      co_return false;
    } else if (std::holds_alternative<Replaced>(received->message)) {
      follower->why = "another process serves from now on: what is left of the old one's sessions is not shown";
      co_return true;
    } else {
      if (!std::exchange(follower->reached, true)) follower->why.clear();
      tool->note(*follower, "following");
    }
    if (channel->stream().buffered().empty()) std::fflush(stdout);  // many lines come at once
  }
}

/// A program that is replaced or started again is followed on.
async::Task<void> TraceTool::follow(TraceTool* tool, async::Loop* loop, Follower* follower) {
  milliseconds pause = kSoonAgain;
  while (!tool->over_.raised()) {
    const SteadyTime begun = loop->now();
    const bool again = co_await converse(tool, loop, follower);
    if (tool->over_.raised()) co_return;
    if (!follower->why.empty()) tool->note(*follower, follower->why);
    if (!again) co_return;
    pause = loop->now() - begun > seconds(1) ? kSoonAgain : std::min(2 * pause, kLaterAgain);
    if (!co_await loop->sleep(pause, {.cancel = &tool->over_})) co_return;
  }
}

int TraceTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  std::vector<Follower> followers;
  const auto exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  for (Place& place : places(config, options_.way, exists)) {
    if (!options_.services.empty() && std::ranges::find(options_.services, place.service) == options_.services.end())
      continue;
    followers.push_back({.place = std::move(place), .why = {}});
  }
  if (followers.empty())
    die(kProgram, EX_CONFIG,
        options_.way == Way::in ? "master.cf has no such service of smtpd"
                                : "master.cf has no such service of smtp or lmtp");
  async::Loop loop;
  for (Follower& f : followers) loop.spawn("follow " + f.place.service, follow(this, &loop, &f));
  loop.run();
  return over_.raised() ? EX_OK : EX_UNAVAILABLE;
}

}  // namespace pen::tools
