/// Output of a redis server, cut into pieces: the replies, the answers in them, and the facts in those. The first byte
/// is the size of the pieces.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "anvil/shared_quotas.h"
#include "qmgr/cluster_replies.h"

namespace {
const pen::WallTime kNow{std::chrono::hours(24 * 365 * 55)};

pen::anvil::Quotas::Question quotas() {
  pen::anvil::Quotas::Question question;
  for (const char* name : {"login:ada", "", "sender:a@x.example"}) question.users.emplace_back().name = name;
  return question;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  if (size < 1) return 0;
  const std::size_t step = std::size_t{data[0]} + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  redis::ReplyReader reader;
  for (std::size_t at = 0; at < text.size(); at += step) {
    reader.feed(text.substr(at, step));
    for (;;) {
      const auto next = reader.next();
      if (!next) return 0;
      if (!*next) break;
      (void)redis::script_name(**next);
      (void)qmgr::number_reply(**next);
      const auto quota = anvil::quota_reply(**next, quotas());
      if (quota && (quota->users.size() != 2 || quota->answer.user > 2 || quota->answer.user == 1)) std::abort();
      const auto lease = qmgr::lease_reply(**next, 3);
      if (!lease) continue;
      if (lease->lease.granted > 3) std::abort();
      const auto back = destdb::surplus(5, 3, lease->lease, seconds(9));
      if (back > 5) std::abort();
      for (const auto& [name, bytes] : lease->facts.groups) {
        const auto group = destdb::group_of(name);
        if (!group) std::abort();
        const auto got = destdb::decode_group(*group, bytes, kNow);
        if (!got) continue;
        // Accepted facts can be sent on, and are accepted again.
        const auto again = destdb::encode_group(*group, got->facts, got->changed);
        const auto twice = destdb::decode_group(*group, again, kNow);
        if (!twice || !destdb::same_group(*group, twice->facts, got->facts)) std::abort();
      }
    }
  }
  return 0;
}
