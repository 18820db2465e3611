#include "anvil/shared_greylist.h"

#include <utility>

#include "anvil/under_way.h"

namespace pen::anvil {
namespace {

std::string name_of(std::string_view key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

}  // namespace

SharedGreylist::SharedGreylist(async::Loop& loop, Memory& memory, redis::ClientOptions options,
                               const std::string& prefix, redis::SharedHints::Say say)
    : loop_(loop), memory_(memory), hints_(loop, std::move(options), prefix + "greylist:", std::move(say)) {
  memory_.greylist().tell_others();
}

async::Task<void> SharedGreylist::learn(std::string key) {
  const auto record = co_await hints_.find(name_of(key));
  if (!record) co_return;
  ++learnt_;
  memory_.greylist().learn(key, *record, loop_.clock().wall_now());
}

async::Task<Greylist::Answer> SharedGreylist::ask(Greylist::Question question) {
  Greylist& list = memory_.greylist();
  if (under_way_ < kMostUnderWay && !list.knows(question, loop_.clock().wall_now())) {
    const UnderWay one(under_way_);
    Greylist::Keys keys = Greylist::keys_of(question);
    co_await learn(std::move(keys.client));
    if (!list.knows(question, loop_.clock().wall_now())) co_await learn(std::move(keys.triplet));
  }
  const auto answer = memory_.ask(question);
  for (const auto& told : list.take_told()) hints_.tell(name_of(told.key), told.value, seconds(told.seconds));
  co_return answer;
}

}  // namespace pen::anvil
