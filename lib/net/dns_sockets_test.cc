#include "lib/net/dns_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::net;

namespace {

/// A name server that answers when the test says so.
class SlowServer {
 public:
  SlowServer() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    socklen_t size = sizeof at;
    BOOST_REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port = ntohs(at.sin_port);
  }
  /// How many questions have come since the last call.
  std::size_t come() {
    std::size_t count = 0;
    char part[512];
    socklen_t size = sizeof from_;
    for (ssize_t n = 0;
         (n = ::recvfrom(fd_.get(), part, sizeof part, 0, reinterpret_cast<sockaddr*>(&from_), &size)) > 0;) {
      questions_.emplace_back(part, static_cast<std::size_t>(n));
      ++count;
    }
    return count;
  }
  /// Answers so many, in the order in which they came: there is no such domain.
  void answer(std::size_t count) {
    for (; count > 0; --count) {
      std::string reply = questions_.front();
      questions_.erase(questions_.begin());
      reply[2] = static_cast<char>(reply[2] | 0x80);
      reply[3] = static_cast<char>(reply[3] | 3);
      BOOST_REQUIRE(::sendto(fd_.get(), reply.data(), reply.size(), 0, reinterpret_cast<const sockaddr*>(&from_),
                             sizeof from_) == static_cast<ssize_t>(reply.size()));
    }
  }
  std::uint16_t port = 0;

 private:
  Fd fd_;
  sockaddr_in from_{};
  std::vector<std::string> questions_;
};

async::Task<void> ask_for(DnsSockets* sockets, std::string name, async::Until until, unsigned* answered) {
  const auto reply = co_await sockets->ask({.name = std::move(name), .type = RecordType::a}, true, false, until);
  if (reply && reply->rcode == 3) ++*answered;
}

BOOST_AUTO_TEST_SUITE(dns_sockets)

BOOST_AUTO_TEST_CASE(a_burst_of_questions_does_not_overrun_who_answers_slowly) {
  constexpr std::size_t kWindow = 128;  // far below what a buffer holds
  pen::testing::ManualClock clock;
  async::Loop loop(clock);
  SlowServer server;
  DnsSockets sockets(loop, async::SocketAddress::inet("127.0.0.1", server.port));
  unsigned answered = 0;
  for (int i = 0; i < 500; ++i)
    loop.spawn("ask", ask_for(&sockets, "n" + std::to_string(i) + ".example", {.deadline = clock.now() + seconds(5)},
                              &answered));
  const auto turns = [&loop] {
    for (int i = 0; i < 5; ++i) loop.run_once(milliseconds(1));
  };
  turns();
  BOOST_TEST(server.come() == kWindow);
  turns();
  BOOST_TEST(server.come() == 0U);
  // Each answer lets another question go.
  server.answer(10);
  turns();
  BOOST_TEST(answered == 10U);
  BOOST_TEST(server.come() == 10U);
  // Names with silent servers hold the others up for a moment only.
  clock.advance(milliseconds(50));
  turns();
  BOOST_TEST(server.come() == kWindow);
  for (std::size_t left = 500 - 2 * kWindow - 10; left > 0;) {
    clock.advance(milliseconds(50));
    turns();
    const std::size_t came = server.come();
    BOOST_REQUIRE(came > 0U);
    left -= came;
  }
  for (int i = 0; i < 7; ++i) {
    server.answer(70);
    turns();
  }
  BOOST_TEST(answered == 500U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
