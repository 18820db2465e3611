#pragma once
/// Tells a program things that it never answers, without ever waiting for it.
///
/// Use:     a class of its own for each conversation, with its words (TlsReports, SessionErrors):
///          auto told = std::make_shared<SessionErrors>(loop, path);
///          loop.spawn("…", SessionErrors::keep_connected(told));
///          told->tell(message);
/// Bounds:  `most` messages wait for a connection; what comes on top, or while the program does not read, is counted,
///          logged and gone: what is told this way is never a reason to hold mail.
/// Thread:  the loop's.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/async/sync.h"
#include "lib/base/log.h"
#include "lib/ipc/channel.h"

namespace pen::ipc {

struct OneWayWords {
  std::string_view conversation;
  std::string_view things;  // "results of TLS": what is lost, for the log
  std::size_t most;
};

/// To, From: the conversation's variants, seen from the program that is told; From is never sent.
template <class Message, class To, class From>
class OneWay {
 public:
  OneWay(async::Loop& loop, std::string path, OneWayWords words)
      : loop_(loop), path_(std::move(path)), words_(words), wanted_(loop) {}

  void tell(Message message) {
    if (waiting_.empty() && send(message)) return;
    if (waiting_.size() >= words_.most) return lose(1);
    waiting_.push_back(std::move(message));
    wanted_.set();
  }
  /// As long as the process runs; connects when there is something to tell.
  static async::Task<void> keep_connected(std::shared_ptr<OneWay> self) {
    constexpr seconds kFirst{1}, kLongest{60};
    seconds wait = kFirst;
    bool complained = false;
    for (;;) {
      (void)co_await self->wanted_.wait();
      self->wanted_.reset();
      auto channel = co_await ipc::connect_channel<From, To>(
          self->loop_, self->path_, self->words_.conversation,
          {.deadline = self->loop_.now() + seconds(30)});
      if (channel) {
        complained = false;
        wait = kFirst;
        self->channel_.emplace(*std::move(channel));
        while (!self->waiting_.empty()) {
          if (!self->send(self->waiting_.front())) break;
          self->waiting_.pop_front();
        }
        // What did not fit at once goes: more than this is never kept behind.
        if (!self->waiting_.empty()) self->lose(self->waiting_.size());
        self->waiting_.clear();
        (void)co_await self->channel_->receive();  // nothing is ever said to us: it is the end
        self->channel_.reset();
      } else if (!std::exchange(complained, true)) {
        log::warning("connect to {}: {}: {} are not reported for now", self->path_,
                     channel.error().message(), self->words_.things);
      }
      (void)co_await self->loop_.sleep(wait);
      wait = std::min(wait * 2, kLongest);
      if (!self->waiting_.empty()) self->wanted_.set();
    }
  }
  std::uint64_t told() const { return told_; }
  std::uint64_t lost() const { return lost_; }

 private:
  using Channel = ipc::Channel<From, To>;
  bool send(const Message& message) {
    if (!channel_ || !channel_->is_open() || channel_->congested() || !channel_->send(message))
      return false;
    ++told_;
    return true;
  }
  void lose(std::uint64_t n) {
    lost_ += n;
    const SteadyTime now = loop_.now();
    if (complained_ != SteadyTime{} && now < complained_ + seconds(60)) return;
    complained_ = now;
    log::warning("{}: not reading: {} {} are lost so far", path_, lost_, words_.things);
  }

  async::Loop& loop_;
  std::string path_;
  OneWayWords words_;
  async::Event wanted_;
  std::optional<Channel> channel_;
  std::deque<Message> waiting_;
  std::uint64_t told_ = 0, lost_ = 0;
  SteadyTime complained_{};
};

}  // namespace pen::ipc
