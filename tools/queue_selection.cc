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

bool Selection::take(int c, const char* value) {
  const std::string text = value == nullptr ? "" : value;
  if (c < kSender || c > kReply) return false;
  if (text.empty()) die(program_, EX_USAGE, "an empty condition chooses nothing");
  switch (c) {
    case kSender:
      // As listings show it.
      filter_.sender = text == "MAILER-DAEMON" ? "<>" : text;
      break;
    case kRecipient:
      filter_.recipient = text;
      break;
    case kDomain:
      filter_.domain = text.starts_with('@') ? text.substr(1) : text;
      break;
    case kOlder: {
      const auto time = config::parse_time(text, 's');
      if (!time || *time < seconds(1))
        die(program_, EX_USAGE, "not a time: " + printable(text) + " (90s, 5m, 2h, 3d, 1w)");
      filter_.older = std::chrono::duration_cast<seconds>(*time);
      break;
    }
    default:
      filter_.reply = text;
  }
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
