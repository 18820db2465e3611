#include "trivial-rewrite/conversation.h"

#include "lib/base/async/sync.h"

namespace pen::rewrite {

using async::Task;
using RouteChannel = ipc::Channel<ipc::route::ToRewrite, ipc::route::FromRewrite>;

namespace {

struct Conversation {
  Router& router;
  RouteChannel channel;
  ConversationCounts& counts;
  async::Semaphore places;

  static Task<void> answer(Conversation* self, std::uint64_t request, Ask ask) {
    ipc::route::Routed routed;
    routed.request = request;
    ++self->counts.under_way;
    routed.answer = co_await self->router.route(std::move(ask));
    --self->counts.under_way;
    if (const auto* no = std::get_if<ipc::route::Unroutable>(&routed.answer)) {
      ++(no->status.action == mail::Action::failed ? self->counts.failed : self->counts.deferred);
    } else {
      ++self->counts.resolved;
    }
    if (auto sent = self->channel.send(routed); !sent) {
      // Only an extreme answer does not fit, and only its hosts can be that large.
      ipc::route::Unroutable u;
      u.status.dsn = "4.3.0";
      u.status.text = "route is too large";
      routed.answer = std::move(u);
      (void)self->channel.send(routed);
    }
    self->places.release();
  }
};

}  // namespace

Task<Result<void>> serve_routes(async::Loop& loop, Router& router, ipc::Opening opening, ConversationCounts& counts,
                                async::Cancel& stop) {
  Conversation self{router, RouteChannel(std::move(opening)), counts, async::Semaphore(loop, ipc::route::kMaxUnderWay)};
  async::Gate jobs(loop);  // declared last: its tasks die before what they use
  const async::Until until{.deadline = kNever, .cancel = &stop};
  for (;;) {
    auto place = co_await self.places.acquire(until);
    if (!place) break;
    if (self.channel.congested()) {
      if (auto flushed = co_await self.channel.flush(until); !flushed) {
        co_return flushed;
      }
    }
    auto received = co_await self.channel.receive(until);
    if (!received) {
      if (received.error().is(async::WaitError::closed)) co_return Result<void>{};
      if (received.error().is(async::WaitError::cancelled)) break;
      co_return std::unexpected(std::move(received).error());
    }
    ++counts.requests;
    const auto& request = std::get<ipc::route::Route>(received->message);
    jobs.spawn("route " + std::string(request.recipient),
               Conversation::answer(&self, request.request,
                                    {.sender = std::string(request.sender),
                                     .recipient = std::string(request.recipient),
                                     .wish = request.requiretls,
                                     .way = std::string(request.transport),
                                     .flushed = request.flushed,
                                     .verification = request.verification,
                                     .forwarded = request.forwarded}));
  }
  // Drain: answer the requests in progress first.
  PEN_CO_TRY(co_await jobs.drained({.deadline = loop.now() + seconds(5)}));
  co_return co_await self.channel.flush({.deadline = loop.now() + seconds(5)});
}

}  // namespace pen::rewrite
