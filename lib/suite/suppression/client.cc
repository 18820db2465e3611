#include "lib/suite/suppression/client.h"

#include <utility>

namespace pen::suppression {

namespace {
constexpr seconds kAgain{1};
constexpr seconds kComplainEach{60};
// A disk may take longer than a question may: silence about a failure must not turn the whole list off so soon.
constexpr seconds kSlowDisk{30};
}  // namespace

Client::Client(async::Loop& loop, std::string path, Options options)
    : loop_(loop),
      report_(options.report),
      link_(loop,
            {.path = std::move(path),
             .conversation = ipc::suppression::kName,
             .connect_timeout = options.answer_time,
             .meanwhile = "the suppression list stops no mail",
             .report = std::move(options.report)},
            *this),
      // Too large for the channel no message can be: addresses and texts are bounded.
      questions_(loop, link_, options.answer_time, [this](const Question& q) { (void)link_.channel().send(q); }),
      failures_(loop, link_, kSlowDisk, [this](const Failure& f) { (void)link_.channel().send(f); }),
      tasks_(loop) {}

void Client::start() {
  if (!std::exchange(started_, true)) link_.start();
}

void Client::on_connected() {
  questions_.on_connected();
  failures_.on_connected();
}

void Client::on_lost(const Error& why) {
  questions_.on_lost(why);
  failures_.on_lost(why);
}

void Client::on_refused(const Error&) {
  questions_.on_refused();
  failures_.on_refused();
}

void Client::on_message(Link::Channel::Received& received) {
  if (const auto* answer = std::get_if<Answer>(&received.message))
    questions_.answer(answer->request, *answer);
  else
    failures_.answer(std::get<ipc::suppression::Recorded>(received.message).request,
                     std::get<ipc::suppression::Recorded>(received.message));
}

async::Task<Client::Answer> Client::ask(Question question, async::Until until) {
  start();
  auto answer = co_await questions_.ask(shared_from_this(), std::move(question), until);
  if (!answer) co_return Answer{.standing = Standing::unknown};
  co_return *std::move(answer);
}

void Client::tell(Failure failure) {
  start();
  if (told_ >= kMostTold) return lose("too many at once");
  if (failure.text.size() > ipc::suppression::kMostText) failure.text.resize(ipc::suppression::kMostText);
  ++told_;
  tasks_.spawn("failure", deliver(this, std::move(failure)));
}

async::Task<void> Client::deliver(Client* self, Failure failure) {
  const SteadyTime end = self->loop_.now() + kPatience;
  bool heard = false;
  for (;;) {
    // No owner: the task is this object's own.
    const auto recorded = co_await self->failures_.ask(nullptr, failure, {.deadline = end});
    if (recorded && recorded->done) break;
    heard = heard || recorded.has_value();
    if (self->loop_.now() >= end || !co_await self->loop_.sleep(kAgain)) {
      self->lose(heard ? "anvil cannot write them" : "anvil does not answer");
      break;
    }
  }
  --self->told_;
}

void Client::lose(std::string_view why) {
  ++lost_;
  const SteadyTime now = loop_.now();
  if (!report_ || (complained_ != SteadyTime::min() && now < complained_ + kComplainEach)) return;
  complained_ = now;
  report_("suppression list: failures of addresses do not count: " + std::string(why) + " (" + std::to_string(lost_) +
          " so far)");
}

}  // namespace pen::suppression
