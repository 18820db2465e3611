// Output of a socketmap server: netstrings are found in their bounds, cut anywhere they are incomplete, and what is in
// one means the same when it is wrapped again. Besides: parts of a key stay in their word of a redis query.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/map/redis_query.h"
#include "lib/map/socketmap_reply.h"

using namespace pen::map;

namespace {

constexpr std::size_t kMost = 200;

void check_reply(std::string_view bytes) {
  const std::size_t size = whole_netstring(bytes, kMost);
  if (size == 0 && bytes.size() > kMost + 10) std::abort();  // waited for although it cannot come
  if (size == 0 || size == std::string::npos) return;
  if (size > bytes.size()) std::abort();
  const auto whole = bytes.substr(0, size);
  const auto content = netstring_content(whole);
  if (content.size() > kMost) std::abort();
  for (std::size_t n = 0; n < size; ++n)
    if (whole_netstring(whole.substr(0, n), kMost) != 0) std::abort();
  const std::string again = netstring(content);
  if (whole_netstring(again, kMost) != again.size() || netstring_content(again) != content) std::abort();
  const auto value = socketmap_meaning(content, "t");
  if (content.starts_with("OK ") && (!value || *value != content.substr(3))) std::abort();
  if (!content.starts_with("OK") && value && *value) std::abort();  // only OK has a value
}

void check_query(std::string_view key) {
  for (const std::string_view quote : {"", "'", "\""}) {
    std::string query = "GET " + std::string(quote) + "k:";
    if (!quote_redis(key, query)) std::abort();
    query += quote;
    const auto words = split_redis(query);
    if (!words || words->size() != 2 || words->back() != "k:" + std::string(key)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2000) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_reply(input);
  check_query(input);
  (void)split_redis(input);
  return 0;
}
