#pragma once
/// smtpd's half of address verification: asks the program verify (lib/suite/ipc/verify.h).
///
/// Use:     auto verifier = std::make_shared<VerifyClient>(loop, path, VerifyClient::Options{});
///          auto answer = co_await verifier->ask(address, patience, until);
/// Waits:   for what verify knows, at most answer_time; then, while a probe is under way, `patience` for its result,
///          which comes when it is there.
/// Shared:  sessions that ask about one address at the same time share the question.
/// Starts:  with the first question: an smtpd that never asks starts no verify.
/// Bounds:  kMost questions without a result, also those that nobody waits for any more; verify answers each.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/verify.h"

namespace pen::smtpd {

class Verifier {
 public:
  using State = ipc::verify::State;
  struct Answer {
    State state = State::probing;
    std::string text;
  };
  virtual ~Verifier() = default;
  /// nullopt: it cannot be asked now.
  virtual async::Task<std::optional<Answer>> ask(std::string address, milliseconds patience, async::Until until) = 0;
};

class VerifyClient final : public Verifier, public std::enable_shared_from_this<VerifyClient> {
 public:
  static constexpr std::size_t kMost = 20'000;
  struct Options {
    milliseconds answer_time{5000};                            // a longer silence is absence, also before the hello
    std::function<void(const std::string& line)> report = {};  // for the log
  };
  /// path: of verify's socket.
  VerifyClient(async::Loop& loop, std::string path, Options options);

  async::Task<std::optional<Answer>> ask(std::string address, milliseconds patience, async::Until until) override;
  bool connected() const { return link_.connected(); }
  std::size_t questions() const { return by_address_.size(); }

 private:
  using Link = ipc::Link<ipc::verify::FromVerify, ipc::verify::ToVerify, VerifyClient>;
  friend Link;
  struct Question {
    explicit Question(async::Loop& loop) : answered(loop), ended(loop) {}
    std::uint64_t request = 0;
    std::string address;
    std::optional<Answer> answer;  // none: verify is away
    async::Event answered;         // also if verify is away
    async::Event ended;            // nothing more will come
  };
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error&) { give_up(); }
  /// Nobody waits for verify any more, until it is back.
  void give_up();
  void send(const Question& question);
  void end(const std::shared_ptr<Question>& question);

  async::Loop& loop_;
  milliseconds answer_time_;
  bool started_ = false;
  bool away_ = false;  // the last attempt to connect failed, or verify did not answer
  std::map<std::string, std::shared_ptr<Question>> by_address_;  // in lower case
  std::map<std::uint64_t, std::shared_ptr<Question>> by_request_;
  std::uint64_t next_ = 1;
  Link link_;
};

}  // namespace pen::smtpd
