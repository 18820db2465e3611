#pragma once
/// Serves smtpd's connections: reads requests, runs the steps of exchanges in threads, answers.
///
/// Use:     auto server = std::make_shared<Server>(loop, *library, Server::Options{…});
///          context.serve([server](auto accepted) { return Server::serve(server, std::move(accepted.stream)); });
/// Threads: two pools of options.threads: for mechanisms that have a password in clear text, because what checks it
///          (saslauthd, and what is behind it) may hang, and for all others. With one thread there is one pool. Tables
///          of users have a pool with a thread for each processor, for they calculate. The steps of one exchange run
///          one after the other.
/// Time:    a step that has taken options.step_timeout is a temporary failure for the client; its thread goes on until
///          the library returns, and what it says then is dropped. When all threads of a pool have been held so for
///          kStuck, on_stuck is called, once: the process is to be replaced.
/// Bounds:  kMaxExchanges for all connections, in equal parts for the pools, beyond which a login is a temporary
///          failure; lines of kMaxLine.
/// End:     CANCEL, and the end of the connection, give exchanges up. A client that does what smtpd never does (bad
///          lines, a response while an answer is awaited) is hung up on.
/// Log:     what the library says of its own troubles is a warning; never a response.
/// Thread:  the loop's. The library must outlive it.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "cyrus/exchange.h"
#include "lib/base/async/handler_pool.h"
#include "lib/base/async/stream.h"
#include "lib/trust/sasl/dovecot_requests.h"

namespace pen::cyrus {

class Server {
 public:
  static constexpr std::size_t kMaxExchanges = 4000;
  // smtpd_sasl_response_limit at its most, in base 64 already, and what is around it.
  static constexpr std::size_t kMaxLine = 1'048'576 + 4096;
  static constexpr seconds kHelloWait{10}, kStuck{300};
  struct Options {
    std::size_t threads = 16;
    milliseconds step_timeout = seconds(20);
  };
  /// tables: applications that are not the library's.
  Server(async::Loop& loop, const Library& library, Options options, std::vector<Application> tables = {});
  ~Server();

  /// Ends with the connection.
  static async::Task<void> serve(std::shared_ptr<Server> self, async::Stream stream);

  std::function<void()> on_stuck;
  std::size_t exchanges() const;
  std::vector<std::string> status() const;

 private:
  struct Active;
  struct Connection;
  struct Pool;
  async::Task<Result<void>> hello(Connection& connection);
  Result<void> take(const std::shared_ptr<Server>& self, const std::shared_ptr<Connection>& connection,
                    std::string_view line);
  const Application* find(std::string_view name) const;
  Pool& pool_for(const Application& application, const std::string& mechanism);
  static async::Task<void> step(std::shared_ptr<Server> self, std::shared_ptr<Connection> connection,
                                std::shared_ptr<Active> active, std::optional<std::string> response);
  static async::Task<void> work(std::shared_ptr<Server> self, std::shared_ptr<Active> active,
                                std::optional<std::string> response);
  void answer(Connection& connection, std::uint32_t id, const Step& step);
  void look_for_stuck(const Pool& pool);

  async::Loop& loop_;
  const Library& library_;
  const std::vector<Application> tables_;
  Options options_;
  std::vector<std::unique_ptr<Pool>> pools_;  // of clear text, of challenges unless it is the same, of tables
  Pool* challenges_ = nullptr;
  std::uint64_t ok_ = 0, failed_ = 0, temporary_ = 0, late_ = 0, given_up_ = 0;
  bool stuck_ = false;
  std::set<std::string> told_;  // applications that nobody names
};

}  // namespace pen::cyrus
