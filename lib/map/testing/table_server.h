#pragma once
/// A server of a socketmap: table for tests, on the test's own loop.
///
/// Use:     TableServer server(loop, scratch.file("s"));          // "socketmap:unix:" + scratch.file("s") + ":name"
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/listener.h"
#include "lib/base/async/socket.h"
#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/base/text.h"

namespace pen::map {

/// A table server on the test's loop. It answers keys that begin with "hang" after let_go(), closes the connection at
/// "die", does not know "no", and gives all others as their own value.
class TableServer {
 public:
  TableServer(async::Loop& loop, std::string path) : free_(loop), gate_(loop) {
    auto fd = async::listen_on(async::SocketAddress::unix(std::move(path)));
    BOOST_REQUIRE(fd.has_value());
    listener_.emplace(loop, *std::move(fd), 10000);
    gate_.spawn("accept", accept(this));
  }
  void let_go() { free_.set(); }
  std::vector<std::string> asked;
  std::size_t connections = 0, hanging = 0;

 private:
  static async::Task<void> accept(TableServer* self) {
    for (;;) {
      auto accepted = co_await self->listener_->accept();
      if (!accepted) co_return;
      ++self->connections;
      self->gate_.spawn("serve", serve(self, std::move(accepted->stream)));
    }
  }
  static async::Task<void> serve(TableServer* self, async::Stream stream) {
    for (;;) {
      std::string size;
      for (;;) {
        const auto byte = co_await stream.read_exact(1);
        if (!byte) co_return;
        if (*byte == ":") break;
        size += *byte;
      }
      const auto request = co_await stream.read_exact(*parse_unsigned(size) + 1);
      if (!request) co_return;
      const std::string key(request->substr(request->find(' ') + 1, request->size() - 3));
      self->asked.push_back(key);
      if (key.starts_with("hang")) {
        ++self->hanging;
        (void)co_await self->free_.wait();
        --self->hanging;
        stream.write("9:NOTFOUND ,");
        continue;
      }
      if (key.starts_with("die")) co_return;
      const std::string answer = key.starts_with("no") ? "NOTFOUND " : "OK " + key;
      stream.write(std::to_string(answer.size()) + ":" + answer + ",");
    }
  }
  std::optional<async::Listener> listener_;
  async::Event free_;
  async::Gate gate_;
};

}  // namespace pen::map
