#include "qmgr/cluster_replies.h"

#include <algorithm>

namespace pen::qmgr {

using redis::Reply;

namespace {
// More fields than any version of the record has: what is beyond is not read.
constexpr std::size_t kMaxFields = 64;
}  // namespace

std::optional<std::uint64_t> number_reply(const Reply& reply) {
  if (reply.kind != Reply::Kind::integer || reply.integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(reply.integer);
}

std::optional<LeaseReply> lease_reply(const Reply& reply, std::uint32_t wanted) {
  constexpr std::size_t kNumbers = 5;
  if (reply.kind != Reply::Kind::array || reply.items.size() != kNumbers + 2) return std::nullopt;
  std::int64_t numbers[kNumbers] = {};
  for (std::size_t i = 0; i < kNumbers; ++i) {
    if (reply.items[i].kind != Reply::Kind::integer) return std::nullopt;
    numbers[i] = reply.items[i].integer;
  }
  const auto lease = destdb::LeaseAnswer::checked(numbers, wanted);
  const auto version = number_reply(reply.items[kNumbers]);
  const Reply& facts = reply.items[kNumbers + 1];
  if (!lease || !version || facts.kind != Reply::Kind::array || facts.items.size() % 2 != 0) return std::nullopt;
  LeaseReply out{*lease, {*version, {}}};
  for (std::size_t i = 0; i < std::min(facts.items.size(), 2 * kMaxFields); i += 2) {
    const Reply &name = facts.items[i], &value = facts.items[i + 1];
    if (name.kind != Reply::Kind::text || value.kind != Reply::Kind::text) return std::nullopt;
    if (destdb::group_of(name.text) && value.text.size() <= destdb::kMaxGroup)
      out.facts.groups.emplace_back(name.text, value.text);
  }
  return out;
}

}  // namespace pen::qmgr
