#include "lib/suite/events/event.h"

#include <algorithm>
#include <array>

#include "lib/base/codec.h"

namespace pen::events {
namespace {

constexpr auto kTypes = std::to_array<std::string_view>({
#define PEN_EVENT(name) #name,
#include "lib/suite/events/events.def"
});
struct Row {
  std::string_view name;
  Kind kind;
};
constexpr auto kFields = std::to_array<Row>({
#define PEN_EVENT_TEXT(name) {#name, Kind::text},
#define PEN_EVENT_NUMBER(name) {#name, Kind::number},
#define PEN_EVENT_DURATION(name) {#name, Kind::duration},
#define PEN_EVENT_TIME(name) {#name, Kind::time},
#define PEN_EVENT_FLAG(name) {#name, Kind::flag},
#include "lib/suite/events/events.def"
});

// The mail programs encode some twenty values for each message: a call for each byte would be most of what an event
// costs.
static_assert(kFields.size() <= 64);
char tag_of(Field field, bool is_text) {
  return static_cast<char>(static_cast<unsigned>(field) * 2 + (is_text ? 1 : 0));
}
/// Returns where it ends.
char* put_varint(char* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}
/// write(at) writes `most` bytes at most and returns where they end.
template <class F>
void append_within(std::string& out, std::size_t most, F write) {
  const std::size_t had = out.size();
  out.resize_and_overwrite(
      had + most, [&](char* begin, std::size_t) { return static_cast<std::size_t>(write(begin + had) - begin); });
}

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !in.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> take_text(std::string_view& in) {
  const auto size = take_varint(in);
  if (!size || *size > in.size()) return std::nullopt;
  const std::string_view text = in.substr(0, static_cast<std::size_t>(*size));
  in.remove_prefix(text.size());
  return text;
}

/// False: malformed.
bool read_values(std::string_view in, std::vector<Seen::Value>& out) {
  std::uint64_t known = 0;  // a bit for each field: the first value of one counts
  out.reserve(24);
  while (!in.empty()) {
    const auto tag = take_varint(in);
    if (!tag) return false;
    Seen::Value value{};
    const bool is_text = (*tag & 1) != 0;
    if (is_text) {
      const auto text = take_text(in);
      if (!text) return false;
      value.text = *text;
    } else {
      const auto number = take_varint(in);
      if (!number) return false;
      value.number = *number;
    }
    if (*tag / 2 >= kFields.size()) continue;  // of a later version
    value.field = static_cast<Field>(*tag / 2);
    const std::uint64_t bit = std::uint64_t{1} << (*tag / 2);
    if (is_text != (kind_of(value.field) == Kind::text) || (known & bit) != 0) continue;
    known |= bit;
    out.push_back(value);
  }
  return true;
}

}  // namespace

std::string_view name_of(Type type) { return kTypes[static_cast<std::size_t>(type)]; }
std::string_view name_of(Field field) { return kFields[static_cast<std::size_t>(field)].name; }
Kind kind_of(Field field) { return kFields[static_cast<std::size_t>(field)].kind; }

std::optional<Type> type_named(std::string_view name) {
  const auto at = std::ranges::find(kTypes, name);
  if (at == kTypes.end()) return std::nullopt;
  return static_cast<Type>(at - kTypes.begin());
}

Event::Event(Type type, WallTime at) {
  bytes_.reserve(384);
  Encoder out(bytes_);
  out.varint(static_cast<std::uint64_t>(type));
  out.varint(static_cast<std::uint64_t>(std::max<std::int64_t>(0, at.time_since_epoch().count())));
}

Event& Event::text(Field field, std::string_view value) {
  value = value.substr(0, kMaxText);
  if (value.empty() || bytes_.size() + value.size() + 16 > kMaxEvent) return *this;
  append_within(bytes_, 1 + 2 + value.size(), [&](char* at) {
    *at++ = tag_of(field, true);
    at = put_varint(at, value.size());
    return at + value.copy(at, value.size());
  });
  return *this;
}

Event& Event::number(Field field, std::uint64_t value) {
  if (value == 0 || bytes_.size() + 16 > kMaxEvent) return *this;
  append_within(bytes_, 1 + 10, [&](char* at) {
    *at++ = tag_of(field, false);
    return put_varint(at, value);
  });
  return *this;
}

Event& Event::duration(Field field, microseconds value) {
  return number(field, static_cast<std::uint64_t>(std::max<std::int64_t>(0, value.count())));
}
Event& Event::time(Field field, WallTime value) {
  return duration(field, microseconds(value.time_since_epoch().count()));
}

void Event::append_to(std::string& out) const { Encoder(out).put(bytes_); }

std::string_view Seen::text(Field field) const {
  const auto at = std::ranges::find(values, field, &Value::field);
  return at == values.end() ? std::string_view() : at->text;
}
std::uint64_t Seen::number(Field field) const {
  const auto at = std::ranges::find(values, field, &Value::field);
  return at == values.end() ? 0 : at->number;
}

std::optional<Seen> next(std::string_view& rest) {
  while (!rest.empty()) {
    std::string_view in = rest;
    auto body = take_text(in);
    if (!body || body->size() > kMaxEvent) return std::nullopt;
    const auto type = take_varint(*body);
    const auto time = take_varint(*body);
    constexpr std::uint64_t kLastTime = 253'402'300'799'999'999;  // of the year 9999
    if (!type || !time || *time > kLastTime) return std::nullopt;
    Seen seen;
    seen.time = WallTime(microseconds(static_cast<std::int64_t>(*time)));
    if (!read_values(*body, seen.values)) return std::nullopt;
    rest = in;
    if (*type >= kTypes.size()) continue;  // of a later version
    seen.type = static_cast<Type>(*type);
    return seen;
  }
  return std::nullopt;
}

}  // namespace pen::events
