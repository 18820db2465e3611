#pragma once
/// Views of raw bytes, and the little-endian integers in them, for the formats on disk and on the wire.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace pen {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline Bytes as_bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <class T>
  requires std::is_unsigned_v<T>
T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = std::byteswap(value);
  return value;
}
template <class T>
  requires std::is_unsigned_v<T>
void store_le(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::big) value = std::byteswap(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace pen
