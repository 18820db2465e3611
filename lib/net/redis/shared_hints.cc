#include "lib/net/redis/shared_hints.h"

#include <memory>
#include <utility>

namespace pen::redis {
namespace {

void said_nothing(const Result<Reply>&) {}  // what is not kept is found out again

}  // namespace

SharedHints::SharedHints(async::Loop& loop, ClientOptions options, std::string prefix, Say say)
    : loop_(loop),
      prefix_(std::move(prefix)),
      settled_(loop),
      client_(loop, options,
              {.greeting = {},
               .up =
                   [this, say, name = options.server.text()](const std::vector<Reply>&) {
                     settled_.set();
                     say(true, "shared through " + name);
                   },
               .down =
                   [this, say, name = options.server.text()](const Error& why) {
                     settled_.set();
                     say(false, "not shared for now: " + name + ": " + why.message());
                   }}) {}

async::Task<std::optional<std::string>> SharedHints::find(std::string key) {
  struct Asked {
    explicit Asked(async::Loop& loop) : answered(loop) {}
    std::optional<std::string> record;
    async::Event answered;
  };
  (void)co_await settled_.wait();  // within the client's time for a connection
  // The client calls back even if nobody waits any more.
  const auto asked = std::make_shared<Asked>(loop_);
  const bool sent = client_.send({"GET", prefix_ + key}, [asked](Result<Reply> reply) {
    if (reply && reply->kind == Reply::Kind::text && reply->text.size() <= kMostRecord)
      asked->record = std::move(reply->text);
    asked->answered.set();
  });
  if (sent) (void)co_await asked->answered.wait();  // the client ends each request within its time
  co_return std::move(asked->record);
}

void SharedHints::tell(const std::string& key, const std::string& record, seconds holds_for) {
  if (holds_for > seconds(0))
    (void)client_.send({"SET", prefix_ + key, record, "EX", std::to_string(holds_for.count())}, said_nothing);
}

void SharedHints::forget(const std::string& key) { (void)client_.send({"DEL", prefix_ + key}, said_nothing); }

}  // namespace pen::redis
