#include "verify/cluster.h"

#include <memory>
#include <utility>

#include "lib/base/log.h"

namespace pen::verify {
namespace {

void said_nothing(const Result<redis::Reply>&) {}  // what is not kept is found out again

}  // namespace

Cluster::Cluster(async::Loop& loop, redis::ClientOptions options, std::string prefix)
    : loop_(loop),
      prefix_(std::move(prefix)),
      settled_(loop),
      client_(loop, options,
              {.greeting = {},
               .up =
                   [this, name = options.server.text()](const std::vector<redis::Reply>&) {
                     settled_.set();
                     log::info("address probes: shared through {}", name);
                   },
               .down =
                   [this, name = options.server.text()](const Error& why) {
                     settled_.set();
                     log::warning("address probes: not shared for now: {}: {}", name, why.message());
                   }}) {}

async::Task<std::optional<std::string>> Cluster::find(std::string key) {
  struct Asked {
    explicit Asked(async::Loop& loop) : answered(loop) {}
    std::optional<std::string> record;
    async::Event answered;
  };
  (void)co_await settled_.wait();  // within the client's time for a connection
  // The client calls back even if nobody waits any more.
  const auto asked = std::make_shared<Asked>(loop_);
  const bool sent = client_.send({"GET", name_of(key)}, [asked](Result<redis::Reply> reply) {
    if (reply && reply->kind == redis::Reply::Kind::text && reply->text.size() <= kMostRecord)
      asked->record = std::move(reply->text);
    asked->answered.set();
  });
  if (sent) (void)co_await asked->answered.wait();  // the client ends each request within its time
  co_return std::move(asked->record);
}

void Cluster::tell(const std::string& key, const std::string& record, seconds holds_for) {
  if (holds_for > seconds(0))
    (void)client_.send({"SET", name_of(key), record, "EX", std::to_string(holds_for.count())}, said_nothing);
}

void Cluster::forget(const std::string& key) { (void)client_.send({"DEL", name_of(key)}, said_nothing); }

}  // namespace pen::verify
