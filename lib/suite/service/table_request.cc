#include "lib/suite/service/table_request.h"

#include <cstdint>

#include "lib/base/check.h"

namespace pen::service {
namespace {

constexpr std::string_view kMark = "PEN\1", kTable = "tabl";
constexpr std::uint32_t kLargestErrno = 4095;

}  // namespace

std::string encode_table_request(std::string_view path) {
  PEN_CHECK(path.starts_with('/') && path.size() <= kMaxTablePath);
  std::string out(kMark);
  out.append(kTable).append(path).resize(kTableRequestBytes, '\0');
  return out;
}

std::optional<std::string> parse_table_request(std::string_view bytes) {
  if (bytes.size() != kTableRequestBytes || !bytes.starts_with(kMark)) return std::nullopt;
  bytes.remove_prefix(kMark.size());
  if (!bytes.starts_with(kTable)) return std::nullopt;
  bytes.remove_prefix(kTable.size());
  const auto end = bytes.find('\0');
  const bool whole = end != bytes.npos && bytes.find_first_not_of('\0', end) == bytes.npos;
  if (!whole || !bytes.starts_with('/')) return std::nullopt;
  return std::string(bytes.substr(0, end));
}

std::string encode_table_answer(int error) {
  std::string out(kMark);
  for (unsigned i = 0; i < 4; ++i) out += static_cast<char>(static_cast<std::uint32_t>(error) >> (8 * i) & 0xff);
  return out;
}

std::optional<int> parse_table_answer(std::string_view bytes) {
  if (bytes.size() != kTableAnswerBytes || !bytes.starts_with(kMark)) return std::nullopt;
  std::uint32_t error = 0;
  for (unsigned i = 0; i < 4; ++i)
    error |= std::uint32_t{static_cast<unsigned char>(bytes[kMark.size() + i])} << (8 * i);
  return error <= kLargestErrno ? std::optional(static_cast<int>(error)) : std::nullopt;
}

}  // namespace pen::service
