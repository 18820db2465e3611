#include "qmgr/cluster_rates.h"

#include <fmt/format.h>

#include "lib/base/text.h"
#include "qmgr/cluster_replies.h"

namespace pen::qmgr {

using redis::RedisError;
using redis::Reply;
using shaping::SharedRates;

namespace {
constexpr milliseconds kKeptFor = std::chrono::hours(24 * 30);  // as shaping_forget_time
constexpr std::size_t kMaxLearned = 4096;
}  // namespace

std::vector<std::vector<std::string>> ClusterRates::scripts() {
  return {{"SCRIPT", "LOAD", std::string(shaping::kRateScript)},
          {"SCRIPT", "LOAD", std::string(shaping::kLearnedScript)}};
}

bool ClusterRates::went_up(std::span<const Reply> replies, std::uint32_t hosts, SteadyTime now) {
  if (replies.size() != kScripts) return false;
  const auto rate = redis::script_name(replies[0]);
  const auto learned = redis::script_name(replies[1]);
  if (!rate || !learned) return false;
  rate_script_ = *rate;
  learned_script_ = *learned;
  rates_.set_time(now);
  rates_.up(hosts);
  return true;
}

void ClusterRates::run(SteadyTime now) {
  rates_.set_time(now);
  rates_.tick();
  for (const auto& request : rates_.take_requests()) std::visit([this](const auto& r) { send(r); }, request);
}

void ClusterRates::send(const SharedRates::Ask& ask) {
  const auto interval = std::chrono::duration<double, std::micro>(ask.rate.interval()).count();
  const bool sent =
      client_.send({"EVALSHA", rate_script_, "1", options_.name(ask.key), std::to_string(ask.wanted),
                    // What is only looked at has no rate.
                    fmt::format("{:.3f}", interval > 0 ? interval : 1.0),
                    std::to_string(std::chrono::microseconds(SharedRates::Options{}.burst).count()),
                    std::to_string(ask.hosts), std::to_string(ask.version), std::to_string(kKeptFor.count())},
                   [this, id = ask.id, wanted = ask.wanted](Result<Reply> reply) {
                     if (!reply) return;  // the server is gone: down() comes
                     const auto answer = rate_reply(*reply, wanted);
                     if (!answer) return options_.give_up(Error(RedisError::malformed, "rate"));
                     rates_.answered(id, *answer);
                     options_.wake();
                   });
  if (!sent) options_.give_up(Error(RedisError::no_answer));
}

void ClusterRates::send(const SharedRates::Tell& tell) {
  const bool sent = client_.send({"EVALSHA", learned_script_, "1", options_.name(tell.key), tell.learned,
                                  std::to_string(tell.age.count()), std::to_string(kKeptFor.count())},
                                 [this, id = tell.id](Result<Reply> reply) {
                                   if (!reply) return;
                                   const auto told = learned_reply(*reply);
                                   if (!told) return options_.give_up(Error(RedisError::malformed, "learned"));
                                   rates_.told(id, told->version, told->newest);
                                   options_.wake();
                                 });
  if (!sent) options_.give_up(Error(RedisError::no_answer));
}

std::optional<SharedRates::Answer> rate_reply(const Reply& reply, std::uint32_t wanted) {
  if (reply.kind != Reply::Kind::array || reply.items.size() != 5) return std::nullopt;
  const auto& items = reply.items;
  for (std::size_t i = 0; i < 3; ++i)
    if (items[i].kind != Reply::Kind::integer || items[i].integer < 0) return std::nullopt;
  if (items[3].kind != Reply::Kind::text || items[3].text.size() > kMaxLearned) return std::nullopt;
  // A day is longer than any line of hosts waits for.
  constexpr std::int64_t kLongest = std::int64_t{86'400} * 1'000'000;
  if (items[0].integer > wanted || (wanted > 0 && items[0].integer == 0) || items[1].integer > kLongest)
    return std::nullopt;
  SharedRates::Answer a;
  a.granted = static_cast<std::uint32_t>(items[0].integer);
  a.wait = microseconds(items[1].integer);
  a.version = static_cast<std::uint64_t>(items[2].integer);
  a.learned = items[3].text;
  if (items[4].kind != Reply::Kind::integer || items[4].integer < 0) return std::nullopt;
  a.age = milliseconds(std::min<std::int64_t>(items[4].integer, kKeptFor.count()));
  return a;
}

std::optional<LearnedReply> learned_reply(const Reply& reply) {
  if (reply.kind != Reply::Kind::array || reply.items.size() != 2) return std::nullopt;
  for (const auto& item : reply.items)
    if (item.kind != Reply::Kind::integer || item.integer < 0) return std::nullopt;
  return LearnedReply{.version = static_cast<std::uint64_t>(reply.items[0].integer),
                      .newest = reply.items[1].integer == 1};
}

}  // namespace pen::qmgr
