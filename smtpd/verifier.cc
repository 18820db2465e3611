#include "smtpd/verifier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/text.h"

namespace pen::smtpd {

VerifyClient::VerifyClient(async::Loop& loop, std::string path, Options options)
    : loop_(loop),
      answer_time_(options.answer_time),
      link_(loop,
            {.path = std::move(path),
             .conversation = ipc::verify::kName,
             .connect_timeout = options.answer_time,
             .meanwhile = "addresses cannot be verified; master.cf needs the line \"verify unix - - n - 1 verify\"",
             .report = std::move(options.report)},
            *this) {}

void VerifyClient::send(const Question& question) {
  // too large it cannot be: an address is a part of a command line
  if (connected()) (void)link_.channel().send(ipc::verify::Ask{question.request, question.address});
}

void VerifyClient::on_connected() {
  away_ = false;
  for (const auto& [request, question] : by_request_) send(*question);
}

void VerifyClient::end(const std::shared_ptr<Question>& question) {
  by_request_.erase(question->request);
  by_address_.erase(to_lower(question->address));
  question->answered.set();
  question->ended.set();
}

void VerifyClient::on_lost(const Error& why) {
  if (why.is(ipc::IpcError::no_answer)) return give_up();
  // What nobody waits for is not asked again. Both tables hold each question.
  std::vector<std::shared_ptr<Question>> left;
  for (const auto& [request, question] : by_request_)
    if (question.use_count() == 2) left.push_back(question);
  for (const auto& question : left) end(question);
}

void VerifyClient::give_up() {
  away_ = true;
  while (!by_request_.empty()) {
    const auto question = by_request_.begin()->second;
    end(question);
  }
}

void VerifyClient::on_message(Link::Channel::Received& received) {
  auto* answer = std::get_if<ipc::verify::Answer>(&received.message);
  if (answer == nullptr) return link_.give_up(Error(ipc::IpcError::out_of_place));
  const auto at = by_request_.find(answer->request);
  if (at == by_request_.end()) return;
  const auto question = at->second;
  question->answer = Answer{answer->state, std::move(answer->text)};
  question->answered.set();
  if (answer->state != State::probing) end(question);
}

async::Task<std::optional<Verifier::Answer>> VerifyClient::ask(std::string address, milliseconds patience,
                                                               async::Until until) {
  const auto self = shared_from_this();
  if (!std::exchange(started_, true)) link_.start();
  if (!connected() && away_) co_return std::nullopt;
  const std::string key = to_lower(address);
  std::shared_ptr<Question> question;
  if (const auto at = by_address_.find(key); at != by_address_.end()) {
    question = at->second;
  } else {
    if (by_address_.size() >= kMost) co_return std::nullopt;
    question = std::make_shared<Question>(loop_);
    question->request = next_++;
    question->address = std::move(address);
    by_address_[key] = by_request_[question->request] = question;
    send(*question);
  }
  const SteadyTime silence = loop_.now() + answer_time_;
  const auto answered =
      co_await question->answered.wait({.deadline = std::min(until.deadline, silence), .cancel = until.cancel});
  if (!answered && connected() && loop_.now() >= silence) link_.give_up(Error(ipc::IpcError::no_answer));
  if (question->answer && question->answer->state == State::probing && patience > milliseconds(0))
    (void)co_await question->ended.wait(
        {.deadline = std::min(until.deadline, loop_.now() + patience), .cancel = until.cancel});
  co_return question->answer;
}

}  // namespace pen::smtpd
