#pragma once
/// A policy server for tests, on the test's own loop.
///
/// Use:     PolicyServer server(rig.loop, scratch.file("p"));  server.answers = {"DUNNO"};
///          "check_policy_service unix:" + scratch.file("p")
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/listener.h"
#include "lib/base/async/socket.h"
#include "lib/base/async/sync.h"

namespace pen::smtpd::testing {

class PolicyServer {
 public:
  using Asked = std::map<std::string, std::string, std::less<>>;

  PolicyServer(async::Loop& loop, std::string path) : loop_(loop), path_(std::move(path)), free_(loop) { start(); }
  void start() {
    auto fd = async::listen_on(async::SocketAddress::unix(path_));
    BOOST_REQUIRE(fd.has_value());
    gate_.emplace(loop_);
    listener_.emplace(loop_, *std::move(fd), 10000);
    gate_->spawn("accept", accept(this));
  }
  /// Closes its connections and is not there any more.
  void die() {
    gate_.reset();
    listener_.reset();
    open = 0;
  }
  void let_go() { free_.set(); }

  /// Actions: one for each request, the last one for all further ones. "hang": no answer before let_go(), then DUNNO.
  /// "close": the connection ends. Anything that ends in a line end is sent as it is.
  std::deque<std::string> answers = {"DUNNO"};
  std::vector<Asked> asked;
  std::vector<std::size_t> over;  // by which connection, counted from 0, each request came
  std::size_t connections = 0, hanging = 0, open = 0;

 private:
  static async::Task<void> accept(PolicyServer* self) {
    for (;;) {
      auto accepted = co_await self->listener_->accept();
      if (!accepted) co_return;
      self->gate_->spawn("serve", serve(self, std::move(accepted->stream), self->connections++));
    }
  }
  static async::Task<void> serve(PolicyServer* self, async::Stream stream, std::size_t number) {
    ++self->open;
    Asked request;
    for (;;) {
      const auto line = co_await stream.read_line(65536);
      if (!line) break;
      if (!line->empty()) {
        const auto equals = line->find('=');
        request[std::string(line->substr(0, equals))] = std::string(line->substr(equals + 1));
        continue;
      }
      self->asked.push_back(std::exchange(request, {}));
      self->over.push_back(number);
      std::string answer = self->answers.front();
      if (self->answers.size() > 1) self->answers.pop_front();
      if (answer == "close") break;
      if (answer == "hang") {
        ++self->hanging;
        (void)co_await self->free_.wait();
        --self->hanging;
        answer = "DUNNO";
      }
      stream.write(answer.ends_with('\n') ? answer : "action=" + answer + "\n\n");
      if (!co_await stream.flush()) break;
    }
    --self->open;
  }

  async::Loop& loop_;
  std::string path_;
  async::Event free_;
  std::optional<async::Listener> listener_;
  std::optional<async::Gate> gate_;  // last: its tasks use the rest
};

}  // namespace pen::smtpd::testing
