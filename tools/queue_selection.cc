#include "tools/queue_selection.h"

#include <sysexits.h>

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"
#include "lib/config/values.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

enum : int { kSender = 1000, kRecipient, kDomain, kOlder, kReply };
constexpr option kOptions[] = {{"sender", required_argument, nullptr, kSender},
                               {"recipient", required_argument, nullptr, kRecipient},
                               {"domain", required_argument, nullptr, kDomain},
                               {"older", required_argument, nullptr, kOlder},
                               {"reply", required_argument, nullptr, kReply}};

}  // namespace

std::span<const option> Selection::options() { return kOptions; }

const char* Selection::help() {
  return "  --sender ADDRESS     from that address, or @DOMAIN, or <>: notifications\n"
         "  --recipient ADDRESS  to that address, or @DOMAIN\n"
         "  --domain DOMAIN      to that domain\n"
         "  --older TIME         arrived at least that long ago: 90s, 5m, 2h, 3d, 1w\n"
         "  --reply TEXT         waiting for a reason that contains this text\n";
}

std::vector<service::Option> Selection::rows() {
  using service::Given;
  return {{"--sender ADDRESS", "from that address, or @DOMAIN, or <>: notifications",
           [this](const Given& given) {
             // As listings show it.
             return condition(filter_.sender, given.value == "MAILER-DAEMON" ? "<>" : given.value);
           }},
          {"--recipient ADDRESS", "to that address, or @DOMAIN",
           [this](const Given& given) { return condition(filter_.recipient, given.value); }},
          {"--domain DOMAIN", "to that domain",
           [this](const Given& given) {
             return condition(filter_.domain,
                              given.value.substr(given.value.starts_with('@') ? 1 : 0));
           }},
          {"--older TIME", "arrived at least that long ago: 90s, 5m, 2h, 3d, 1w",
           [this](const Given& given) { return older(given.value); }},
          {"--reply TEXT", "waiting for a reason that contains this text",
           [this](const Given& given) { return condition(filter_.reply, given.value); }}};
}

std::string Selection::condition(std::string& to, const std::string& text) {
  to = text;
  return text.empty() ? "an empty condition chooses nothing" : "";
}

std::string Selection::older(const std::string& text) {
  const auto time = config::parse_time(text, 's');
  if (text.empty()) return "an empty condition chooses nothing";
  if (!time || *time < seconds(1))
    return "not a time: " + printable(text) + " (90s, 5m, 2h, 3d, 1w)";
  filter_.older = std::chrono::duration_cast<seconds>(*time);
  return {};
}

bool Selection::take(int c, const char* value) {
  if (c < kSender || c > kReply) return false;
  const std::vector<service::Option> all = rows();
  const std::string wrong = all[static_cast<std::size_t>(c - kSender)].take({"", value});
  if (!wrong.empty()) die(program_, EX_USAGE, wrong);
  return true;
}

bool Selection::take_queue(std::string_view name) {
  const auto* found = std::ranges::find(ipc::queue::kPlaceNames, name);
  if (found == std::end(ipc::queue::kPlaceNames)) return false;
  filter_.places |=
      ipc::queue::bit_of(static_cast<ipc::queue::Place>(found - ipc::queue::kPlaceNames));
  return true;
}

}  // namespace pen::tools
