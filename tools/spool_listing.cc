#include "tools/spool_listing.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/spool/files.h"

namespace pen::tools {

using ipc::queue::SpoolFile;
using ipc::queue::SpoolState;

namespace {

std::string_view name_of(SpoolState state) {
  switch (state) {
    case SpoolState::used:
      return "in use";
    case SpoolState::leased:
      return "leased";
    case SpoolState::freed:
      return "freed";
    case SpoolState::free:
      return "free";
    case SpoolState::unknown:
      break;
  }
  return "unknown";
}

std::string line_of(const SpoolFile& f) {
  std::string line = fmt::format("{:>10} {:>12} {:<8} {:<18} {:>12} {}", f.number, f.size, name_of(f.state),
                                 f.queue_id.empty() ? "-" : readable(f.queue_id),
                                 f.queue_id.empty() ? "-" : std::to_string(f.content), f.path);
  if (!f.fault.empty()) line += " (" + readable(f.fault) + ")";
  return line + "\n";
}

std::string json_of(const SpoolFile& f) {
  nlohmann::ordered_json j;
  j["number"] = f.number;
  j["path"] = f.path;
  j["size"] = f.size;
  j["state"] = name_of(f.state);
  if (!f.queue_id.empty()) {
    j["queue_id"] = f.queue_id;
    j["message_size"] = f.content;
  }
  if (!f.fault.empty()) j["fault"] = f.fault;
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

bool SpoolChoice::take(const std::string& argument) {
  const std::string_view name = std::string_view(argument).substr(argument.rfind('/') + 1);
  auto number = spool::number_of(name);
  if (!number) {
    if (const auto plain = parse_unsigned(argument); plain && *plain > 0 && *plain <= UINT32_MAX)
      number = static_cast<spool::FileNumber>(*plain);
  }
  if (number) {
    files_.insert(*number);
    missing_files_.insert(*number);
    return true;
  }
  if (!mail::is_queue_id(argument)) return false;
  ids_.insert(argument);
  missing_ids_.insert(argument);
  return true;
}

std::vector<std::uint32_t> SpoolChoice::numbers() const {
  if (!ids_.empty() || files_.size() > ipc::queue::kMaxIds) return {};
  return {files_.begin(), files_.end()};
}

bool SpoolChoice::found(const SpoolFile& file) {
  const bool meant = all() || files_.contains(file.number) || ids_.contains(file.queue_id);
  missing_files_.erase(file.number);
  missing_ids_.erase(file.queue_id);
  return meant;
}

std::vector<std::string> SpoolChoice::missing() const {
  std::vector<std::string> lines;
  for (const auto number : missing_files_) lines.push_back(fmt::format("{}: no such file in the spool", number));
  for (const auto& id : missing_ids_) lines.push_back(id + ": no file of the spool is this message's");
  return lines;
}

int list_spool(const std::string& program, QueueClient& client, SpoolChoice choice, bool json) {
  ipc::queue::ListSpool request;
  request.request = 1;
  request.files = choice.numbers();
  std::size_t count = 0;
  const auto done = client.ask(request, [&](ipc::queue::FromQmgr& m, std::vector<Fd>&) {
    const auto* file = std::get_if<SpoolFile>(&m);
    if (file == nullptr || !choice.found(*file)) return;
    if (count++ == 0 && !json) print("----File-- ----Size---- --State- ----Queue ID------ --Message--- --Path------\n");
    print(json ? json_of(*file) : line_of(*file));
  });
  if (done.outcome != ipc::queue::Outcome::not_found) expect_ok(program, done);
  if (!json && count == 0 && choice.all()) print("The spool has no files\n");
  const auto missing = choice.missing();
  for (const auto& line : missing) std::fprintf(stderr, "%s: %s\n", program.c_str(), line.c_str());
  return missing.empty() ? EX_OK : EX_DATAERR;
}

}  // namespace pen::tools
