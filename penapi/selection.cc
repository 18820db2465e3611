#include "penapi/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"

namespace pen::api {

namespace {

constexpr std::size_t kMaxText = 1000;
constexpr std::size_t kMaxIds = 1000;
constexpr std::uint64_t kLongest = 10ULL * 365 * 86400;

std::string take_places(std::string_view words, std::uint8_t& places) {
  for (const std::string& word : split_list(words)) {
    const auto* at = std::ranges::find(ipc::queue::kPlaceNames, word);
    if (at == std::end(ipc::queue::kPlaceNames)) return "state: " + printable(word) + " is none";
    places |= ipc::queue::bit_of(static_cast<ipc::queue::Place>(at - std::begin(ipc::queue::kPlaceNames)));
  }
  return places == 0 ? "state: no word" : "";
}

}  // namespace

std::expected<std::uint64_t, std::string> take_number(std::map<std::string, std::string>& query, const char* name,
                                                      std::uint64_t otherwise, std::uint64_t most) {
  const auto at = query.find(name);
  if (at == query.end()) return otherwise;
  const std::string text = std::move(at->second);
  query.erase(at);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > most)
    return std::unexpected(fmt::format("{}: a number up to {}", name, most));
  return value;
}

std::string take_filter(std::map<std::string, std::string>& query, ipc::queue::Filter& filter) {
  for (const auto& [name, member] : {std::pair{"sender", &ipc::queue::Filter::sender},
                                     {"recipient", &ipc::queue::Filter::recipient},
                                     {"domain", &ipc::queue::Filter::domain},
                                     {"tenant", &ipc::queue::Filter::tenant},
                                     {"reply", &ipc::queue::Filter::reply}}) {
    const auto at = query.find(name);
    if (at == query.end()) continue;
    if (at->second.empty() || at->second.size() > kMaxText) return std::string(name) + ": empty or too long";
    filter.*member = std::move(at->second);
    query.erase(at);
  }
  const auto older = take_number(query, "older", 0, kLongest);
  if (!older) return older.error();
  filter.older = seconds(static_cast<std::int64_t>(*older));
  const auto at = query.find("state");
  if (at == query.end()) return {};
  const std::string words = std::move(at->second);
  query.erase(at);
  return take_places(words, filter.places);
}

std::expected<ipc::queue::Act, std::string> order_of(std::string_view body, ipc::queue::Verb verb) {
  using nlohmann::json;
  const json j = json::parse(body, nullptr, false);
  if (!j.is_object()) return std::unexpected("the body is no JSON object");
  ipc::queue::Act act;
  act.request = 1;
  act.verb = verb;
  bool chosen = false;
  for (const auto& [name, value] : j.items()) {
    if (name == "dry_run" && value.is_boolean()) {
      act.dry_run = value.get<bool>();
    } else if (name == "all" && value.is_boolean()) {
      act.all = value.get<bool>();
      chosen = chosen || act.all;
    } else if (name == "ids" && value.is_array()) {
      if (value.empty() || value.size() > kMaxIds)
        return std::unexpected(fmt::format("ids: one or more, {} at most", kMaxIds));
      for (const json& id : value) {
        if (!id.is_string() || !mail::is_queue_id(id.get_ref<const std::string&>()))
          return std::unexpected("ids: not a queue id");
        act.queue_ids.push_back(id.get<std::string>());
      }
      chosen = true;
    } else if (name == "filter" && value.is_object()) {
      std::map<std::string, std::string> query;
      for (const auto& [field, text] : value.items()) {
        if (text.is_string())
          query[field] = text.get<std::string>();
        else if (text.is_number_unsigned())
          query[field] = std::to_string(text.get<std::uint64_t>());
        else
          return std::unexpected("filter: " + printable(field) + " is no text");
      }
      if (auto wrong = take_filter(query, act.filter); !wrong.empty()) return std::unexpected("filter: " + wrong);
      if (!query.empty()) return std::unexpected("filter: unknown: " + printable(query.begin()->first));
      if (act.filter == ipc::queue::Filter{}) return std::unexpected("filter: empty; for everything say \"all\": true");
      act.all = act.all || act.queue_ids.empty();
      chosen = true;
    } else {
      return std::unexpected("unknown or of another type: " + printable(name));
    }
  }
  if (!chosen) return std::unexpected("say which messages: \"ids\", \"filter\" or \"all\": true");
  if (act.all && !act.queue_ids.empty()) return std::unexpected("either \"ids\" or \"all\"");
  return act;
}

}  // namespace pen::api
