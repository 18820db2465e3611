// Measures what a message costs the mail programs when it is watched: the lines of its dialogue for a reader of a
// trace, with the calls that send them, and the making of its three events.
//   watch_bench     one line of JSON for each figure; processor time of the best of seven rounds
//   valgrind --tool=callgrind build/release/bench/watch_bench --once     counts instructions: 1,000 messages each
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <thread>

#include "bench/least_time.h"
#include "lib/base/check.h"
#include "lib/suite/events/event.h"
#include "lib/suite/trace/dialogue.h"

using namespace pen;

namespace {

constexpr int kCount = 1000;
int rounds = 7;

template <class Work>
void measure(const char* name, Work work) {
  fmt::print("{{\"bench\": \"{}\", \"us\": {:.2f}}}\n", name, bench::least_time(rounds, kCount, work).count());
}

async::Task<void> serve(std::shared_ptr<trace::Hub> hub, async::Stream stream) {
  auto opening = co_await ipc::greet(std::move(stream), {});
  PEN_CHECK(opening);
  (void)co_await trace::Hub::serve(std::move(hub), *std::move(opening));
}

using Client = ipc::Channel<ipc::trace::FromProgram, ipc::trace::ToProgram>;
async::Task<void> follow(async::Stream stream, ipc::trace::Filter filter, std::optional<Client>* out) {
  auto channel =
      co_await ipc::open_channel<ipc::trace::FromProgram, ipc::trace::ToProgram>(std::move(stream), "bench", "trace");
  PEN_CHECK(channel);
  out->emplace(*std::move(channel));
  (void)(*out)->send(ipc::trace::Follow{std::move(filter)});
  (void)co_await (*out)->flush();
}

/// A pentrace that shows nothing: it takes what comes, in a thread of its own.
void take_all(int fd) {
  char buffer[65536];
  for (pollfd ready{fd, POLLIN, 0};;) {
    (void)::poll(&ready, 1, -1);
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return;
  }
}

/// The lines of relay20: MAIL, RCPT and DATA one by one.
void message(trace::Dialogue& d) {
  d.command("MAIL FROM:<sender@load.example>");
  d.reply("250 2.1.0 Ok\r\n");
  d.command("RCPT TO:<user4711@load.example>");
  d.reply("250 2.1.5 Ok\r\n");
  d.command("DATA");
  d.reply("354 End data with <CR><LF>.<CR><LF>\r\n");
  d.queue_id("4gHk2V0Qx1z");
  d.content(4241);
  d.reply("250 2.0.0 Ok: queued as 4gHk2V0Qx1z\r\n");
}

void events_of_message(std::string& out) {
  using namespace events;
  const WallTime now(microseconds(1'795'743'624'005'017));
  Event(Type::received, now)
      .text(Field::queue_id, "4gHk2V0Qx1z")
      .text(Field::message_id, "<4711.1795743624@load.example>")
      .text(Field::client_name, "unknown")
      .text(Field::client_address, "127.0.0.1")
      .number(Field::client_port, 40312)
      .text(Field::helo, "load.example")
      .text(Field::proto, "ESMTP")
      .text(Field::from, "sender@load.example")
      .text(Field::to, "user4711@load.example")
      .number(Field::size, 4241)
      .number(Field::nrcpt, 1)
      .time(Field::arrival, now)
      .text(Field::session, "4711-12")
      .append_to(out);
  Event(Type::delivered, now)
      .text(Field::queue_id, "4gHk2V0Qx1z")
      .text(Field::from, "sender@load.example")
      .text(Field::to, "user4711@load.example")
      .number(Field::size, 4241)
      .time(Field::arrival, now)
      .text(Field::nexthop, "[127.0.0.1]:2525")
      .text(Field::relay, "127.0.0.1[127.0.0.1]:2525")
      .text(Field::source_address, "127.0.0.1")
      .number(Field::conn_use, 7)
      .duration(Field::delay, microseconds(9120))
      .duration(Field::delay_before_queue_manager, microseconds(7000))
      .duration(Field::delay_queue_manager, microseconds(120))
      .duration(Field::delay_transmission, microseconds(2000))
      .text(Field::dsn, "2.0.0")
      .text(Field::status, "sent")
      .text(Field::reply, "250 2.0.0 Ok: queued as 9Xyz")
      .text(Field::remote_mta, "127.0.0.1")
      .flag(Field::final, true)
      .text(Field::client_address, "127.0.0.1")
      .number(Field::attempt, 1)
      .text(Field::session, "4712-3")
      .append_to(out);
  Event(Type::removed, now).text(Field::queue_id, "4gHk2V0Qx1z").append_to(out);
}

/// What a message's lines cost a session that this reader follows, or does not.
void traced(const char* name, const ipc::trace::Filter& filter) {
  async::Loop loop;
  async::Cancel draining;
  auto hub = std::make_shared<trace::Hub>(loop, trace::Hub::Options{.service = "smtp", .buffer = 1U << 20}, draining);
  int fds[2];
  PEN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  std::optional<Client> client;
  async::Gate gate(loop);
  gate.spawn("program", serve(hub, async::Stream(loop, Fd(fds[0]))));
  gate.spawn("reader", follow(async::Stream(loop, Fd(fds[1])), filter, &client));
  while (!hub->on()) loop.run_once();
  std::thread reader(take_all, fds[1]);
  {
    trace::Dialogue dialogue(*hub, trace::Dialogue::Way::in, trace::Begin::start, "4711-12");
    dialogue.peer("127.0.0.1", "unknown");
    measure(name, [&] {
      message(dialogue);
      if (hub->readers().front()->channel.queued() > 0) loop.run_once();
    });
    PEN_CHECK(hub->readers().front()->dropped == 0);
  }
  draining.raise();
  while (hub->on()) loop.run_once();
  ::shutdown(fds[1], SHUT_RDWR);
  reader.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--once") rounds = 1;
  traced("trace of a message", {});
  traced("trace of a message for a recipient that is another's", {.recipients = {"somebody@load.example"}});
  traced("trace of a message from a client that nobody follows", {.clients = {"192.0.2.1"}});
  std::string out;
  measure("events of a message", [&] {
    events_of_message(out);
    if (out.size() > 32768) out.clear();
  });
}
