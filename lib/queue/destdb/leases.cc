#include "lib/queue/destdb/leases.h"

#include <algorithm>

namespace pen::destdb {

std::optional<LeaseAnswer> LeaseAnswer::checked(const std::int64_t (&numbers)[5], std::uint32_t wanted) {
  for (const std::int64_t n : numbers)
    if (n < 0 || n > kMaxHeld) return std::nullopt;
  LeaseAnswer a;
  a.granted = static_cast<std::uint32_t>(numbers[0]);
  a.others = static_cast<std::uint32_t>(numbers[1]);
  a.members = static_cast<std::uint32_t>(numbers[2]);
  a.waiting = static_cast<std::uint32_t>(numbers[3]);
  a.least = static_cast<std::uint32_t>(numbers[4]);
  if (a.granted > wanted || a.waiting > a.members) return std::nullopt;
  return a;
}

std::uint32_t surplus(std::uint32_t held, std::uint32_t limit, const LeaseAnswer& a, SteadyTime::duration had_for) {
  if (held == 0) return 0;
  const std::uint64_t all = std::uint64_t{held} + a.others;
  const auto over = static_cast<std::uint32_t>(all > limit ? std::min<std::uint64_t>(all - limit, held) : 0);
  const std::uint32_t part = std::max<std::uint32_t>(1, limit / (a.members + 1));
  if (held > part) {
    if (over > 0) return std::min(over, held - part);
    // Half of the excess: the waiting host may want less than its share.
    if (a.waiting > 0) return (held - part + 1) / 2;
  }
  if (a.waiting > 0 && a.least == 0 && limit <= a.members && had_for >= kTurn) return 1;
  return 0;
}

// All times are the server's: the hosts' clocks need not agree. A member's statement: held, waiting since (0: not
// waiting), until when that counts, and when the whole statement ends.
const std::string_view kLeaseScript = R"(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local me, held, want, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local others, members, waiting, least, before = 0, 0, 0, 0, 0
local since, patience = 0, 0
local rest = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local h, s, u, e = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+)$')
  h, s, u, e = tonumber(h), tonumber(s), tonumber(u), tonumber(e)
  if not h or e <= now then
    redis.call('HDEL', KEYS[1], all[i])
  else
    if u <= now then s = 0 end
    if all[i] == me then
      since, patience = s, u
    elseif h > 0 or s > 0 then
      others = others + h
      members = members + 1
      if s > 0 then rest[#rest + 1] = {h, s} end
    end
  end
end
local mine = since
if want > 0 and mine == 0 then mine = now end
for _, w in ipairs(rest) do
  if w[1] < held or (w[1] == held and w[2] < mine) then before = before + 1 end
end
local granted = math.max(0, math.min(want, limit - others - held - before))
if want > 0 then
  if granted == want then
    since, patience = 0, 0
  else
    since, patience = mine, now + tonumber(ARGV[6])
  end
end
held = held + granted
for _, w in ipairs(rest) do
  if w[1] < held then
    if waiting == 0 or w[1] < least then least = w[1] end
    waiting = waiting + 1
  end
end
if held == 0 and since == 0 then
  redis.call('HDEL', KEYS[1], me)
else
  redis.call('HSET', KEYS[1], me,
    string.format('%.0f %.0f %.0f %.0f', held, since, patience, now + tonumber(ARGV[5])))
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
local version = tonumber(redis.call('HGET', KEYS[2], 'v')) or 0
local facts = {}
if version ~= tonumber(ARGV[7]) then facts = redis.call('HGETALL', KEYS[2]) end
return {granted, others, members, waiting, least, version, facts}
)";

const std::string_view kFactsScript = R"(
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local version = redis.call('HINCRBY', KEYS[1], 'v', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return version
)";

const std::string_view kHostScript = R"(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
end
return redis.call('ZCARD', KEYS[1])
)";

}  // namespace pen::destdb
