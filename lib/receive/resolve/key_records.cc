#include "lib/receive/resolve/key_records.h"

#include <utility>

#include "lib/trust/signing/signing.h"

namespace pen::resolve {
namespace {

/// A resolver of its own: programs that sign and ask DNS for nothing else have none.
struct Records {
  Records(async::Loop& loop, net::ResolverOptions options) : pool(loop, 1), resolver(loop, pool, std::move(options)) {}
  async::HandlerPool pool;
  net::Resolver resolver;
};

}  // namespace

async::Task<dkim::KeyAnswer> key_answer(net::Resolver& resolver, std::string name) {
  const auto found = co_await resolver.lookup(std::move(name), net::RecordType::txt);
  dkim::KeyAnswer answer;
  if (found.outcome == net::DnsOutcome::found) {
    answer.state = dkim::KeyAnswer::State::found;
    for (const auto& record : found.records) answer.texts.push_back(record.data);
  } else if (found.outcome != net::DnsOutcome::temporary) {
    answer.state = dkim::KeyAnswer::State::missing;
  }
  co_return answer;
}

void watch_key_records(async::Loop& loop, std::shared_ptr<const signing::Signing> signing,
                       net::ResolverOptions name_servers, async::Cancel& cancel, signing::SayOfKeys say) {
  if (!signing || signing->rotation() == nullptr) return;
  auto records = std::make_shared<Records>(loop, std::move(name_servers));
  auto look = [records](std::string name) { return key_answer(records->resolver, std::move(name)); };
  loop.spawn("dkim records",
             signing::watch_records(&loop, std::move(signing), std::move(look), std::move(say), &cancel));
}

}  // namespace pen::resolve
