#pragma once
/// Turns plain structs into bytes and back; both directions derive from one description of the fields.
///
/// Use:     struct Point { std::uint32_t x = 0; std::string label; PEN_FIELDS(x, label) };
///          std::string bytes = encode(point);
///          std::optional<Point> p = decode<Point>(bytes);      // nullopt: malformed, over-long or left-over bytes
/// Format:  unsigned integers and enums as LEB128 varints; signed as zigzag varints; bool and std::byte one byte;
///          double as 8 bytes; string as length + bytes; vector as count + items; optional as 0/1 + value;
///          durations and WallTime as their count in microseconds, zigzag; std::variant as index + value; struct as
///          its fields in order. New fields are only ever added at the end. A reader that runs out of bytes gives the
///          remaining fields their defaults: so a newer program reads an older record. See docs/ipc.md.
/// Bounds:  decoding never allocates more than the input can back: counts are checked against the bytes left.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/time.h"

#define PEN_FIELDS(...)                        \
  template <class Visitor>                     \
  void visit_fields(Visitor&& visitor) {       \
    visitor(__VA_ARGS__);                      \
  }                                            \
  template <class Visitor>                     \
  void visit_fields(Visitor&& visitor) const { \
    visitor(__VA_ARGS__);                      \
  }
/// For a struct without fields (a bare signal).
#define PEN_NO_FIELDS                          \
  template <class Visitor>                     \
  void visit_fields(Visitor&& visitor) const { \
    visitor();                                 \
  }

namespace pen {

/// Out is a std::string, or ByteCount to learn how many bytes there would be.
template <class Out>
class BasicEncoder {
 public:
  explicit BasicEncoder(Out& out) : out_(out) {}

  void varint(std::uint64_t v) {
    if (v < 0x80) return out_.push_back(static_cast<char>(v));
    char digits[10];
    std::size_t n = 0;
    for (; v >= 0x80; v >>= 7) digits[n++] = static_cast<char>(v | 0x80);
    digits[n++] = static_cast<char>(v);
    out_.append(digits, n);
  }
  /// Appends bytes that are already encoded.
  void raw(std::string_view bytes) { out_.append(bytes); }
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.push_back(value ? 1 : 0);
    } else if constexpr (std::is_enum_v<T>) {
      varint(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
      varint(value);
    } else if constexpr (std::is_integral_v<T>) {
      const auto v = static_cast<std::int64_t>(value);
      varint((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63));
    } else if constexpr (std::is_same_v<T, double>) {
      std::byte raw[8];
      store_le(raw, std::bit_cast<std::uint64_t>(value));
      out_.append(reinterpret_cast<const char*>(raw), 8);
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      const std::string_view text = value;
      varint(text.size());
      out_.append(text);
    } else {
      put_compound(value);
    }
  }
  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }

 private:
  template <class T>
  void put_compound(const std::vector<T>& values) {
    varint(values.size());
    for (const auto& v : values) put(v);
  }
  template <class T>
  void put_compound(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class... T>
  void put_compound(const std::variant<T...>& value) {
    varint(value.index());
    std::visit([this](const auto& v) { this->put(v); }, value);
  }
  template <class Rep, class Period>
  void put_compound(const std::chrono::duration<Rep, Period>& d) {
    put(std::int64_t{std::chrono::duration_cast<microseconds>(d).count()});
  }
  void put_compound(const WallTime& t) { put(std::int64_t{t.time_since_epoch().count()}); }
  template <class T>
    requires requires(const T& v, BasicEncoder& e) { v.visit_fields(e); }
  void put_compound(const T& value) {
    value.visit_fields(*this);
  }

  Out& out_;
};
using Encoder = BasicEncoder<std::string>;

struct ByteCount {
  std::size_t size = 0;
  void push_back(char /*c*/) { ++size; }
  void append(std::string_view text) { size += text.size(); }
  void append(const char* /*data*/, std::size_t n) { size += n; }
};

class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}
  bool ok() const { return ok_; }
  std::string_view rest() const { return in_; }

  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) break;
      const auto b = static_cast<unsigned char>(in_.front());
      in_.remove_prefix(1);
      if (shift == 63 && b > 1) break;
      v |= static_cast<std::uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }
  template <class T>
  void get(T& value) {
    if (!ok_) return;
    if constexpr (std::is_same_v<T, bool>) {
      const auto v = varint();
      if (v > 1) ok_ = false;
      value = v == 1;
    } else if constexpr (std::is_enum_v<T>) {
      using U = std::make_unsigned_t<std::underlying_type_t<T>>;
      const auto v = varint();
      if (v > static_cast<U>(-1)) ok_ = false;
      value = static_cast<T>(v);
    } else if constexpr (std::is_unsigned_v<T>) {
      const auto v = varint();
      if (v > static_cast<T>(-1)) ok_ = false;
      value = static_cast<T>(v);
    } else if constexpr (std::is_integral_v<T>) {
      const auto u = varint();
      const auto v = static_cast<std::int64_t>((u >> 1) ^ (~(u & 1) + 1));
      value = static_cast<T>(v);
      if (static_cast<std::int64_t>(value) != v) ok_ = false;
    } else if constexpr (std::is_same_v<T, double>) {
      if (in_.size() < 8) {
        ok_ = false;
        return;
      }
      value = std::bit_cast<double>(load_le<std::uint64_t>(pen::as_bytes(in_).data()));
      in_.remove_prefix(8);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
      const auto n = varint();
      if (!ok_ || n > in_.size()) {
        ok_ = false;
        return;
      }
      value = T(in_.substr(0, n));
      in_.remove_prefix(n);
    } else {
      get_compound(value);
    }
  }
  /// Reads fields in order; at the end of the input the remaining fields keep their defaults.
  template <class... Fields>
  void operator()(Fields&... fields) {
    ((in_.empty() ? void() : get(fields)), ...);
  }

 private:
  template <class T>
  void get_compound(std::vector<T>& values) {
    const auto n = varint();
    if (!ok_ || n > in_.size()) {  // every item takes at least one byte
      ok_ = false;
      return;
    }
    values.clear();
    for (std::uint64_t i = 0; i < n && ok_; ++i) {
      values.emplace_back();
      if (in_.empty()) ok_ = false;
      get(values.back());
    }
  }
  template <class T>
  void get_compound(std::optional<T>& value) {
    bool present = false;
    get(present);
    value.reset();
    if (present && ok_) get(value.emplace());
  }
  template <class... T>
  void get_compound(std::variant<T...>& value) {
    const auto index = varint();
    if (!ok_ || index >= sizeof...(T)) {
      ok_ = false;
      return;
    }
    get_alternative(value, index, std::index_sequence_for<T...>{});
  }
  template <class V, std::size_t... I>
  void get_alternative(V& value, std::uint64_t index, std::index_sequence<I...>) {
    ((index == I ? get(value.template emplace<I>()) : void()), ...);
  }
  template <class Rep, class Period>
  void get_compound(std::chrono::duration<Rep, Period>& d) {
    std::int64_t count = 0;
    get(count);
    d = std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(microseconds(count));
  }
  void get_compound(WallTime& t) {
    std::int64_t count = 0;
    get(count);
    t = WallTime(microseconds(count));
  }
  template <class T>
    requires requires(T& v, Decoder& d) { v.visit_fields(d); }
  void get_compound(T& value) {
    value.visit_fields(*this);
  }

  std::string_view in_;
  bool ok_ = true;
};

/// Appends the encoding of one value to out.
template <class T>
void encode_to(std::string& out, const T& value) {
  Encoder(out).put(value);
}
/// The number of bytes that encode() makes.
template <class T>
std::size_t encoded_size(const T& value) {
  ByteCount count;
  BasicEncoder<ByteCount>(count).put(value);
  return count.size;
}
template <class T>
std::string encode(const T& value) {
  std::string out;
  out.reserve(encoded_size(value));
  encode_to(out, value);
  return out;
}
/// Decodes exactly one value with nothing after it. string_view fields of T point into the input.
template <class T>
std::optional<T> decode(std::string_view in) {
  Decoder decoder(in);
  T value{};
  decoder.get(value);
  if (!decoder.ok() || !decoder.rest().empty()) return std::nullopt;
  return value;
}

}  // namespace pen
