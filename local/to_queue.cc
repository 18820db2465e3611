#include "local/to_queue.h"

#include "lib/base/random.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/intake/from_settings.h"

namespace pen::local {
namespace {

intake::Settings intake_settings(const config::Settings& s) {
  intake::Settings out;
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = 0;  // it was accepted once
  out.original_recipient = s.enable_original_recipient;
  out.hopcount_limit = static_cast<unsigned>(s.hopcount_limit);
  out.detect_smtputf8 = intake::detects_smtputf8(s, "forward");
  return out;
}

}  // namespace

ToQueue::ToQueue(async::Loop& loop, async::HandlerPool& pool, std::shared_ptr<const resolve::Resolve> resolver,
                 const config::Settings& settings, std::string socket)
    : queue_(loop, std::move(socket)),
      ids_(loop.clock(), Random(secure_random_u64())),
      intake_{.loop = loop,
              .pool = pool,
              .queue = queue_,
              .resolve = std::move(resolver),
              .settings = intake_settings(settings),
              .next_queue_id = [this] { return ids_.next(); }} {}

async::Task<Result<std::string>> ToQueue::requeue(std::shared_ptr<const delivery::Incoming> message,
                                                  Successor successor) {
  intake::Derived derived;
  derived.envelope = std::move(successor.envelope);
  derived.fields = std::move(successor.fields);
  derived.original = message->body;
  derived.original_bytes = message->body.size();
  const async::Until until{.deadline = intake_.loop.now() + intake_.settings.enqueue_timeout};
  co_return co_await intake::enqueue_derived(intake_, std::move(derived), until);
}

}  // namespace pen::local
