#include "anvil/suppression_conversations.h"

#include <utility>
#include <variant>

namespace pen::anvil {
namespace {

using namespace ipc::suppression;

// Beyond what any key of the list holds: such an address is on no list, such a sender in no table.
constexpr std::size_t kMostName = 1024;

/// Frames are larger than what the list keeps, and thousands wait.
void cut(std::string& text, std::size_t most) {
  if (text.size() > most) text = std::string(text, 0, most);
}
void cut(Ask& m) {
  for (std::string* text : {&m.tenant, &m.sender, &m.recipient}) cut(*text, kMostName);
}
void cut(Failure& m) {
  for (std::string* text : {&m.tenant, &m.address}) cut(*text, kMostName);
  cut(m.text, kMostText);
}
void cut(Add& m) {
  for (std::string* text : {&m.entry.tenant, &m.entry.address}) cut(*text, kMostName);
  cut(m.entry.text, kMostText);
}
template <class Names>  // Remove, List
void cut(Names& m) {
  for (std::string* text : {&m.tenant, &m.address}) cut(*text, kMostName);
}

async::Task<void> answer(Suppression* list, SuppressionChannel* channel, Ask question) {
  const auto answer = co_await list->ask(std::move(question));
  // Without an answer it is asked again, of the next process.
  if (channel->is_open() && !list->leaving()) (void)channel->send(answer);
}

async::Task<void> answer(Suppression* list, SuppressionChannel* channel, Failure failure) {
  const std::uint64_t request = failure.request;
  const bool done = co_await list->record(std::move(failure));
  if (!done && list->leaving()) co_return;  // it is told again, to the next process
  if (channel->is_open()) (void)channel->send(Recorded{.request = request, .done = done});
}

async::Task<void> answer(Suppression* list, SuppressionOrders* channel, Add add) {
  const auto done = co_await list->order(std::move(add));
  if (channel->is_open()) (void)channel->send(done);
}

async::Task<void> answer(Suppression* list, SuppressionOrders* channel, Remove remove) {
  const auto done = co_await list->order(std::move(remove));
  if (channel->is_open()) (void)channel->send(done);
}

async::Task<void> answer(Suppression* list, SuppressionOrders* channel, List request) {
  const auto listed = co_await list->list(std::move(request));
  if (channel->is_open()) (void)channel->send(listed);
}

template <class Channel, class Request>
async::Task<void> in_hand(Suppression* list, Channel* channel, async::Semaphore* room, Request request) {
  co_await answer(list, channel, std::move(request));
  room->release();
}

bool may_tell(const ToAnvil& message, std::string_view program) {
  const auto* failure = std::get_if<Failure>(&message);
  return failure == nullptr || failure->reason != Reason::bounce || program.empty() || program == "qmgr";
}
bool may_tell(const OrderToAnvil&, std::string_view) { return true; }

template <class Channel>
async::Task<Result<void>> serve(async::Loop& loop, std::shared_ptr<Suppression> list, Channel channel,
                                std::string program) {
  async::Semaphore room(loop, kMostInHand);
  async::Gate requests(loop);  // ends before the channel and the room
  for (;;) {
    PEN_CO_TRY_ASSIGN(auto received, co_await channel.receive());
    if (!may_tell(received.message, program))
      co_return fail(ipc::IpcError::out_of_place, program + " tells of a bounce, which qmgr alone hears of");
    PEN_CO_TRY(co_await room.acquire());
    std::visit(
        [&](auto& m) {
          cut(m);
          requests.spawn("suppression list", in_hand(list.get(), &channel, &room, std::move(m)));
        },
        received.message);
    if (channel.congested()) PEN_CO_TRY(co_await channel.flush({.deadline = loop.now() + seconds(30)}));
  }
}

}  // namespace

async::Task<Result<void>> answer_suppression(async::Loop& loop, std::shared_ptr<Suppression> list,
                                             SuppressionChannel channel, std::string program) {
  return serve(loop, std::move(list), std::move(channel), std::move(program));
}

async::Task<Result<void>> answer_orders(async::Loop& loop, std::shared_ptr<Suppression> list,
                                        SuppressionOrders channel) {
  return serve(loop, std::move(list), std::move(channel), {});
}

}  // namespace pen::anvil
