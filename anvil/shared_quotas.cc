#include "anvil/shared_quotas.h"

#include <limits>
#include <memory>
#include <utility>

#include "anvil/under_way.h"

namespace pen::anvil {
namespace {

using redis::Reply;

// Times are the server's: the hosts' clocks need not agree. A user's hash has the beginning of its hour and its day,
// and the messages and recipients of each. Limits come as in QuotaUser, and go back by their number in QuotaLimit.
constexpr std::string_view kScript = R"(
local now = tonumber(redis.call('TIME')[1])
local look, more = ARGV[1] == '1', {tonumber(ARGV[2]), tonumber(ARGV[3])}
local most = 4294967295
local out, users, refused = {0, 0, 0}, {}, false
for i, key in ipairs(KEYS) do
  local stored, u = redis.call('HMGET', key, 'h', 'hm', 'hr', 'd', 'dm', 'dr'), {}
  for j = 1, 6 do u[j] = tonumber(stored[j] or 0) or 0 end
  if now - u[1] >= 3600 or now < u[1] then u[1], u[2], u[3] = now, 0, 0 end
  if now - u[4] >= 86400 or now < u[4] then u[4], u[5], u[6] = now, 0, 0 end
  users[i] = u
  -- The day first: a user who has used it up need not come back in an hour.
  for _, limit in ipairs({{2, 5, 1, 4, 86400}, {4, 6, 2, 4, 86400}, {1, 2, 1, 1, 3600}, {3, 3, 2, 1, 3600}}) do
    local allowed = tonumber(ARGV[3 + (i - 1) * 4 + limit[1]])
    if not refused and allowed > 0 and u[limit[2]] + more[limit[3]] > allowed then
      refused = true
      out = {limit[1], i - 1, math.max(1, u[limit[4]] + limit[5] - now)}
    end
  end
end
for i, key in ipairs(KEYS) do
  local u = users[i]
  if not refused and not look then
    for _, j in ipairs({2, 5}) do
      u[j], u[j + 1] = math.min(most, u[j] + more[1]), math.min(most, u[j + 1] + more[2])
    end
    redis.call('HSET', key, 'h', u[1], 'hm', u[2], 'hr', u[3], 'd', u[4], 'dm', u[5], 'dr', u[6])
    redis.call('EXPIRE', key, u[4] + 86400 - now + 1)
  end
  for _, n in ipairs({now - u[1], u[2], u[3], now - u[4], u[5], u[6]}) do out[#out + 1] = n end
end
return out
)";
constexpr std::size_t kHead = 3, kPerUser = 6;

}  // namespace

SharedQuotas::SharedQuotas(async::Loop& loop, Memory& memory, redis::ClientOptions options, std::string prefix,
                           redis::SharedHints::Say say)
    : loop_(loop),
      memory_(memory),
      prefix_(std::move(prefix) + "quota:"),
      client_(loop, options,
              {.greeting = {{"SCRIPT", "LOAD", std::string(kScript)}},
               .up =
                   [this, say, name = options.server.text()](const std::vector<Reply>& greeted) {
                     const auto script = greeted.empty() ? std::nullopt : redis::script_name(greeted.front());
                     if (!script) return client_.give_up(Error(redis::RedisError::malformed, "SCRIPT LOAD"));
                     script_ = *script;
                     say(true, "shared through " + name);
                   },
               .down = [say, name = options.server.text()](
                           const Error& why) { say(false, "not shared for now: " + name + ": " + why.message()); }}) {}

async::Task<std::optional<Reply>> SharedQuotas::ask_server(const Quotas::Question& question) {
  std::vector<std::string> keys, limits;
  for (const auto& user : question.users) {
    if (!Quotas::counts(user.name)) continue;
    keys.push_back(prefix_ + user.name);
    for (const auto limit :
         {user.messages_per_hour, user.messages_per_day, user.recipients_per_hour, user.recipients_per_day})
      limits.push_back(std::to_string(limit));
  }
  if (keys.empty()) co_return std::nullopt;
  std::vector<std::string> words{"EVALSHA", script_, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(),
               {question.look ? "1" : "0", std::to_string(question.messages), std::to_string(question.recipients)});
  words.insert(words.end(), limits.begin(), limits.end());
  struct Asked {
    explicit Asked(async::Loop& loop) : answered(loop) {}
    std::optional<Reply> reply;
    async::Event answered;
  };
  // The client calls back even if nobody waits any more.
  const auto asked = std::make_shared<Asked>(loop_);
  const bool sent = client_.send(words, [asked](Result<Reply> reply) {
    if (reply) asked->reply = *std::move(reply);
    asked->answered.set();
  });
  if (sent) (void)co_await asked->answered.wait();  // the client ends each request within its time
  co_return std::move(asked->reply);
}

async::Task<Quotas::Answer> SharedQuotas::ask(Quotas::Question question) {
  Quotas::Question look = question;
  look.look = true;
  const Quotas::Answer known = memory_.ask(look);
  if (known.exceeded != ipc::sender_memory::QuotaLimit::none) co_return known;
  if (!client_.is_up() || script_.empty() || under_way_ >= kMostUnderWay) co_return memory_.ask(question);
  const UnderWay one(under_way_);
  const auto reply = co_await ask_server(question);
  if (!reply) co_return memory_.ask(question);
  const auto taken = quota_reply(*reply, question);
  if (!taken) {
    client_.give_up(Error(redis::RedisError::malformed, "quota"));
    co_return memory_.ask(question);
  }
  std::size_t next = 0;
  for (const auto& user : question.users) {
    if (!Quotas::counts(user.name)) continue;
    const auto& used = taken->users[next++];
    memory_.quotas().learn(user.name, used.hour, used.day, loop_.clock().wall_now());
  }
  co_return taken->answer;
}

std::optional<QuotaReply> quota_reply(const Reply& reply, const Quotas::Question& question) {
  std::vector<std::uint32_t> counted;  // places of the users that the server knows
  for (std::size_t i = 0; i < question.users.size(); ++i)
    if (Quotas::counts(question.users[i].name)) counted.push_back(static_cast<std::uint32_t>(i));
  if (reply.kind != Reply::Kind::array || reply.items.size() != kHead + counted.size() * kPerUser) return std::nullopt;
  std::vector<std::uint32_t> numbers;
  for (const auto& item : reply.items) {
    if (item.kind != Reply::Kind::integer || item.integer < 0 ||
        item.integer > std::numeric_limits<std::uint32_t>::max())
      return std::nullopt;
    numbers.push_back(static_cast<std::uint32_t>(item.integer));
  }
  using Limit = ipc::sender_memory::QuotaLimit;
  if (numbers[0] > static_cast<std::uint32_t>(Limit::recipients_per_day) || numbers[1] >= counted.size())
    return std::nullopt;
  QuotaReply out;
  out.answer.request = question.request;
  out.answer.exceeded = static_cast<Limit>(numbers[0]);
  if (out.answer.exceeded != Limit::none) {
    out.answer.user = counted[numbers[1]];
    out.answer.wait = numbers[2];
  }
  for (std::size_t at = kHead; at < numbers.size(); at += kPerUser)
    out.users.push_back({.hour = {seconds(numbers[at]), numbers[at + 1], numbers[at + 2]},
                         .day = {seconds(numbers[at + 3]), numbers[at + 4], numbers[at + 5]}});
  return out;
}

}  // namespace pen::anvil
