#pragma once
/// smtpd's half of what anvil remembers of clients and their senders (lib/ipc/sender_memory.h).
///
/// Use:     auto memory = std::make_shared<AnvilMemory>(loop, queue_path(ipc::kAnvilSocket), AnvilMemory::Options{});
///          auto answer = co_await memory->greylist(question, until);
/// Starts:  with the first question: an smtpd that never asks starts no anvil.
/// Away:    a question waits while a connection is being made, at most answer_time. Where that fails there is no
///          answer: no mail is put off because anvil is away.
/// Bounds:  one question per command under way.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lib/ipc/link.h"
#include "lib/ipc/sender_memory.h"

namespace pen::sessions {

class SenderMemory {
 public:
  using Question = ipc::sender_memory::AskGreylist;
  using Answer = ipc::sender_memory::Greylisted;
  virtual ~SenderMemory() = default;
  /// nullopt: it cannot be asked now.
  virtual async::Task<std::optional<Answer>> greylist(Question question, async::Until until) = 0;
  using QuotaQuestion = ipc::sender_memory::AskQuota;
  using QuotaAnswer = ipc::sender_memory::QuotaAnswer;
  virtual async::Task<std::optional<QuotaAnswer>> quota(QuotaQuestion question, async::Until until) = 0;
};

class AnvilMemory final : public SenderMemory, public std::enable_shared_from_this<AnvilMemory> {
 public:
  struct Options {
    milliseconds answer_time{5000};                            // a longer silence is absence, also before the hello
    std::function<void(const std::string& line)> report = {};  // for the log
  };
  /// path: of anvil's socket.
  AnvilMemory(async::Loop& loop, std::string path, Options options);

  bool connected() const { return link_.connected(); }
  async::Task<std::optional<Answer>> greylist(Question question, async::Until until) override {
    return ask<Answer>(std::move(question), until);
  }
  async::Task<std::optional<QuotaAnswer>> quota(QuotaQuestion question, async::Until until) override {
    return ask<QuotaAnswer>(std::move(question), until);
  }

 private:
  using Link = ipc::Link<ipc::sender_memory::FromAnvil, ipc::sender_memory::ToAnvil, AnvilMemory>;
  friend Link;
  struct Asked {
    explicit Asked(async::Loop& loop) : answered(loop) {}
    ipc::sender_memory::ToAnvil question;
    std::optional<ipc::sender_memory::FromAnvil> answer;
    async::Event answered;
  };
  template <class A, class Q>
  async::Task<std::optional<A>> ask(Q question, async::Until until) {
    question.request = next_++;
    const std::uint64_t request = question.request;
    auto answer = co_await exchange(request, std::move(question), until);
    if (!answer || !std::holds_alternative<A>(*answer)) co_return std::nullopt;
    co_return std::get<A>(*std::move(answer));
  }
  async::Task<std::optional<ipc::sender_memory::FromAnvil>> exchange(std::uint64_t request,
                                                                     ipc::sender_memory::ToAnvil question,
                                                                     async::Until until);
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error&) { give_up(); }
  /// No question waits for anvil any more, until it is back.
  void give_up();
  void send(const ipc::sender_memory::ToAnvil& question) {
    // too large it cannot be
    if (connected()) std::visit([this](const auto& m) { (void)link_.channel().send(m); }, question);
  }

  async::Loop& loop_;
  milliseconds answer_time_;
  bool started_ = false;
  bool away_ = false;                      // the last attempt to connect failed, or anvil did not answer
  std::map<std::uint64_t, Asked*> asked_;  // each in its asker's frame
  std::uint64_t next_ = 1;
  Link link_;
};

}  // namespace pen::sessions
