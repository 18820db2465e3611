#include "tools/suppress_tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/config/values.h"
#include "lib/queue/views/suppression.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/suppression/words.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using namespace ipc::suppression;

constexpr const char* kProgram = "pensuppress";
constexpr std::uint32_t kAtOnce = 500;   // entries of an answer
constexpr std::size_t kUnderWay = 1000;  // orders without an answer: they share a write to the disk
constexpr std::size_t kMostLine = 4096;
constexpr seconds kAnswer{30};

struct Row {
  const char* name;
  const char* words;
  const char* text;
  SuppressTool::Command command;
  bool takes = false;
};
constexpr Row kCommands[] = {
    {"list", "", "every address on the list", SuppressTool::Command::list},
    {"show", " ADDRESS", "what is known of it", SuppressTool::Command::show, true},
    {"add", " ADDRESS…", "put addresses on the list, or change their reason and end", SuppressTool::Command::add, true},
    {"remove", " ADDRESS…", "take them off the list, and forget what was counted", SuppressTool::Command::remove, true},
    {"import", " FILE", "add what stands in the lines of a file (-: standard input)", SuppressTool::Command::import,
     true},
    {"export", "", "the list in such lines", SuppressTool::Command::dump}};

/// Takes a field up to the next comma outside of quotes.
std::string_view field(std::string_view& line) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < line.size() && (quoted || line[end] != ','); ++end) {
    if (line[end] == '"') quoted = !quoted;
    if (quoted && line[end] == '\\') ++end;
  }
  end = std::min(end, line.size());
  const std::string_view out = trim(line.substr(0, end));
  line.remove_prefix(std::min(end + 1, line.size()));
  return out;
}

}  // namespace

std::expected<SuppressTool::Options, service::Ending> SuppressTool::read(int argc, const char* const* argv) {
  Options o;
  service::CommandLine line{.program = kProgram,
                            .usage = {"pensuppress [-c DIR] [OPTIONS] COMMAND"},
                            .about = "Shows and changes the suppression list of a Penstock instance.",
                            .options = {}};
  for (const Row& row : kCommands) line.options.push_back({std::string(row.name) + row.words, row.text});
  line.options.push_back({"--tenant NAME", "of this tenant; else for all", service::into(o.tenant)});
  line.options.push_back({"--reason WORD", "bounce, returned, complaint or order (usual)", service::into(o.reason)});
  line.options.push_back(
      {"--expires WHEN", "a time from now (90d), a date (2027-01-31), never (usual)", service::into(o.expires)});
  line.options.push_back({"--text TEXT", "a remark", service::into(o.text)});
  line.options.push_back({"--watched", "list: those that failed and are not on it, too", service::set(o.watched)});
  line.options.push_back({"-j, --json", "one JSON object a line", service::set(o.json)});
  line.options.push_back(service::directory_option(o.directory));
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->empty()) return std::unexpected(line.incomplete());
  const auto* row = std::ranges::find(kCommands, words->front(), &Row::name);
  if (row == std::end(kCommands)) return std::unexpected(line.misuse("unknown command: " + readable(words->front())));
  o.command = row->command;
  words->erase(words->begin());
  o.words = *std::move(words);
  const bool many = o.command == Command::add || o.command == Command::remove;
  if (row->takes ? o.words.empty() || (!many && o.words.size() > 1) : !o.words.empty())
    return std::unexpected(
        line.misuse(std::string(row->name) + (row->takes ? " takes" + std::string(row->words) : " takes no argument")));
  if (!o.reason.empty() && !suppression::reason_named(o.reason))
    return std::unexpected(line.misuse("--reason: none of bounce, returned, complaint, order: " + readable(o.reason)));
  if (!o.expires.empty() && !end_of(o.expires, system_clock().wall_now()))
    return std::unexpected(line.misuse("--expires: neither a time nor a date: " + readable(o.expires)));
  if (o.command != Command::import)
    for (const std::string& address : o.words)
      if (!address.contains('@') || address.size() > 500)
        return std::unexpected(line.misuse("not an address: " + readable(address, 100)));
  return o;
}

std::optional<std::int64_t> SuppressTool::end_of(std::string_view text, WallTime now) {
  if (text == "never") return 0;
  if (const auto date = parse_date(text)) {
    const auto end = unix_seconds(*date);
    return end > 0 ? std::optional(end) : std::nullopt;  // 0 stands for never
  }
  const auto time = config::parse_time(text, 'd');
  if (!time || time->count() <= 0) return std::nullopt;
  return unix_seconds(now + *time);
}

std::string SuppressTool::shown(const Entry& e, bool json) {
  if (json) return views::to_json(e).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return fmt::format(
      "{:<9} {:<20} {}{}{}{}\n", e.listed ? suppression::word(e.reason) : "watched", suppression::end_text(e.expires),
      readable(e.address), e.tenant.empty() ? "" : " tenant=" + readable(e.tenant),
      e.listed ? "" : fmt::format(" ({} days)", e.days), e.text.empty() ? "" : " (" + readable(e.text) + ")");
}

std::string SuppressTool::exported(const Entry& e) {
  return fmt::format("{},{},{},{},{}\n", e.address, suppression::word(e.reason), suppression::end_text(e.expires),
                     e.tenant, readable(e.text));
}

std::expected<SuppressTool::Entry, std::string> SuppressTool::imported(std::string_view line, const Entry& usual,
                                                                       WallTime now) {
  Entry out = usual;
  out.address = field(line);
  const std::string_view reason = field(line), expires = field(line), tenant = field(line);
  if (!out.address.contains('@')) return std::unexpected("not an address: " + readable(out.address, 100));
  if (!reason.empty()) {
    const auto known = suppression::reason_named(reason);
    if (!known) return std::unexpected("none of bounce, returned, complaint, order: " + readable(reason, 100));
    out.reason = *known;
  }
  if (!expires.empty()) {
    const auto end = end_of(expires, now);
    if (!end) return std::unexpected("neither a time nor a date: " + readable(expires, 100));
    out.expires = *end;
  }
  if (!tenant.empty()) out.tenant = tenant;
  if (const auto text = trim(line); !text.empty()) out.text = text;
  return out;
}

async::Task<bool> SuppressTool::order(async::Loop* loop, Channel* channel, int* status) {
  std::size_t sent = 0, answered = 0;
  *status = EX_OK;
  while (answered < orders_.size()) {
    for (; sent < orders_.size() && sent - answered < kUnderWay; ++sent) {
      const Entry& e = orders_[sent].second;
      if (options_.command == Command::remove)
        (void)channel->send(Remove{sent + 1, e.tenant, e.address});
      else
        (void)channel->send(Add{sent + 1, e});
    }
    auto received = co_await channel->receive({.deadline = loop->now() + kAnswer});
    if (!received) {
      why_ = fmt::format("no answer: {} ({} of {} are done)", received.error().message(), answered, orders_.size());
      *status = EX_UNAVAILABLE;
      co_return false;
    }
    const auto* done = std::get_if<Done>(&received->message);
    if (done == nullptr || done->request == 0 || done->request > orders_.size()) continue;
    ++answered;
    const auto& [where, entry] = orders_[done->request - 1];
    std::string fault = done->error;
    if (fault.empty() && options_.command == Command::remove && !done->known) fault = "is not on the list";
    if (fault.empty()) continue;
    std::fprintf(stderr, "%s: %s%s: %s\n", kProgram, where.c_str(), readable(entry.address).c_str(), fault.c_str());
    *status = EX_DATAERR;
  }
  co_return true;
}

async::Task<bool> SuppressTool::list(async::Loop* loop, Channel* channel, int* status) {
  const bool only = options_.command == Command::show;
  List request{.request = 1,
               .tenant = only ? options_.tenant : std::string(),
               .address = only ? options_.words.front() : std::string(),
               .only = only,
               .watched = options_.watched,
               .most = kAtOnce};
  for (;;) {
    (void)channel->send(request);
    auto received = co_await channel->receive({.deadline = loop->now() + kAnswer});
    const auto* listed = received ? std::get_if<Listed>(&received->message) : nullptr;
    if (listed == nullptr || !listed->error.empty()) {
      why_ = listed != nullptr ? listed->error : received ? "no answer" : "no answer: " + received.error().message();
      *status = EX_UNAVAILABLE;
      co_return false;
    }
    for (const Entry& e : listed->entries)
      if (only || options_.tenant.empty() || e.tenant == to_lower(options_.tenant))
        print(options_.command == Command::dump ? exported(e) : shown(e, options_.json));
    *status = only && listed->entries.empty() ? EX_DATAERR : EX_OK;
    if (*status != EX_OK) why_ = "nothing is known of " + readable(request.address);
    if (only || !listed->more) co_return true;
    request.tenant = listed->after_tenant;
    request.address = listed->after_address;
  }
}

async::Task<void> SuppressTool::converse(SuppressTool* tool, async::Loop* loop, std::string path, int* status) {
  auto channel = co_await ipc::connect_channel<OrderFromAnvil, OrderToAnvil>(*loop, std::move(path), kOrdersName,
                                                                             {.deadline = loop->now() + kAnswer});
  if (!channel) {
    tool->why_ = channel.error().message();
    co_return;
  }
  if (tool->options_.command == Command::list || tool->options_.command == Command::show ||
      tool->options_.command == Command::dump)
    (void)co_await tool->list(loop, &*channel, status);
  else
    (void)co_await tool->order(loop, &*channel, status);
}

int SuppressTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const auto& s = config.settings();
  const WallTime now = system_clock().wall_now();
  usual_.tenant = options_.tenant;
  usual_.listed = true;
  usual_.reason = suppression::reason_named(options_.reason).value_or(suppression::Reason::order);
  usual_.expires = options_.expires.empty() ? 0 : end_of(options_.expires, now).value_or(0);
  usual_.text = options_.text;
  bool faults = false;
  if (options_.command == Command::import) {
    std::ifstream file;
    const std::string& name = options_.words.front();
    if (name != "-") file.open(name);
    std::istream& in = name == "-" ? std::cin : file;
    if (!in) die(kProgram, EX_NOINPUT, "cannot read " + name);
    std::string text;
    for (std::size_t number = 1; std::getline(in, text); ++number) {
      const std::string_view line = trim(text);
      if (line.empty() || line.starts_with('#')) continue;
      const std::string where = fmt::format("line {}: ", number);
      auto entry = line.size() > kMostLine ? std::unexpected<std::string>("too long") : imported(line, usual_, now);
      if (entry) {
        orders_.emplace_back(where, *std::move(entry));
      } else {
        std::fprintf(stderr, "%s: %s%s\n", kProgram, where.c_str(), entry.error().c_str());
        faults = true;
      }
    }
  } else if (options_.command == Command::add || options_.command == Command::remove) {
    for (const std::string& address : options_.words) {
      orders_.emplace_back("", usual_);
      orders_.back().second.address = address;
    }
  }
  if (!s.suppression_list) std::fprintf(stderr, "%s: suppression_list = no: the list stops no mail\n", kProgram);
  const std::string path = s.queue_directory + "/" + std::string(ipc::kAnvilSocket);
  async::Loop loop;
  int status = EX_UNAVAILABLE;
  loop.spawn("ask", converse(this, &loop, path, &status));
  loop.run();
  if (status == EX_UNAVAILABLE) die(kProgram, status, path + ": " + why_);
  if (!why_.empty()) die(kProgram, status, why_);
  return faults && status == EX_OK ? EX_DATAERR : status;
}

}  // namespace pen::tools
