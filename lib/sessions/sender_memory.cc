#include "lib/sessions/sender_memory.h"

#include <algorithm>
#include <utility>

namespace pen::sessions {

AnvilMemory::AnvilMemory(async::Loop& loop, std::string path, Options options)
    : loop_(loop),
      answer_time_(options.answer_time),
      link_(loop,
            {.path = std::move(path),
             .conversation = ipc::sender_memory::kName,
             .connect_timeout = options.answer_time,
             .meanwhile = "check_greylist puts nobody off, and check_sender_quota counts nothing",
             .report = std::move(options.report)},
            *this) {}

void AnvilMemory::on_connected() {
  away_ = false;
  for (const auto& [request, asked] : asked_) send(asked->question);
}

void AnvilMemory::on_lost(const Error& why) {
  if (why.is(ipc::IpcError::no_answer)) give_up();
}

void AnvilMemory::give_up() {
  away_ = true;
  for (const auto& [request, asked] : asked_) asked->answered.set();
  asked_.clear();
}

void AnvilMemory::on_message(Link::Channel::Received& received) {
  const auto request = std::visit([](const auto& m) { return m.request; }, received.message);
  const auto at = asked_.find(request);
  if (at == asked_.end()) return;  // the asker has gone
  at->second->answer = std::move(received.message);
  at->second->answered.set();
  asked_.erase(at);
}

async::Task<std::optional<ipc::sender_memory::FromAnvil>> AnvilMemory::exchange(std::uint64_t request,
                                                                                ipc::sender_memory::ToAnvil question,
                                                                                async::Until until) {
  if (!std::exchange(started_, true)) link_.start();
  if (!connected() && away_) co_return std::nullopt;
  Asked asked(loop_);
  asked.question = std::move(question);
  struct Place {
    std::shared_ptr<AnvilMemory> memory;
    std::uint64_t request;
    ~Place() { memory->asked_.erase(request); }
  } const place{shared_from_this(), request};
  asked_[request] = &asked;
  send(asked.question);
  const SteadyTime silence = loop_.now() + answer_time_;
  until.deadline = std::min(until.deadline, silence);
  const auto answered = co_await asked.answered.wait(until);
  if (!answered && connected() && loop_.now() >= silence) link_.give_up(Error(ipc::IpcError::no_answer));
  co_return std::move(asked.answer);
}

}  // namespace pen::sessions
