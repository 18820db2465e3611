#pragma once
/// Questions over a Link that wait for their answers: request numbers, patience, and what becomes of a question when
/// the server dies, hangs or is away.
///
/// Use:     class Memory { Questions<Ask, Answer> questions_{loop, link_, answer_time, [this](const Ask& q) { … }};
///            async::Task<…> greylist(Ask q, Until until) { return questions_.ask(shared_from_this(), q, until); }
///            void on_connected() { questions_.on_connected(); }                 // of the Link's user
///            void on_message(Received& r) { questions_.answer(r.message.request, std::move(r.message)); }
///            void on_lost(const Error& why) { questions_.on_lost(why); }
///            void on_refused(const Error&) { questions_.on_refused(); }
///          }
/// Away:    a question waits while a connection is being made, at most answer_time: master holds the sockets, and
///          starts a dead program at once; then it is asked again. When no connection can be had, or the server is
///          silent for answer_time, all that wait get no answer, and so do further ones until there is a connection
///          again.
/// Silence: of answer_time with a connection makes the link hang up.
/// Bounds:  the caller's: each question lives in its asker's frame, and is withdrawn when that ends.
/// Thread:  the loop's.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/link.h"

namespace pen::ipc {

/// Question: has a `request`, a number that the server's answer repeats.
template <class Question, class Answer>
class Questions {
 public:
  using Send = std::function<void(const Question&)>;
  /// send is called while the link is connected.
  Questions(async::Loop& loop, LinkBase& link, milliseconds answer_time, Send send)
      : loop_(loop), link_(link), answer_time_(answer_time), send_(std::move(send)) {}
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  /// nullopt: there is no answer, by `until` or by the rules above. owner: whatever this object is a part of.
  async::Task<std::optional<Answer>> ask(std::shared_ptr<void> owner, Question question, async::Until until) {
    if (!link_.connected() && away_) co_return std::nullopt;
    question.request = next_++;
    Waiting waiting(loop_, std::move(question));
    const std::uint64_t request = waiting.question.request;
    struct Place {
      Questions& questions;
      std::shared_ptr<void> owner;
      std::uint64_t request;
      ~Place() { questions.waiting_.erase(request); }
    } const place{*this, std::move(owner), request};
    waiting_.emplace(request, &waiting);
    if (link_.connected()) send_(waiting.question);
    const SteadyTime silence = loop_.now() + answer_time_;
    until.deadline = std::min(until.deadline, silence);
    const auto answered = co_await waiting.answered.wait(until);
    if (!answered && link_.connected() && loop_.now() >= silence) link_.give_up(Error(IpcError::no_answer));
    co_return std::move(waiting.answer);
  }

  /// One for which nobody waits any more is dropped.
  void answer(std::uint64_t request, Answer answer) {
    const auto at = waiting_.find(request);
    if (at == waiting_.end()) return;
    at->second->answer = std::move(answer);
    at->second->answered.set();
    waiting_.erase(at);
  }
  /// After what the server has to know first.
  void on_connected() {
    away_ = false;
    for (const auto& [request, waiting] : waiting_) send_(waiting->question);
  }
  void on_lost(const Error& why) {
    if (why.is(IpcError::no_answer)) on_refused();
  }
  void on_refused() {
    away_ = true;
    for (const auto& [request, waiting] : waiting_) waiting->answered.set();
    waiting_.clear();
  }

 private:
  struct Waiting {
    Waiting(async::Loop& loop, Question question_in) : question(std::move(question_in)), answered(loop) {}
    Question question;
    std::optional<Answer> answer;
    async::Event answered;
  };
  async::Loop& loop_;
  LinkBase& link_;
  milliseconds answer_time_;
  Send send_;
  bool away_ = false;                          // the last attempt to connect failed, or the server did not answer
  std::map<std::uint64_t, Waiting*> waiting_;  // each in its asker's frame
  std::uint64_t next_ = 1;
};

}  // namespace pen::ipc
