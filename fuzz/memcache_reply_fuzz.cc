// Output of a memcached server, after a line with the key that was asked for: every reply is found in its bounds, and
// cut anywhere it is incomplete or the same refusal, never another answer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/map/memcache_reply.h"

using namespace pen::map;
using State = MemcacheReply::State;

namespace {

constexpr MemcacheReply::Limits kLimits{.line = 60, .data = 100};

bool is_answer(State state) { return state == State::hit || state == State::miss || state == State::stored; }

template <class Read>
void check(std::string_view bytes, const Read& read) {
  const MemcacheReply whole = read(bytes);
  if (whole.state == State::hit) {
    if (whole.text.size() > kLimits.data) std::abort();
    if (whole.text.data() < bytes.data() || whole.text.data() + whole.text.size() > bytes.data() + bytes.size())
      std::abort();
  }
  // No more is waited for than the bounds allow: two lines, and a value with its line end.
  if (whole.state == State::incomplete && bytes.size() > 2 * (kLimits.line + 2) + kLimits.data + 2) std::abort();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const State part = read(bytes.substr(0, n)).state;
    // What is whole before the end has bytes behind it, which are no part of a reply.
    if (is_answer(part) && is_answer(whole.state)) std::abort();
    if (part == State::too_large && whole.state != State::too_large) std::abort();
    if (part == State::malformed && whole.state != State::malformed) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto end = input.find('\n');
  if (end == std::string_view::npos || size > 1000) return 0;
  const auto key = input.substr(0, end), bytes = input.substr(end + 1);
  if (is_memcache_key(key)) {
    if (memcache_get(key).find("\r\n") != key.size() + 4) std::abort();
    check(bytes, [&](std::string_view part) { return read_memcache_get(part, key, kLimits); });
  }
  check(bytes, [](std::string_view part) { return read_memcache_set(part, kLimits); });
  return 0;
}
