#pragma once
/// Asks anvil about the suppression list, and tells it of failures (lib/suite/ipc/suppression.h).
///
/// Use:     auto list = std::make_shared<Client>(loop, queue_path(ipc::kAnvilSocket), Client::Options{…});
///          switch ((co_await list->ask({.tenant = …, .sender = …, .recipient = …}, until)).standing) …
///          list->tell({.address = …, .reason = …});                 // never waits
/// Starts:  with the first question or failure.
/// Away:    the standing is unknown then (lib/suite/ipc/questions.h), and mail goes on: the log says so. A failure
///          that anvil did not record in kPatience is lost, and counted. One that anvil cannot write is told again
///          meanwhile, and questions go on.
/// Bounds:  a question lives in its asker's frame; kMostTold failures wait at once.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/questions.h"
#include "lib/suite/ipc/suppression.h"

namespace pen::suppression {

/// What smtpd and qmgr see of the list.
class List {
 public:
  using Question = ipc::suppression::Ask;
  using Answer = ipc::suppression::Answer;
  using Failure = ipc::suppression::Failure;
  using Standing = ipc::suppression::Standing;
  virtual ~List() = default;
  virtual async::Task<Answer> ask(Question question, async::Until until) = 0;
  virtual void tell(Failure failure) = 0;
};

class Client final : public List, public std::enable_shared_from_this<Client> {
 public:
  static constexpr std::size_t kMostTold = 2000;
  static constexpr seconds kPatience{60};
  struct Options {
    milliseconds answer_time{5000};                            // a longer silence is absence, also before the hello
    std::function<void(const std::string& line)> report = {};  // for the log
  };
  /// path: of anvil's socket.
  Client(async::Loop& loop, std::string path, Options options);

  async::Task<Answer> ask(Question question, async::Until until) override;
  void tell(Failure failure) override;
  std::uint64_t lost() const { return lost_; }

 private:
  using Link = ipc::Link<ipc::suppression::FromAnvil, ipc::suppression::ToAnvil, Client>;
  friend Link;
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error& why);
  static async::Task<void> deliver(Client* self, Failure failure);
  void start();
  void lose(std::string_view why);

  async::Loop& loop_;
  std::function<void(const std::string& line)> report_;
  bool started_ = false;
  std::size_t told_ = 0;  // under way
  std::uint64_t lost_ = 0;
  SteadyTime complained_ = SteadyTime::min();
  Link link_;
  ipc::Questions<Question, Answer> questions_;
  ipc::Questions<Failure, ipc::suppression::Recorded> failures_;
  async::Gate tasks_;  // declared last: what runs ends first
};

}  // namespace pen::suppression
