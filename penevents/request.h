#pragma once
/// What a reader of public/event-stream asks for, in a line of JSON: {"types":["bounced"],"queue_id":"4ABC","since":7}
///
/// Use:     auto wanted = Request::parse(line);     if (wanted->wants(type, queue_id, id)) …
/// Errors:  a text for the reader.
/// Pure; any thread.
#include <bitset>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/events/event.h"

namespace pen::penevents {

using Types = std::bitset<static_cast<std::size_t>(events::Type::kEnd)>;

struct Request {
  static constexpr std::size_t kMaxLine = 8192;
  Types types = Types().set();
  std::string queue_id;     // empty: of all messages, and of none
  std::uint64_t since = 0;  // events with a larger id

  /// An empty line asks for everything.
  static std::expected<Request, std::string> parse(std::string_view line);
  bool wants(events::Type type, std::string_view id_of_message, std::uint64_t id) const {
    return id > since && types[static_cast<std::size_t>(type)] && (queue_id.empty() || queue_id == id_of_message);
  }
};

/// Of a setting: names, or "all". Error: the word that is no type.
std::expected<Types, std::string> parse_types(const std::vector<std::string>& words);

}  // namespace pen::penevents
