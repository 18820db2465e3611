#include "lib/receive/tenant/priority.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::tenant {

std::string_view describe(PriorityError e) {
  switch (e) {
    case PriorityError::word:
      return "nothing that gives a priority";
    case PriorityError::field:
      return "not the name of a header field";
    case PriorityError::value:
      return "not a priority (-9 to 9)";
  }
  return "error";
}

Result<std::shared_ptr<const Priorities>> Priorities::open(const config::Settings& s) {
  if (s.message_priority.empty()) return nullptr;
  constexpr std::pair<std::string_view, By> kWords[] = {{"mt_priority", By::mt_priority},
                                                        {"header", By::header},
                                                        {"sender", By::sender},
                                                        {"sender_domain", By::sender_domain},
                                                        {"tenant", By::tenant}};
  auto out = std::shared_ptr<Priorities>(new Priorities);
  for (const std::string& word : s.message_priority) {
    const auto* found = std::ranges::find_if(kWords, [&](const auto& known) { return iequals(known.first, word); });
    if (found == std::end(kWords))
      return fail(PriorityError::word,
                  "message_priority: " + word + " (mt_priority, header, sender, sender_domain and tenant are there)");
    out->by_.push_back(found->second);
    if (found->second == By::mt_priority) out->parameter_ = true;
    if (found->second == By::header) out->field_ = s.message_priority_header;
  }
  const auto named = [](unsigned char c) { return c > ' ' && c < 0x7f && c != ':'; };
  if (std::ranges::find(out->by_, By::header) != out->by_.end() &&
      (out->field_.empty() || !std::ranges::all_of(out->field_, named)))
    return fail(PriorityError::field, "message_priority_header");
  const map::OpenOptions open{.default_type = s.default_database_type};
  auto clients = map::MatchList::open(map::MatchList::Kind::host, join(s.message_priority_clients),
                                      {.parent_domains = false, .open = open.of("message_priority_clients")});
  if (!clients) return fail(std::move(clients).error().within("message_priority_clients"));
  out->clients_ = *std::move(clients);
  auto maps = map::MapList::open(join(s.message_priority_maps), open.of("message_priority_maps"));
  if (!maps) return fail(std::move(maps).error().within("message_priority_maps"));
  out->maps_ = *std::move(maps);
  return out;
}

Result<std::optional<std::int8_t>> Priorities::look_up(std::string_view key) const {
  if (maps_.empty()) return std::nullopt;
  auto value = maps_.lookup(key);
  if (!value) return fail(std::move(value).error().within("message_priority_maps"));
  if (!*value) return std::nullopt;
  const auto priority = mail::parse_priority(trim(**value));
  if (!priority) return fail(PriorityError::value, "message_priority_maps: " + std::string(key) + ": " + **value);
  return priority;
}

Result<Priorities::Found> Priorities::of(const PriorityClues& clues) const {
  const auto said = [&](std::int8_t wanted) {
    return Found{clues.trusted ? wanted : std::min<std::int8_t>(wanted, 0), wanted};
  };
  for (const By by : by_) {
    std::optional<std::int8_t> found;
    switch (by) {
      case By::mt_priority:
        if (clues.given) return said(*clues.given);
        break;
      case By::header: {
        if (clues.header.empty()) break;
        PEN_TRY_ASSIGN(found, look_up("header:" + to_lower(clues.header)));
        // RFC 6758: the number may be followed by a comment. What is no priority says nothing.
        const std::string_view value = clues.header;
        if (!found) found = mail::parse_priority(trim(value.substr(0, value.find_first_of("( \t"))));
        if (found) return said(*found);
        break;
      }
      case By::sender:
        if (!clues.sender.empty()) {
          PEN_TRY_ASSIGN(found, look_up(to_lower(clues.sender)));
        }
        break;
      case By::sender_domain:
        if (const auto at = clues.sender.rfind('@'); at != std::string::npos) {
          PEN_TRY_ASSIGN(found, look_up(to_lower(clues.sender.substr(at))));
        }
        break;
      case By::tenant:
        if (!clues.tenant.empty()) {
          PEN_TRY_ASSIGN(found, look_up("tenant:" + clues.tenant));
        }
        break;
    }
    if (found) return Found{*found, *found};
  }
  return Found{};
}

Result<bool> Priorities::may_say(std::string_view name, std::string_view address) const {
  auto yes = clients_.matches_host(name, address);
  if (!yes) return fail(std::move(yes).error().within("message_priority_clients"));
  return yes;
}

}  // namespace pen::tenant
