#pragma once
/// The program's half of the conversation "delivery" (lib/suite/ipc/delivery.h), whatever the program delivers to.
///
/// Use:     Conversation qmgr(std::move(channel));
///          Deliveries deliveries(…, qmgr);          // the program's own; it answers with qmgr.send(message)
///          Result<void> ended = co_await converse(qmgr, deliveries, context.draining());
///
///          class Deliveries {                       // an error of these ends the conversation: qmgr has broken it
///            Result<void> open(ipc::delivery::OpenConnection);
///            Result<void> close(ipc::delivery::CloseConnection);
///            Result<void> take(ipc::delivery::Job, std::span<Fd> fds);    // content: take_content(), before a wait
///            void drain();                          // from now on nothing new is begun
///            bool idle() const;                     // nothing is in hand: qmgr.idle() reports each change to that
///          };
/// Stages:  the stage page is mapped here; the program marks its jobs in stages().
/// Drain:   drain() is called once, before the next message is read, and the conversation goes on until idle(). The
///          answers are flushed before its end; the last one says that the program leaves.
/// Bounds:  while qmgr does not read its answers, it is not read from.
/// Errors:  converse() returns why the conversation ended: none after a drain; WaitError::closed when qmgr has gone;
///          EBADMSG for a message out of place; an answer that does not fit into a frame; and those of Channel.
/// Thread:  the loop's.
#include <optional>
#include <span>
#include <utility>

#include "lib/base/async/loop.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/content.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/stage_page.h"

namespace pen::delivery {

using Channel = ipc::Channel<ipc::delivery::ToProgram, ipc::delivery::FromProgram>;

class Conversation {
 public:
  explicit Conversation(Channel channel) : channel_(std::move(channel)) {}

  /// Never waits. Does nothing when qmgr has gone: qmgr knows what that means for its jobs. An answer that is too large
  /// for a frame cannot be given: the conversation ends, which tells qmgr that its jobs are in doubt.
  template <class Message>
  void send(const Message& message) {
    if (!channel_.is_open()) return;
    if (auto sent = channel_.send(message); !sent) break_off(std::move(sent).error());
  }
  ipc::StagePage& stages() { return stages_; }
  /// Nothing is in hand any more.
  void idle() { idle_.raise(); }
  void close() { channel_.close(); }

 private:
  template <class Deliveries>
  friend async::Task<Result<void>> converse(Conversation& qmgr, Deliveries& deliveries, async::Cancel& draining);
  template <class Deliveries>
  friend Result<void> hand_on(Conversation& qmgr, Deliveries& deliveries, ipc::delivery::ToProgram message,
                              std::span<Fd> fds);
  Result<void> map_stages(const ipc::delivery::StagePage& page, std::span<Fd> fds);
  void break_off(Error error);
  /// Why the conversation ends, when receive() has failed with this error.
  Error end(Error received);

  Channel channel_;
  ipc::StagePage stages_;
  async::Cancel idle_;
  std::optional<Error> broken_off_;
};

/// The content that came with a job, out of its frame. Errors: EBADMSG, it is not what the job announces.
Result<ipc::Content> take_content(ipc::delivery::Job& job, std::span<Fd> fds);
/// For a message that does not fit into the conversation.
inline auto out_of_place(std::string why) { return fail_errno(std::move(why), EBADMSG); }

/// One message from qmgr.
template <class Deliveries>
Result<void> hand_on(Conversation& qmgr, Deliveries& deliveries, ipc::delivery::ToProgram message, std::span<Fd> fds) {
  if (auto* job = std::get_if<ipc::delivery::Job>(&message)) return deliveries.take(std::move(*job), fds);
  if (auto* open = std::get_if<ipc::delivery::OpenConnection>(&message)) return deliveries.open(std::move(*open));
  if (const auto* close = std::get_if<ipc::delivery::CloseConnection>(&message)) return deliveries.close(*close);
  return qmgr.map_stages(std::get<ipc::delivery::StagePage>(message), fds);
}

/// To the end of the conversation. Both must outlive the task.
template <class Deliveries>
async::Task<Result<void>> converse(Conversation& qmgr, Deliveries& deliveries, async::Cancel& draining) {
  bool drains = false;
  while (!drains || !deliveries.idle()) {
    // Looked at before each message: under load there is always one more.
    if (!drains && draining.raised()) {
      drains = true;
      deliveries.drain();
      qmgr.idle_.reset();
      continue;
    }
    auto received = co_await qmgr.channel_.receive({.cancel = drains ? &qmgr.idle_ : &draining});
    if (received) {
      PEN_CO_TRY(hand_on(qmgr, deliveries, std::move(received->message), received->fds));
      if (qmgr.channel_.congested()) PEN_CO_TRY(co_await qmgr.channel_.flush());
    } else if (received.error().is(async::WaitError::cancelled) && qmgr.channel_.is_open()) {
      if (drains) qmgr.idle_.reset();
    } else {
      co_return fail(qmgr.end(std::move(received).error()));
    }
  }
  qmgr.send(ipc::delivery::leaving());
  co_return co_await qmgr.channel_.flush();
}

}  // namespace pen::delivery
