#pragma once
/// Reports to a program that never answers, without ever waiting for it.
///
/// Use:     a class of its own for each conversation, with its words (TlsReports, SessionErrors):
///          SessionErrors told(loop, path, log::as_warning);   told.start();   told.tell(message);
/// Bounds:  `most` messages wait while there is no connection, or while the program does not read as fast as it is
///          told; what comes on top is counted, said to `report` and gone: a report of this kind is never a reason to
///          hold mail.
/// Thread:  the loop's.
#include <deque>
#include <string>
#include <utility>

#include "lib/suite/ipc/link.h"

namespace pen::ipc {

struct OneWayWords {
  std::string_view conversation;
  std::string_view things;  // "results of TLS": what is lost
  std::size_t most;
};

/// To, From: the conversation's variants, seen from the receiver; From is never sent.
template <class Message, class To, class From>
class OneWay {
 public:
  using Report = std::function<void(const std::string& line)>;
  OneWay(async::Loop& loop, std::string path, OneWayWords words, Report report)
      : loop_(loop),
        path_(std::move(path)),
        words_(words),
        report_(std::move(report)),
        more_(loop),
        link_(loop,
              {.path = path_,
               .conversation = words.conversation,
               .on_demand = true,
               .meanwhile = std::string(words.things) + " are not reported",
               .report = report_},
              *this) {}

  void start() { link_.start(); }
  void tell(Message message) {
    if (waiting_.empty() && has_room()) return send(message);
    if (waiting_.size() >= words_.most) return lose(1);
    waiting_.push_back(std::move(message));
    more_.set();
    link_.want();
  }
  std::uint64_t told() const { return told_; }
  std::uint64_t lost() const { return lost_; }

 private:
  using Link = ipc::Link<From, To, OneWay>;
  friend Link;
  void on_connected() { link_.beside("tell " + std::string(words_.conversation), send_waiting(this)); }
  void on_message(Link::Channel::Received&) { link_.give_up(Error(IpcError::out_of_place)); }
  void on_lost(const Error&) {
    if (!waiting_.empty()) link_.want();
  }
  void on_refused(const Error& why) { on_lost(why); }

  /// As fast as the program reads; ends with the connection.
  static async::Task<void> send_waiting(OneWay* self) {
    auto& waiting = self->waiting_;
    for (;;) {
      for (; !waiting.empty() && self->has_room(); waiting.pop_front()) self->send(waiting.front());
      self->more_.reset();
      if (waiting.empty())
        (void)co_await self->more_.wait();
      else if (!co_await self->link_.channel().flush())
        co_return;
    }
  }
  bool has_room() { return link_.connected() && link_.channel().is_open() && !link_.channel().congested(); }
  /// Where there is room.
  void send(const Message& message) {
    if (link_.channel().send(message))
      ++told_;
    else
      lose(1);  // larger than a frame can be
  }
  void lose(std::uint64_t n) {
    lost_ += n;
    const SteadyTime now = loop_.now();
    if (!report_ || (complained_ != SteadyTime{} && now < complained_ + seconds(60))) return;
    complained_ = now;
    report_(path_ + ": not reading: " + std::to_string(lost_) + " " + std::string(words_.things) + " are lost so far");
  }

  async::Loop& loop_;
  std::string path_;
  OneWayWords words_;
  Report report_;
  async::Event more_;  // something waits
  std::deque<Message> waiting_;
  std::uint64_t told_ = 0, lost_ = 0;
  SteadyTime complained_{};
  Link link_;
};

}  // namespace pen::ipc
