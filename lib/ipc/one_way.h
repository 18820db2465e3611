#pragma once
/// Tells a program things that it never answers, without ever waiting for it.
///
/// Use:     a class of its own for each conversation, with its words (TlsReports, SessionErrors):
///          auto told = std::make_shared<SessionErrors>(loop, path);
///          loop.spawn("…", SessionErrors::keep_connected(told));
///          told->tell(message);
/// Bounds:  `most` messages wait while there is no connection, or while the program does not read as fast as it is
///          told; what comes on top is counted, logged and gone: what is told this way is never a reason to hold
///          mail.
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
    if (waiting_.empty() && has_room()) return send(message);
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
      auto channel = co_await ipc::connect_channel<From, To>(self->loop_, self->path_, self->words_.conversation,
                                                             {.deadline = self->loop_.now() + seconds(30)});
      if (channel) {
        complained = false;
        wait = kFirst;
        self->channel_.emplace(*std::move(channel));
        co_await self->converse();
        self->channel_.reset();
      } else if (!std::exchange(complained, true)) {
        log::warning("connect to {}: {}: {} are not reported for now", self->path_, channel.error().message(),
                     self->words_.things);
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
  /// To the end of the connection: sends what waits as fast as the program reads.
  async::Task<void> converse() {
    over_.reset();
    async::Gate reader(loop_);
    reader.spawn(std::string(words_.conversation) + " end", wait_for_end(this));
    const async::Until until{.deadline = kNever, .cancel = &over_};
    while (!over_.raised()) {
      for (; !waiting_.empty() && has_room(); waiting_.pop_front()) send(waiting_.front());
      if (!waiting_.empty()) {
        if (!co_await channel_->flush(until)) break;
        continue;
      }
      wanted_.reset();
      if (!co_await wanted_.wait(until)) break;
    }
  }
  /// Nothing is ever said to us: whatever comes is the end.
  static async::Task<void> wait_for_end(OneWay* self) {
    (void)co_await self->channel_->receive();
    self->over_.raise();
  }
  bool has_room() const { return channel_ && channel_->is_open() && !channel_->congested(); }
  /// Where there is room.
  void send(const Message& message) {
    if (channel_->send(message))
      ++told_;
    else
      lose(1);  // larger than a frame can be
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
  async::Event wanted_;  // something waits
  async::Cancel over_;   // the connection is at its end
  std::optional<Channel> channel_;
  std::deque<Message> waiting_;
  std::uint64_t told_ = 0, lost_ = 0;
  SteadyTime complained_{};
};

}  // namespace pen::ipc
