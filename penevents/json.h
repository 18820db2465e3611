#pragma once
/// Events as JSON: one object in a line.
///
/// Use:     log << json_line(id, seen, origin);            // {"id":17,"time":"…","type":"delivered",…}\n
/// Rules:   id, time and type come first. Bytes that are no UTF-8 become U+FFFD; control characters are escaped, also
///          DEL and the line separators that JavaScript takes for line ends.
/// Pure; any thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/suite/events/event.h"

namespace pen::penevents {

struct Origin {
  std::string_view host, program, service;  // empty: left out
  std::uint64_t pid = 0;
};

/// With its quotes.
void append_json(std::string& out, std::string_view text);
/// "2026-11-27T01:20:24.123Z"
std::string date_of(WallTime time);
std::string json_line(std::uint64_t id, const events::Seen& event, const Origin& origin);

/// "mx.example.org[192.0.2.1]:25", as the log has it. Without address: a name alone.
struct Relay {
  std::string_view host, address;
  std::uint64_t port = 0;
};
Relay relay_of(std::string_view text);

}  // namespace pen::penevents
