#include "smtpd/screen_cluster.h"

#include <memory>
#include <utility>

#include "lib/base/log.h"

namespace pen::smtpd {

ScreenCluster::ScreenCluster(async::Loop& loop, Screener& screener, redis::ClientOptions options, std::string prefix)
    : loop_(loop),
      prefix_(std::move(prefix)),
      client_(loop, options,
              {.greeting = {},
               .up =
                   [name = options.server.text()](const std::vector<redis::Reply>&) {
                     log::info("clients that passed the tests: shared through {}", name);
                   },
               .down =
                   [name = options.server.text()](const Error& why) {
                     log::warning("clients that passed the tests: not shared for now: {}: {}", name, why.message());
                   }}) {
  screener.find_elsewhere = [this](std::string key) { return find(this, std::move(key)); };
  screener.tell_others = [this](const std::string& key, const triage::Record& record) { tell(key, record); };
}

async::Task<std::optional<triage::Record>> ScreenCluster::find(ScreenCluster* cluster, std::string key) {
  struct Asked {
    explicit Asked(async::Loop& loop) : answered(loop) {}
    std::optional<triage::Record> record;
    async::Event answered;
  };
  // The client calls back even if nobody waits any more.
  const auto asked = std::make_shared<Asked>(cluster->loop_);
  const bool sent = cluster->client_.send({"GET", cluster->name_of(key)}, [asked](Result<redis::Reply> reply) {
    if (reply && reply->kind == redis::Reply::Kind::text) asked->record = triage::Record::parse(reply->text);
    asked->answered.set();
  });
  if (sent) (void)co_await asked->answered.wait();  // the client ends each request within its time
  co_return asked->record;
}

void ScreenCluster::tell(const std::string& key, const triage::Record& record) {
  const auto holds = record.end() - unix_seconds(loop_.clock().wall_now());
  // What is not kept is found out again.
  if (holds > 0)
    (void)client_.send({"SET", name_of(key), record.text(), "EX", std::to_string(holds)},
                       [](const Result<redis::Reply>&) {});
}

}  // namespace pen::smtpd
