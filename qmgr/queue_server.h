#pragma once
/// The conversation "queue": tools list the queue and act on messages.
///
/// Rights:  listing and flushing for everyone; orders for root, ourselves and mail_owner (trusted).
/// Listings stream in slices between other work; a listing that nobody reads waits, holding one slice.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/ipc/channel.h"
#include "lib/ipc/queue.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class QueueServer {
 public:
  using OpenBody =
      std::function<Result<async::Fd>(std::uint64_t spool_file, const std::string& queue_id)>;
  QueueServer(async::Loop& loop, Manager& manager, std::function<void()> poke,
              std::function<std::vector<ipc::queue::StatusLine>()> status, OpenBody open_body);
  /// Serves one tool until it goes; the server must outlive it.
  async::Task<void> serve(ipc::Opening opening, bool trusted);

 private:
  using Channel = ipc::Channel<ipc::queue::ToQmgr, ipc::queue::FromQmgr>;
  struct Session {
    Session(ipc::Opening opening, bool t) : channel(std::move(opening)), trusted(t) {}
    Channel channel;
    bool trusted;
  };
  /// Calls see() for each message that lives, active ones from memory; false from see(): enough.
  using See = std::function<async::Task<bool>(const queue_log::Listed&)>;
  async::Task<Result<std::uint64_t>> each(See see);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::List m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Act m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Show m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::AskStatus m);
  async::Task<bool> list_one(Session& s, const ipc::queue::List& m, const queue_log::Listed& l,
                             std::uint64_t& count);
  async::Task<ipc::queue::Outcome> order(queue_log::Listed l, ipc::queue::Verb verb);

  async::Loop& loop_;
  Manager& manager_;
  std::function<void()> poke_;
  std::function<std::vector<ipc::queue::StatusLine>()> status_;
  OpenBody open_body_;
};

/// The entry that a tool shows for a message.
ipc::queue::Entry to_entry(const Active& m, ipc::queue::Place place);

}  // namespace pen::qmgr
