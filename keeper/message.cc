#include "keeper/message.h"

#include <algorithm>
#include <string_view>

#include "lib/base/text.h"

namespace pen::keeper {
namespace {

/// Names come back to master in one variable, with colons between them.
bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, ascii_alnum);
}

}  // namespace

std::optional<Message> parse(std::string_view text) {
  if (text.size() > kMostText) return std::nullopt;
  Message message;
  bool any = false;
  for (const std::string_view line : split(text, "\n")) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    any = true;
    const std::string_view name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "FDNAME") message.name = value;
    if (value != "1") continue;
    if (name == "READY") message.ready = true;
    if (name == "STOPPING") message.stopping = true;
    if (name == "FDSTORE") message.keeps = true;
    if (name == "FDSTOREREMOVE") message.forgets = true;
  }
  if (!any) return std::nullopt;
  if ((message.keeps || message.forgets) && !good_name(message.name)) return std::nullopt;
  return message;
}

}  // namespace pen::keeper
