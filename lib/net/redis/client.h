#pragma once
/// A persistent connection to a redis server: requests are sent without waiting, answers come back in order.
///
/// Use:     Client client(loop, options, {.greeting = {{"SCRIPT", "LOAD", text}}, .up = …, .down = …});
///          client.start();
///          client.send({"GET", key}, [](Result<Reply> reply) { … });     // false: down, or too many requests are open
/// Rules:   only the client's own task waits for the server. The client gives up a server that leaves a request
///          unanswered for `timeout`, sends malformed data, or sends more replies than were requested. Then every open
///          request ends with an error, down() is called, and the client reconnects with back-off, kFirstPause to
///          kLastPause with jitter. An idle connection is pinged, so that a dead server is noticed before it is
///          needed. up() is called with the replies to the greeting, after all were free of errors.
/// Bounds:  kMaxRequests open, kMaxQueued bytes not yet taken by the kernel; replies: see reply.h.
/// TLS:     with options.tls, before anything is sent; a certificate that is not trusted, or is for another name, is an
///          error: no password goes to a stranger.
/// Errors:  of requests and down(): RedisError, TlsError, WaitError, errno.
/// Thread:  the loop's. Callbacks come from the client's own task, never inside send(); they may send().
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/reconnecting.h"
#include "lib/base/async/stream.h"
#include "lib/base/random.h"
#include "lib/net/helper/server_address.h"
#include "lib/net/redis/reply.h"

namespace pen::tls {
class Context;
}

namespace pen::redis {

using Server = helper::ServerAddress;

struct ClientOptions {
  Server server;
  std::string user, password;  // empty: no AUTH
  int database = 0;
  std::shared_ptr<const tls::Context> tls;  // null: not encrypted
  std::string tls_name;                     // what the certificate must be for
  milliseconds timeout{1000};               // for the connection, and for each answer
  std::uint64_t seed = 1;                   // for the jitter
};

struct ClientEvents {
  std::vector<std::vector<std::string>> greeting;  // sent after AUTH and SELECT
  std::function<void(const std::vector<Reply>& greeted)> up;
  /// Also called when the first connection fails; not called again before up().
  std::function<void(const Error& why)> down;
};

class Client {
 public:
  using Then = std::function<void(Result<Reply>)>;
  static constexpr std::size_t kMaxRequests = 1000;
  static constexpr std::size_t kMaxQueued = std::size_t{1} << 20;
  static constexpr milliseconds kFirstPause{250};
  static constexpr milliseconds kLastPause{15'000};

  Client(async::Loop& loop, ClientOptions options, ClientEvents events);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void start() { kept_.start("redis"); }
  bool is_up() const { return kept_.is_connected(); }
  /// An error reply counts as a reply. False: nothing was sent, and `then` is not called.
  bool send(const std::vector<std::string>& words, Then then);
  /// The server's replies make no sense: closes the connection and reconnects with back-off.
  void give_up(Error why);
  std::size_t under_way() const { return requests_.size(); }
  const Server& server() const { return options_.server; }

 private:
  struct Request {
    SteadyTime sent{};
    Then then;
  };
  async::Task<Error> session();
  void ended(const async::Reconnecting::End& end);
  async::Task<Result<void>> encrypt();
  async::Task<Result<std::vector<Reply>>> greet();
  async::Task<Result<Reply>> one_reply(SteadyTime deadline);
  Result<void> take_replies();
  void write(const std::vector<std::string>& words, Then then);

  async::Loop& loop_;
  ClientOptions options_;
  ClientEvents events_;
  Random random_;
  async::HandlerPool pool_;  // looks names up
  std::optional<async::Stream> stream_;
  std::unique_ptr<ReplyReader> reader_;
  std::deque<Request> requests_;
  std::optional<Error> given_up_;
  async::Reconnecting kept_;  // declared last: its task uses the other members
};

}  // namespace pen::redis
