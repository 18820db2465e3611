#pragma once
/// One connection to a redis server, kept up: requests go out without waiting, answers come back in order.
///
/// Use:     Client client(loop, options, {.greeting = {{"SCRIPT", "LOAD", text}}, .up = …, .down = …});
///          client.start();
///          client.send({"GET", key}, [](Result<Reply> reply) { … });     // false: down, or too much is under way
/// Rules:   nobody waits for the server but its own task. A server that leaves a request without an answer for
///          `timeout`, sends what is no reply, or more than was asked, is given up: every request under way ends with
///          an error, down() is called, and it is tried again with back-off, kFirstPause to kLastPause with jitter.
///          An idle one is pinged, so that one that is gone is known before somebody needs it. up() comes after the
///          greeting was answered without an error; its replies are handed over.
/// Bounds:  kMaxRequests under way, kMaxQueued bytes not yet taken by the kernel; replies: reply.h.
/// Errors:  of requests and down(): RedisError, WaitError, errno.
/// Thread:  the loop's. Callbacks come from the client's own task, never inside send(); they may send().
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/async/stream.h"
#include "lib/async/sync.h"
#include "lib/base/random.h"
#include "lib/redis/reply.h"

namespace pen::redis {

/// A Unix socket's path, or host and port.
struct Server {
  std::string host;  // name or numeric address
  std::uint16_t port = 0;
  std::string path;
  /// "inet:host:port" or "unix:/path".
  std::string text() const;
  bool operator==(const Server&) const = default;
};

struct ClientOptions {
  Server server;
  std::string user, password;  // empty: no AUTH
  int database = 0;
  milliseconds timeout{1000};  // for the connection, and for each answer
  std::uint64_t seed = 1;      // of the jitter
};

struct ClientEvents {
  std::vector<std::vector<std::string>> greeting;  // after AUTH and SELECT
  std::function<void(const std::vector<Reply>& greeted)> up;
  /// Also when the first connection fails, and then not again before up().
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

  void start();
  bool is_up() const { return up_; }
  /// An error reply is a reply. False: nothing was sent, `then` is not called.
  bool send(const std::vector<std::string>& words, Then then);
  /// The server says what makes no sense: the connection is given up, and tried again with back-off.
  void give_up(Error why);
  std::size_t under_way() const { return requests_.size(); }
  const Server& server() const { return options_.server; }

 private:
  struct Request {
    SteadyTime sent{};
    Then then;
  };
  async::Task<void> keep_up();
  async::Task<Error> session();
  async::Task<Result<async::SocketAddress>> find_server();
  async::Task<Result<std::vector<Reply>>> greet();
  async::Task<Result<Reply>> one_reply(SteadyTime deadline);
  Result<void> take_replies();
  void write(const std::vector<std::string>& words, Then then);

  async::Loop& loop_;
  ClientOptions options_;
  ClientEvents events_;
  Random random_;
  async::HandlerPool pool_;  // for names
  std::optional<async::Stream> stream_;
  std::unique_ptr<ReplyReader> reader_;
  std::deque<Request> requests_;
  std::optional<Error> given_up_;
  bool up_ = false, told_down_ = false;
  async::Gate gate_;  // last: its tasks use the rest
};

}  // namespace pen::redis
