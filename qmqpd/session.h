#pragma once
/// One connection of a QMQP client: its name and address, its message, the reply.
///
/// Use:     Session session(server, std::move(stream), peer);  co_await session.run();
/// Thread:  the loop's. The server must outlive it.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/mail/wire.h"
#include "qmqpd/server.h"

namespace pen::qmqpd {

class Session {
 public:
  Session(Server& server, async::Stream stream, const async::SocketAddress& peer);
  async::Task<void> run();

 private:
  struct Reply {
    char code = 'Z';  // K: the message is queued. Z: not now. D: never
    std::string text;
  };
  /// nullopt: there is nobody to reply to.
  using Answer = std::optional<Reply>;

  async::Task<void> learn_name();
  async::Task<Answer> admit();
  async::Task<Answer> receive();
  /// Reads the request up to its end. nullopt: it has come whole.
  async::Task<Answer> read(Frame& frame);
  /// One step that is not content. Faults are final: they are replied to at once.
  Answer take(const Frame& frame, const Frame::Step& step);
  void take_content(const Frame& frame, std::string_view text);
  /// Makes the message's body of the content. ok: it can be committed.
  async::Task<intake::Commit> build_body();
  async::Task<intake::Commit> judge_and_commit();
  async::Task<Reply> finish();
  async::Task<Result<std::string>> tenant_of();
  async::Task<Result<std::int8_t>> priority_of();
  Reply reply_to(const intake::Commit& commit) const;
  async::Task<void> say(Reply reply);
  /// The session ends without a reply; `error` is that of the stream.
  void broken_off(const Error& error, std::string_view doing);
  void log_end(std::string_view why, std::string_view doing) const;
  void tell_rejected(const Reply& reply) const;
  /// For one wait for the client, and for one that is not for it: a stop of the suite does not end that.
  async::Until until() const;
  async::Until own_time() const { return {.deadline = until().deadline}; }

  Server& server_;
  async::Stream stream_;
  mail::Client client_;
  std::uint64_t number_;  // of the session, for events
  std::string shown_;     // name[address] for the log
  SteadyTime end_;        // of the session
  bool admitted_ = false;
  bool whole_ = false;          // the request has come to its end
  bool names_tenant_ = false;   // its field counts
  bool says_priority_ = false;  // what the client says of how urgent its mail is counts

  std::string queue_id_ = "NOQUEUE";
  std::unique_ptr<intake::Message> message_;
  // The content, until the envelope behind it has come: the body needs to know the sender and the recipients. Short
  // content is in memory; else in a body of its own, behind an empty line, so that nothing of it is a header yet.
  std::string held_;
  std::shared_ptr<intake::Body> staged_;
  mail::BdatScanner stager_;
  Answer fault_;  // of the envelope; sent when the request has come
};

}  // namespace pen::qmqpd
