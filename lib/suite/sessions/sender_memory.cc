#include "lib/suite/sessions/sender_memory.h"

#include <utility>

namespace pen::sessions {

AnvilMemory::AnvilMemory(async::Loop& loop, std::string path, Options options)
    : link_(loop,
            {.path = std::move(path),
             .conversation = ipc::sender_memory::kName,
             .connect_timeout = options.answer_time,
             .meanwhile = "check_greylist puts nobody off, and check_sender_quota counts nothing",
             .report = std::move(options.report)},
            *this),
      // Too large for the channel no question can be.
      greylist_(loop, link_, options.answer_time, [this](const Question& q) { (void)link_.channel().send(q); }),
      quota_(loop, link_, options.answer_time, [this](const QuotaQuestion& q) { (void)link_.channel().send(q); }) {}

void AnvilMemory::on_connected() {
  greylist_.on_connected();
  quota_.on_connected();
}

void AnvilMemory::on_lost(const Error& why) {
  greylist_.on_lost(why);
  quota_.on_lost(why);
}

void AnvilMemory::on_refused(const Error&) {
  greylist_.on_refused();
  quota_.on_refused();
}

void AnvilMemory::on_message(Link::Channel::Received& received) {
  if (const auto* answer = std::get_if<Answer>(&received.message))
    greylist_.answer(answer->request, *answer);
  else
    quota_.answer(std::get<QuotaAnswer>(received.message).request, std::get<QuotaAnswer>(received.message));
}

async::Task<std::optional<SenderMemory::Answer>> AnvilMemory::greylist(Question question, async::Until until) {
  if (!std::exchange(started_, true)) link_.start();
  return greylist_.ask(shared_from_this(), std::move(question), until);
}

async::Task<std::optional<SenderMemory::QuotaAnswer>> AnvilMemory::quota(QuotaQuestion question, async::Until until) {
  if (!std::exchange(started_, true)) link_.start();
  return quota_.ask(shared_from_this(), std::move(question), until);
}

}  // namespace pen::sessions
