#include "lib/base/async/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <numeric>

#include "lib/base/async/sync.h"
#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

namespace pen::async {
BOOST_AUTO_TEST_SUITE(stream)

namespace {

using testing::run;
using testing::stream_pair;

struct FramesComeBack {
  ~FramesComeBack() { BOOST_TEST(live_frames() == 0U); }
};

// Coroutines of these tests are plain functions that take values: captured names would die before the coroutine.
Task<void> read_lines(Stream* s, std::size_t max, std::vector<std::string>* lines, std::string* end) {
  for (;;) {
    auto line = co_await s->read_line(max);
    if (!line) {
      *end = line.error().message();
      co_return;
    }
    lines->emplace_back(*line);
  }
}

Task<std::string> one_line(Stream* s, std::size_t max, Until until) {
  auto line = co_await s->read_line(max, until);
  if (!line) co_return "error: " + line.error().message();
  co_return std::string(*line);
}

void settle(Loop& loop) {
  for (int i = 0; i < 20; ++i) loop.run_once();
}

Task<std::size_t> some_bytes(Stream* s) {
  auto got = co_await s->read_some(1);
  co_return got ? got->size() + s->buffered().size() : 0;
}

BOOST_AUTO_TEST_CASE(a_shared_limit_counts_for_the_next_read_of_a_stream_that_waits_already) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  std::uint32_t limit = 0;
  b.limit_reads(&limit);
  std::optional<std::size_t> got;
  loop.spawn("reader", testing::store_result(some_bytes(&b), &got));
  settle(loop);
  limit = 5000;
  a.write(std::string(20000, 'x'));
  settle(loop);
  BOOST_TEST_REQUIRE(got.has_value());
  BOOST_TEST(*got == 5000U);
  b.consume(b.buffered().size());
  limit = 0;
  BOOST_TEST(run(loop, some_bytes(&b)) == 15000U);
}

BOOST_AUTO_TEST_CASE(lines_come_out_whole_however_the_bytes_are_split) {
  const FramesComeBack frames;
  const std::string text = "EHLO a.example\r\nMAIL FROM:<>\n\r\nx\r\r\nlast part";
  const std::vector<std::string> expected = {"EHLO a.example", "MAIL FROM:<>", "", "x\r"};
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); second += 3) {
      Loop loop;
      auto [a, b] = stream_pair(loop);
      std::vector<std::string> lines;
      std::string end;
      loop.spawn("reader", read_lines(&b, 100, &lines, &end));
      std::size_t from = 0;
      for (const std::size_t to : {first, second, text.size()}) {
        if (to > from) a.write(std::string_view(text).substr(from, to - from));
        from = to;
        loop.run_once();
        loop.run_once();
      }
      a.close();
      for (int i = 0; i < 10 && end.empty(); ++i) loop.run_once(milliseconds(20));
      BOOST_TEST(lines == expected, boost::test_tools::per_element());
      BOOST_TEST(end == "connection closed");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_raw_line_keeps_its_end) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  a.write("one\r\ntwo\n");
  BOOST_TEST(run(loop, b.read_raw_line(10)).value() == "one\r\n");
  BOOST_TEST(run(loop, b.read_raw_line(10)).value() == "two\n");
}

BOOST_AUTO_TEST_CASE(the_reader_is_not_resumed_for_part_of_a_line) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  std::optional<std::string> got;
  loop.spawn("reader", testing::store_result(one_line(&b, 100, {}), &got));
  for (const char c : std::string("partial")) {
    a.write({&c, 1});
    settle(loop);
    BOOST_TEST(!got.has_value());
  }
  a.write("\r\n");
  settle(loop);
  BOOST_TEST(got.value() == "partial");
}

BOOST_AUTO_TEST_CASE(an_overlong_line_is_told_apart_and_can_be_skipped) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  a.write(std::string(5000, 'x') + "\r\nnext\r\n");
  const auto line = run(loop, b.read_line(1000));
  BOOST_TEST(line.error().is(WaitError::line_too_long));
  BOOST_TEST(run(loop, b.discard_line()).has_value());
  BOOST_TEST(run(loop, b.read_line(1000)).value() == "next");
}

BOOST_AUTO_TEST_CASE(the_longest_permitted_line_passes_and_one_more_byte_does_not) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  a.write(std::string(10, 'x') + "\n" + std::string(11, 'y') + "\n");
  BOOST_TEST(run(loop, b.read_line(10)).value() == std::string(10, 'x'));
  BOOST_TEST(run(loop, b.read_line(10)).error().is(WaitError::line_too_long));
}

BOOST_AUTO_TEST_CASE(skipping_a_line_takes_no_memory_for_it) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  std::optional<Result<void>> skipped;
  loop.spawn("skip", testing::store_result(b.discard_line(), &skipped));
  for (int i = 0; i < 100; ++i) {
    a.write(std::string(50'000, 'x'));
    while (a.queued() != 0) loop.run_once(milliseconds(10));
    BOOST_TEST(b.buffered().size() < 100'000U);
  }
  a.write("\nok\n");
  settle(loop);
  BOOST_TEST(skipped.value().has_value());
  BOOST_TEST(run(loop, b.read_line(10)).value() == "ok");
}

BOOST_AUTO_TEST_CASE(read_exact_and_read_some_share_the_bytes_in_order) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  std::string big(300'000, '\0');
  std::iota(big.begin(), big.end(), '\0');
  const std::vector<Bytes> pieces = {as_bytes("head"), {}, as_bytes(big), as_bytes("tail")};
  std::optional<Result<void>> written;
  loop.spawn("writer", testing::store_result(a.write_all(pieces), &written));
  BOOST_TEST(run(loop, b.read_exact(4)).value() == "head");
  BOOST_TEST((run(loop, b.read_exact(big.size())).value() == big));
  BOOST_TEST(run(loop, b.read_some(2)).value() == "ta");
  BOOST_TEST(run(loop, b.read_some(100)).value() == "il");
  settle(loop);
  BOOST_TEST(written.value().has_value());
}

BOOST_AUTO_TEST_CASE(tcp_sockets_have_the_buffers_that_were_set_before_they_listen_or_connect) {
  const auto buffers = [](int fd) {
    std::pair<int, int> out;  // the kernel doubles what was asked for
    socklen_t size = sizeof out.first;
    BOOST_REQUIRE(::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &out.first, &size) == 0);
    BOOST_REQUIRE(::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &out.second, &size) == 0);
    return out;
  };
  Loop loop;
  set_tcp_window(20'000);
  const auto listening = listen_on(SocketAddress::inet("127.0.0.1", 0));
  const auto stream = run(loop, connect(loop, *local_address(listening->get())));
  set_tcp_window(0);
  const auto usual = listen_on(SocketAddress::inet("127.0.0.1", 0));
  BOOST_REQUIRE(stream.has_value());
  const std::pair<int, int> asked(40'000, 40'000);
  BOOST_TEST((buffers(listening->get()) == asked));
  BOOST_TEST((buffers(stream->fd()) == asked));
  BOOST_TEST((buffers(usual->get()) != asked));
}

BOOST_AUTO_TEST_CASE(a_half_closed_peer_still_gets_its_answer) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  a.write("question\nrest");
  BOOST_TEST(run(loop, a.shutdown()).has_value());
  BOOST_TEST(run(loop, b.read_line(100)).value() == "question");
  BOOST_TEST(run(loop, b.read_line(100)).error().is(WaitError::closed));
  b.write("answer\n");
  BOOST_TEST(run(loop, a.read_line(100)).value() == "answer");
}

BOOST_AUTO_TEST_CASE(a_writer_waits_for_a_slow_reader_and_loses_nothing) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  const std::string text(4'000'000, 'm');
  a.write(text);
  std::optional<Result<void>> flushed;
  loop.spawn("flush", testing::store_result(a.flush(), &flushed));
  settle(loop);
  BOOST_TEST(!flushed.has_value());
  BOOST_TEST(a.queued() > 0U);
  std::size_t got = 0;
  while (got < text.size()) got += run(loop, b.read_some(1'000'000)).value().size();
  settle(loop);
  BOOST_TEST(flushed.value().has_value());
  BOOST_TEST(a.queued() == 0U);
}

BOOST_AUTO_TEST_CASE(all_who_wait_for_the_output_are_told) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  a.write(std::string(2'000'000, 'm'));
  std::optional<Result<void>> one, two;
  loop.spawn("one", testing::store_result(a.flush(), &one));
  loop.spawn("two", testing::store_result(a.flush(), &two));
  settle(loop);
  BOOST_TEST(!one.has_value());
  for (std::size_t got = 0; got < 2'000'000;) got += run(loop, b.read_some(1'000'000)).value().size();
  settle(loop);
  BOOST_TEST(one.value().has_value());
  BOOST_TEST(two.value().has_value());
}

BOOST_AUTO_TEST_CASE(what_is_written_while_write_all_runs_comes_behind_it) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  const std::string big(2'000'000, 'b');
  const std::vector<Bytes> pieces = {as_bytes(big)};
  a.write("first ");
  std::optional<Result<void>> written;
  loop.spawn("writer", testing::store_result(a.write_all(pieces), &written));
  loop.run_once();
  a.write(" behind");
  BOOST_TEST((run(loop, b.read_exact(6 + big.size() + 7)).value() == "first " + big + " behind"));
  BOOST_TEST(written.value().has_value());
}

BOOST_AUTO_TEST_CASE(giving_up_inside_write_all_breaks_the_stream) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  const std::string big(4'000'000, 'b');
  const std::vector<Bytes> pieces = {as_bytes(big)};
  Cancel cancel;
  std::optional<Result<void>> written;
  loop.spawn("writer", testing::store_result(a.write_all(pieces, {.cancel = &cancel}), &written));
  loop.run_once();
  cancel.raise();
  settle(loop);
  BOOST_TEST(written.value().error().is(WaitError::cancelled));
  BOOST_TEST(a.broken());
}

BOOST_AUTO_TEST_CASE(output_of_one_turn_leaves_in_one_system_call) {
  Loop loop;
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  Stream a(loop, Fd(fds[0]));
  const Fd raw(fds[1]);
  a.write("250-one\r\n");
  a.write("250-two\r\n");
  a.write("250 three\r\n");
  char text[200];
  // Nothing is sent before the end of the turn.
  BOOST_TEST(::recv(raw.get(), text, sizeof text, 0) == -1);
  loop.run_once();
  BOOST_TEST(::recv(raw.get(), text, sizeof text, 0) == 29);  // one packet: one call
}

BOOST_AUTO_TEST_CASE(what_came_before_the_peer_hung_up_is_read_though_a_write_finds_it_gone) {
  Loop loop;
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  Stream a(loop, Fd(fds[0]));
  Fd raw(fds[1]);
  a.write("a question\n");
  loop.run_once();
  BOOST_REQUIRE(::send(raw.get(), "one\ntwo\n", 8, 0) == 8);
  raw.reset();  // with the question unread, so that a later call gets ECONNRESET
  a.write("another\n");
  BOOST_TEST(!run(loop, a.flush()).has_value());
  BOOST_TEST(a.broken());
  BOOST_TEST(a.queued() == 0U);
  a.write("dropped\n");
  BOOST_TEST(run(loop, a.read_line(100)).value() == "one");
  BOOST_TEST(run(loop, a.read_line(100)).value() == "two");
  BOOST_TEST(!run(loop, a.read_line(100)).has_value());
  BOOST_TEST(!run(loop, a.flush()).has_value());
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_a_read_and_the_stream_goes_on) {
  pen::testing::ManualClock clock;
  Loop loop(clock);
  auto [a, b] = stream_pair(loop);
  std::optional<std::string> got;
  loop.spawn("reader", testing::store_result(one_line(&b, 100, {.deadline = loop.now() + seconds(300)}), &got));
  settle(loop);
  clock.advance(seconds(299));
  settle(loop);
  BOOST_TEST(!got.has_value());
  clock.advance(seconds(2));
  settle(loop);
  BOOST_TEST(got.value() == "error: timed out");
  a.write("still here\n");
  settle(loop);
  BOOST_TEST(run(loop, b.read_line(100)).value() == "still here");
}

BOOST_AUTO_TEST_CASE(a_destroyed_reader_withdraws_and_the_bytes_stay) {
  const FramesComeBack frames;
  Loop loop;
  auto [a, b] = stream_pair(loop);
  {
    Gate gate(loop);
    std::vector<std::string> lines;
    std::string end;
    gate.spawn("reader", read_lines(&b, 100, &lines, &end));
    settle(loop);
    a.write("for the ne");
    settle(loop);
  }
  a.write("xt\n");
  BOOST_TEST(run(loop, b.read_line(100)).value() == "for the next");
}

BOOST_AUTO_TEST_CASE(close_ends_a_waiting_read) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  std::optional<std::string> got;
  loop.spawn("reader", testing::store_result(one_line(&b, 100, {}), &got));
  settle(loop);
  b.close();
  settle(loop);
  BOOST_TEST(got.value() == "error: connection closed");
  BOOST_TEST(run(loop, b.read_line(100)).error().is(WaitError::closed));
  b.write("into nowhere");
  BOOST_TEST(run(loop, b.flush()).error().is(WaitError::closed));
}

BOOST_AUTO_TEST_CASE(a_broken_connection_is_an_error_for_writer_and_reader) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  b.close();
  a.write("x");
  BOOST_TEST(run(loop, a.flush()).error().is_errno(EPIPE));
  BOOST_TEST(a.broken());
  BOOST_TEST(run(loop, a.read_line(10)).error().is_errno(EPIPE));
}

BOOST_AUTO_TEST_CASE(input_that_came_before_a_break_is_still_read) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  b.write("221 bye\r\n");
  BOOST_TEST(run(loop, b.flush()).has_value());
  BOOST_TEST(a.poll_input());
  b.close();
  a.write("x");
  BOOST_TEST(!run(loop, a.flush()).has_value());
  BOOST_TEST(run(loop, a.read_line(100)).value() == "221 bye");
}

BOOST_AUTO_TEST_CASE(an_early_talker_is_seen_without_waiting) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  BOOST_TEST(!b.poll_input());
  a.write("EHLO\r\n");
  settle(loop);
  BOOST_TEST(b.poll_input());
  BOOST_TEST(b.line_buffered());
}

BOOST_AUTO_TEST_CASE(descriptors_travel_with_their_bytes_in_order) {
  Loop loop;
  pen::testing::ScratchDir dir;
  auto [a, b] = stream_pair(loop);
  auto opened = [&](const char* name) { return Fd(::open(dir.write(name, name).c_str(), O_RDONLY | O_CLOEXEC)); };
  auto content = [](const Fd& fd) {
    char text[10] = {};
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(fd.get(), text, sizeof text, 0))));
  };
  a.write("plain ");
  std::vector<Fd> one, two;
  one.push_back(opened("x"));
  two.push_back(opened("y"));
  two.push_back(opened("z"));
  a.write_with_fds("first ", one);
  a.write_with_fds("second", two);
  BOOST_TEST(run(loop, b.read_exact(6)).value() == "plain ");
  BOOST_TEST(run(loop, b.read_exact(6)).value() == "first ");
  BOOST_TEST(run(loop, b.read_exact(6)).value() == "second");
  const auto fds = b.take_fds();
  BOOST_REQUIRE(fds.size() == 3U);
  BOOST_TEST(content(fds[0]) == "x");
  BOOST_TEST(content(fds[1]) == "y");
  BOOST_TEST(content(fds[2]) == "z");
}

BOOST_AUTO_TEST_CASE(a_flood_of_descriptors_closes_the_stream) {
  Loop loop;
  auto [a, b] = stream_pair(loop);
  for (int i = 0; i < 3; ++i) {
    std::vector<Fd> fds;
    for (int k = 0; k < 40; ++k) fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    a.write_with_fds("x", fds);
  }
  BOOST_TEST(!run(loop, b.read_exact(3)).has_value());
  BOOST_TEST(b.broken());
}

Task<void> echo_lines(Stream s, int* served) {
  while (true) {
    auto line = co_await s.read_line(1000);
    if (!line) co_return;
    ++*served;
    s.write(*line);
    s.write("\n");
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_sends_without_pause_does_not_starve_another) {
  Loop loop;
  auto [busy, busy_server] = stream_pair(loop);
  auto [quiet, quiet_server] = stream_pair(loop);
  int busy_served = 0, quiet_served = 0;
  std::string flood;
  for (int i = 0; i < 20000; ++i) flood += "x\n";
  busy.write(flood);
  loop.spawn("busy", echo_lines(std::move(busy_server), &busy_served));
  loop.spawn("quiet", echo_lines(std::move(quiet_server), &quiet_served));
  loop.run_once();
  quiet.write("hello\n");
  const int before = busy_served;
  for (int i = 0; i < 4 && quiet_served == 0; ++i) loop.run_once();
  BOOST_TEST(quiet_served == 1);
  BOOST_TEST(busy_served - before < 2000);
}

BOOST_AUTO_TEST_CASE(tcp_connects_and_tells_both_addresses) {
  Loop loop;
  Fd listening = listen_on(SocketAddress::inet("127.0.0.1", 0)).value();
  const SocketAddress at = local_address(listening.get()).value();
  Listener listener(loop, std::move(listening), 10);
  std::optional<Result<Stream>> client;
  loop.spawn("client", testing::store_result(connect(loop, at, {}, "127.0.0.2"), &client));
  auto accepted = run(loop, listener.accept());
  BOOST_TEST(accepted.value().peer.host == "127.0.0.2");
  while (!client) loop.run_once(milliseconds(10));
  BOOST_TEST(peer_address(client->value().fd()).value().text() == at.text());
  client->value().write("hi\n");
  BOOST_TEST(run(loop, accepted->stream.read_line(10)).value() == "hi");
  int nodelay = 0;
  socklen_t size = sizeof nodelay;
  ::getsockopt(accepted->stream.fd(), IPPROTO_TCP, 1, &nodelay, &size);
  BOOST_TEST(nodelay == 1);
}

BOOST_AUTO_TEST_CASE(a_refused_connection_is_an_error_with_its_errno) {
  Loop loop;
  std::uint16_t port = 0;
  {
    const Fd fd = listen_on(SocketAddress::inet("127.0.0.1", 0)).value();
    port = local_address(fd.get()).value().port;
  }
  const auto r = run(loop, connect(loop, SocketAddress::inet("127.0.0.1", port)));
  BOOST_TEST(r.error().is_errno(ECONNREFUSED));
  BOOST_TEST(!run(loop, connect(loop, SocketAddress::inet("not an address", port))).has_value());
}

BOOST_AUTO_TEST_CASE(unix_sockets_work_at_any_depth_and_replace_a_dead_one) {
  Loop loop;
  pen::testing::ScratchDir dir;
  std::filesystem::path deep = dir.path();
  for (int i = 0; i < 10; ++i) deep /= "a-rather-long-directory-name";
  std::filesystem::create_directories(deep);
  const auto at = SocketAddress::unix((deep / "socket").string());
  {
    const Fd dead = listen_on(at).value();
  }
  Listener listener(loop, listen_on(at).value(), 10);
  BOOST_TEST(listen_on(at).error().is_errno(EADDRINUSE));
  auto client = run(loop, connect(loop, at));
  auto accepted = run(loop, listener.accept());
  BOOST_TEST(peer_credentials(accepted.value().stream.fd()).value().uid == ::getuid());
}

BOOST_AUTO_TEST_CASE(a_link_in_the_place_of_a_unix_socket_is_replaced_wherever_it_leads) {
  pen::testing::ScratchDir dir;
  const std::string other = dir.file("other"), nowhere = dir.file("nowhere");
  const Fd served = listen_on(SocketAddress::unix(other)).value();
  const std::string text = dir.write("text", "what stays");
  for (const std::string& target : {other, nowhere, text}) {
    const std::string path = dir.file("socket");
    std::filesystem::create_symlink(target, path);
    BOOST_TEST(listen_on(SocketAddress::unix(path)).has_value(), target);
    BOOST_TEST(!std::filesystem::is_symlink(path), target);
    std::filesystem::remove(path);
  }
  BOOST_TEST(!std::filesystem::exists(nowhere));
  BOOST_TEST(std::filesystem::file_size(text) == 10U);
  BOOST_TEST(listen_on(SocketAddress::unix(other)).error().is_errno(EADDRINUSE));
}

BOOST_AUTO_TEST_CASE(the_listener_takes_no_more_than_its_bound_until_a_place_is_free) {
  Loop loop;
  Fd listening = listen_on(SocketAddress::inet("127.0.0.1", 0)).value();
  const SocketAddress at = local_address(listening.get()).value();
  Listener listener(loop, std::move(listening), 2);
  std::vector<Stream> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(run(loop, connect(loop, at)).value());
  auto one = run(loop, listener.accept());
  auto two = run(loop, listener.accept());
  BOOST_TEST(listener.live() == 2U);
  std::optional<Result<Listener::Accepted>> three;
  loop.spawn("third", testing::store_result(listener.accept(), &three));
  settle(loop);
  BOOST_TEST(!three.has_value());
  one->slot = {};
  settle(loop);
  BOOST_TEST(three.value().has_value());
  std::optional<Result<Listener::Accepted>> four;
  loop.spawn("fourth", testing::store_result(listener.accept(), &four));
  settle(loop);
  listener.close();
  settle(loop);
  BOOST_TEST(four.value().error().is(WaitError::closed));
}

BOOST_AUTO_TEST_CASE(the_listener_goes_on_after_it_ran_out_of_descriptors) {
  pen::testing::ManualClock clock;
  Loop loop(clock);
  Fd listening = listen_on(SocketAddress::inet("127.0.0.1", 0)).value();
  const SocketAddress at = local_address(listening.get()).value();
  Listener listener(loop, std::move(listening), 10);
  Stream client = run(loop, connect(loop, at)).value();
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit none{0, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::optional<Result<Listener::Accepted>> got;
  loop.spawn("accept", testing::store_result(listener.accept(), &got));
  settle(loop);
  BOOST_TEST(!got.has_value());
  clock.advance(seconds(1));
  settle(loop);
  ::setrlimit(RLIMIT_NOFILE, &old);
  BOOST_TEST(got.value().error().is_errno(EMFILE));
  BOOST_TEST(run(loop, listener.accept()).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::async
