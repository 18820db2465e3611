#pragma once
/// smtpd's half of what anvil remembers of clients and their senders (lib/suite/ipc/sender_memory.h).
///
/// Use:     auto memory = std::make_shared<AnvilMemory>(loop, queue_path(ipc::kAnvilSocket), AnvilMemory::Options{});
///          auto answer = co_await memory->greylist(question, until);
/// Starts:  with the first question: an smtpd that never asks starts no anvil.
/// Away:    there is no answer then (lib/suite/ipc/questions.h): no mail is put off because anvil is away.
/// Bounds:  one question per command under way.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/questions.h"
#include "lib/suite/ipc/sender_memory.h"

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
  async::Task<std::optional<Answer>> greylist(Question question, async::Until until) override;
  async::Task<std::optional<QuotaAnswer>> quota(QuotaQuestion question, async::Until until) override;

 private:
  using Link = ipc::Link<ipc::sender_memory::FromAnvil, ipc::sender_memory::ToAnvil, AnvilMemory>;
  friend Link;
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error&);

  bool started_ = false;
  Link link_;
  ipc::Questions<Question, Answer> greylist_;
  ipc::Questions<QuotaQuestion, QuotaAnswer> quota_;
};

}  // namespace pen::sessions
