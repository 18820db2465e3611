#include "penevents/request.h"

#include <nlohmann/json.hpp>

#include "lib/base/text.h"

namespace pen::penevents {

using nlohmann::json;

std::expected<Types, std::string> parse_types(const std::vector<std::string>& words) {
  Types out;
  for (const std::string& word : words) {
    if (word == "all") {
      out.set();
      continue;
    }
    const auto type = events::type_named(word);
    if (!type) return std::unexpected(word);
    out.set(static_cast<std::size_t>(*type));
  }
  return out;
}

std::expected<Request, std::string> Request::parse(std::string_view line) {
  Request out;
  line = trim(line);
  if (line.empty()) return out;
  const json asked = json::parse(line, nullptr, false);
  if (!asked.is_object()) return std::unexpected("the request is no JSON object");
  for (const auto& [name, value] : asked.items()) {
    if (name == "types") {
      if (!value.is_array()) return std::unexpected("types is no list");
      std::vector<std::string> words;
      for (const auto& word : value) {
        if (!word.is_string()) return std::unexpected("a type is no text");
        words.push_back(word.get<std::string>());
      }
      auto types = parse_types(words);
      if (!types) return std::unexpected("no such type: " + printable(types.error(), 60));
      if (!words.empty()) out.types = *types;
    } else if (name == "queue_id") {
      if (!value.is_string()) return std::unexpected("queue_id is no text");
      out.queue_id = value.get<std::string>();
    } else if (name == "since") {
      if (!value.is_number_unsigned()) return std::unexpected("since is no number");
      out.since = value.get<std::uint64_t>();
    } else {
      return std::unexpected("no such member: " + printable(name, 60));
    }
  }
  return out;
}

}  // namespace pen::penevents
