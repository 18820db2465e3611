#pragma once
/// An event: something that happened to mail, as bytes that are cheap to make.
///
/// Use:     Event e(Type::delivered, loop.clock().wall_now());
///          e.text(Field::queue_id, id).number(Field::size, size);      // an empty text and a 0 are left out
///          for (std::string_view rest = blob; auto seen = next(rest);) … seen->type, seen->values …
/// Format:  varint length, then type, time in microseconds, and for each value varint (field * 2 + is a text) and the
///          value: a number, or length and bytes. A reader passes over types and fields that it does not know.
/// Bounds:  a text is cut at kMaxText, an event holds kMaxEvent bytes and leaves out what is more.
/// Pure; any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen::events {

enum class Type : std::uint8_t {
#define PEN_EVENT(name) name,
#include "lib/suite/events/events.def"
  kEnd
};
enum class Field : std::uint8_t {
#define PEN_EVENT_TEXT(name) name,
#define PEN_EVENT_NUMBER(name) name,
#define PEN_EVENT_DURATION(name) name,
#define PEN_EVENT_TIME(name) name,
#define PEN_EVENT_FLAG(name) name,
#include "lib/suite/events/events.def"
  kEnd
};
enum class Kind : std::uint8_t { text, number, duration, time, flag };

std::string_view name_of(Type type);
std::string_view name_of(Field field);
Kind kind_of(Field field);
/// nullopt: no such type.
std::optional<Type> type_named(std::string_view name);

inline constexpr std::size_t kMaxText = 2048;  // as long as a line of the log
inline constexpr std::size_t kMaxEvent = 16384;

class Event {
 public:
  Event(Type type, WallTime at);
  Event& text(Field field, std::string_view value);
  Event& number(Field field, std::uint64_t value);
  Event& duration(Field field, microseconds value);
  Event& time(Field field, WallTime value);
  Event& flag(Field field, bool value) { return number(field, value ? 1 : 0); }

  /// Type, time and values, without the length.
  const std::string& bytes() const { return bytes_; }
  /// With the length.
  void append_to(std::string& out) const;

 private:
  std::string bytes_;
};

/// What another program reported. The texts lie in the blob.
struct Seen {
  struct Value {
    Field field;
    std::string_view text;     // of a text
    std::uint64_t number = 0;  // of all others
  };
  Type type{};
  WallTime time{};
  std::vector<Value> values;  // in the order of their numbers' first appearance

  std::string_view text(Field field) const;
  std::uint64_t number(Field field) const;
};
/// Takes the first event off the blob. nullopt: none is left, or the rest is malformed (then `rest` is not empty).
/// Types that are not known here are passed over.
std::optional<Seen> next(std::string_view& rest);

}  // namespace pen::events
