#include "lib/suite/trace/dialogue.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>

#include "lib/suite/trace/hub.h"
#include "lib/testing/manual_clock.h"

namespace pen::trace {
namespace {

using namespace ipc::trace;
using Client = ipc::Channel<FromProgram, ToProgram>;

/// A reader at the other end of a socket pair.
struct Reading {
  std::optional<Client> channel;
  std::vector<std::string> got;  // "<TEXT" received, ">TEXT" sent, "=TEXT" marks, ".TEXT" ends, "!N" dropped
  std::vector<std::string> sessions;
  std::vector<WallTime> times;
  std::string refused;
  bool following = false, replaced = false, over = false;
};

async::Task<void> answer(std::shared_ptr<Hub> hub, async::Stream stream) {
  auto opening = co_await ipc::greet(std::move(stream), {});
  BOOST_REQUIRE(opening);
  (void)co_await Hub::serve(std::move(hub), *std::move(opening));
}

void note(Reading& r, const FromProgram& message) {
  if (const auto* line = std::get_if<Line>(&message)) {
    r.got.push_back("<>=."[static_cast<std::size_t>(line->kind)] + std::string(line->text));
    r.sessions.emplace_back(line->session);
    r.times.push_back(line->time);
  }
  if (const auto* no = std::get_if<Refused>(&message)) r.refused = no->why;
  if (const auto* gap = std::get_if<Dropped>(&message)) r.got.push_back(fmt::format("!{}", gap->lines));
  if (std::holds_alternative<Following>(message)) r.following = true;
  if (std::holds_alternative<Replaced>(message)) r.replaced = true;
}

async::Task<void> read_all(Reading* r) {
  for (;;) {
    auto received = co_await r->channel->receive();
    if (!received) break;
    note(*r, received->message);
  }
  r->over = true;
}

async::Task<void> open(Reading* r, async::Stream stream, ipc::trace::Filter filter, bool reads) {
  auto channel = co_await ipc::open_channel<FromProgram, ToProgram>(std::move(stream), "test", kName);
  BOOST_REQUIRE(channel);
  r->channel.emplace(*std::move(channel));
  (void)r->channel->send(Follow{std::move(filter)});
  (void)co_await r->channel->flush();
  if (reads) co_await read_all(r);
}

constexpr milliseconds kLongEnough{130};  // 100, and a tick of the timers

struct Rig {
  explicit Rig(Hub::Options options = {.service = "smtp", .readers = 2, .buffer = 64 * 1024})
      : hub(std::make_shared<Hub>(loop, options, draining)) {}
  Reading& follow(ipc::trace::Filter filter = {}, bool reads = true) {
    int fds[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    readings.push_back(std::make_unique<Reading>());
    tasks.spawn("program", answer(hub, async::Stream(loop, Fd(fds[0]))));
    tasks.spawn("reader", open(readings.back().get(), async::Stream(loop, Fd(fds[1])), std::move(filter), reads));
    turns();
    return *readings.back();
  }
  /// Until the reader has what was said, which is gathered for a while.
  void settle() {
    clock.advance(kLongEnough);
    turns();
  }
  void turns() {
    for (int i = 0; i < 50; ++i) loop.run_once();
  }
  std::unique_ptr<Dialogue> incoming(std::string_view address = "192.0.2.7", std::string_view name = "c.example") {
    auto d = std::make_unique<Dialogue>(*hub, Dialogue::Way::in, Begin::start, "4711-12");
    d->mark("connect");
    d->peer(address, name);
    return d;
  }
  /// One transaction, with its replies.
  static void message(Dialogue& d, std::string_view sender, std::string_view recipient, std::string_view id) {
    d.command(fmt::format("MAIL FROM:<{}> SIZE=10", sender));
    d.reply("250 2.1.0 Ok\r\n");
    d.command(fmt::format("RCPT TO:<{}>", recipient));
    d.reply("250 2.1.5 Ok\r\n");
    d.queue_id(id);
    d.content(10);
    d.reply(fmt::format("250 2.0.0 Ok: queued as {}\r\n", id));
  }

  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  async::Cancel draining;
  std::shared_ptr<Hub> hub;
  std::vector<std::unique_ptr<Reading>> readings;
  async::Gate tasks{loop};
};

bool has(const Reading& r, std::string_view text) {
  return std::ranges::any_of(r.got, [&](const std::string& line) { return line.contains(text); });
}

BOOST_AUTO_TEST_SUITE(dialogue)

BOOST_AUTO_TEST_CASE(a_session_is_shown_line_by_line_with_its_direction) {
  Rig rig;
  BOOST_TEST(!rig.hub->on());
  Reading& r = rig.follow();
  BOOST_TEST(r.following);
  BOOST_TEST(rig.hub->on());
  {
    const auto d = rig.incoming();
    d->reply("220 mx ESMTP\r\n");
    d->command("EHLO c.example");
    d->reply("250-mx\r\n250 SIZE\r\n");
    d->end("disconnect");
  }
  rig.settle();
  const std::vector<std::string> wanted = {"=connect", ">220 mx ESMTP", "<EHLO c.example",
                                           ">250-mx",  ">250 SIZE",     ".disconnect"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
  BOOST_TEST(std::ranges::count(r.sessions, r.sessions.front()) == 6);
}

BOOST_AUTO_TEST_CASE(frames_of_lines_are_those_of_the_conversation) {
  const std::string longest(Dialogue::kMaxLine, 'x');
  for (const std::int64_t time : {0L, 63L, 64L, 1'795'743'624'005'017L, -1L}) {
    for (const std::string_view text :
         {std::string_view(), std::string_view("250 2.0.0 Ok"), std::string_view(longest)}) {
      const Line line{.time = WallTime(microseconds(time)), .session = "4711-12", .kind = Kind::end, .text = text};
      std::string ours = "before", theirs = "before";
      append_frame(ours, line);
      BOOST_REQUIRE(ipc::encode_frame<FromProgram>(theirs, line, 0, ipc::max_frame(kName)));
      BOOST_TEST(ours == theirs);
    }
  }
}

BOOST_AUTO_TEST_CASE(lines_are_gathered_for_a_while_but_not_many_of_them) {
  Rig rig;
  Reading& r = rig.follow();
  const auto d = rig.incoming();
  d->command("NOOP 1");
  rig.turns();
  BOOST_TEST(r.got.empty());
  d->reply("250 2.0.0 Ok\r\n");
  rig.settle();
  const std::vector<std::string> wanted = {"=connect", "<NOOP 1", ">250 2.0.0 Ok"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
  for (int i = 0; i < 60; ++i) d->command("NOOP " + std::string(900, 'x'));
  rig.turns();
  BOOST_TEST(r.got.size() > 10U);
  rig.settle();
  BOOST_TEST(r.got.size() == 63U);
}

BOOST_AUTO_TEST_CASE(lines_have_the_time_at_which_they_were_said_and_the_order) {
  Rig rig;
  Reading& r = rig.follow();
  const auto d = rig.incoming();
  for (int i = 0; i < 3; ++i) {
    rig.clock.advance(milliseconds(20));
    rig.turns();
    d->command(fmt::format("NOOP {}", i));
    d->command(std::string(2 * Notes::kBytes, 'x'));  // too long to be noted
    d->reply("250 2.0.0 Ok\r\n");
  }
  rig.settle();
  const std::string cut = std::string(Dialogue::kMaxLine, 'x') + "...";
  const std::vector<std::string> wanted = {"=connect", "<NOOP 0",       "<" + cut, ">250 2.0.0 Ok", "<NOOP 1",
                                           "<" + cut,  ">250 2.0.0 Ok", "<NOOP 2", "<" + cut,       ">250 2.0.0 Ok"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
  BOOST_REQUIRE(r.times.size() == wanted.size());
  for (std::size_t i = 0; i < 3; ++i) BOOST_CHECK(r.times[3 * i + 1] - r.times[0] == milliseconds(20 * (i + 1)));
}

BOOST_AUTO_TEST_CASE(a_reader_gets_what_was_said_before_it_had_company_and_the_company_does_not) {
  Rig rig({.service = "smtp", .readers = 3, .buffer = 64 * 1024});
  const Reading& first = rig.follow();
  const auto d = rig.incoming();
  d->command("NOOP alone");
  const Reading& second = rig.follow();
  d->command("NOOP together");
  rig.settle();
  d->command("NOOP with a filter soon");
  const Reading& third = rig.follow({.clients = {"198.51.100.1"}});
  d->command("NOOP with a filter");
  rig.settle();
  const std::vector<std::string> all = {"=connect", "<NOOP alone", "<NOOP together", "<NOOP with a filter soon",
                                        "<NOOP with a filter"};
  BOOST_TEST(first.got == all, boost::test_tools::per_element());
  BOOST_TEST(second.got.size() == 3U);
  BOOST_TEST(third.got.empty());
}

BOOST_AUTO_TEST_CASE(unprintable_bytes_are_replaced_wherever_they_are) {
  Rig rig;
  Reading& r = rig.follow();
  const auto d = rig.incoming();
  std::vector<std::string> wanted = {"=connect"};
  for (const std::size_t size : {1U, 7U, 8U, 9U, 16U, 23U})
    for (std::size_t at = 0; at < size; ++at)
      for (const char c : {'\0', '\x1f', ' ', '~', '\x7f', '\x80', '\xff'}) {
        std::string text(size, '~');
        text[at] = c;
        d->mark(text);
        if (c != ' ' && c != '~') text[at] = '?';
        wanted.push_back("=" + text);
      }
  rig.settle();
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_was_said_last_comes_though_its_session_is_gone) {
  Rig rig;
  Reading& r = rig.follow();
  const auto other = rig.incoming();
  {
    const auto d = rig.incoming();
    d->command("QUIT");
  }
  other->command("NOOP");
  rig.settle();
  const std::vector<std::string> wanted = {"=connect", "=connect", "<QUIT", ".end", "<NOOP"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_was_gathered_comes_before_the_word_that_the_program_is_replaced) {
  Rig rig;
  Reading& r = rig.follow();
  const auto d = rig.incoming();
  d->command("NOOP last");
  rig.draining.raise();
  rig.turns();
  BOOST_TEST(has(r, "NOOP last"));
  BOOST_TEST(r.replaced);
}

BOOST_AUTO_TEST_CASE(passwords_are_left_out_in_every_form_of_AUTH) {
  Rig rig;
  Reading& r = rig.follow();
  const auto d = rig.incoming();
  d->command("AUTH PLAIN c2VjcmV0");
  d->reply("535 5.7.8 no\r\n");
  d->command("c2VjcmV0");  // sent ahead, after a refusal
  d->command("AUTH LOGIN");
  d->reply("334 c2VjcmV0\r\n");
  d->response();
  d->reply("235 2.7.0 yes\r\n");
  rig.settle();
  BOOST_TEST(has(r, "<AUTH PLAIN ***"));
  BOOST_TEST(has(r, "235 2.7.0 yes"));
  BOOST_TEST(!has(r, "c2VjcmV0"));
}

BOOST_AUTO_TEST_CASE(a_trace_that_begins_within_a_session_shows_no_secrets_either) {
  Rig rig;
  Reading& r = rig.follow();
  Dialogue in(*rig.hub, Dialogue::Way::in, Begin::midway, "4711-12");
  in.command("c2VjcmV0");
  Dialogue out(*rig.hub, Dialogue::Way::out, Begin::midway, "4711-12");
  out.reply("334 c2VjcmV0\r\n");
  out.command("MAIL FROM:<a@b.example>\r\n");
  rig.settle();
  BOOST_TEST(!has(r, "c2VjcmV0"));
  BOOST_TEST(has(r, "MAIL FROM:<a@b.example>"));
  BOOST_TEST(has(r, "had begun before"));
}

BOOST_AUTO_TEST_CASE(other_clients_sessions_are_not_shown) {
  Rig rig;
  Reading& r = rig.follow({.clients = {"192.0.2.0/24", "named.example"}});
  const auto wanted = rig.incoming("192.0.2.1", "");
  const auto named = rig.incoming("198.51.100.1", "named.example");
  const auto other = rig.incoming("198.51.100.2", "other.example");
  wanted->command("NOOP 1");
  named->command("NOOP 2");
  other->command("NOOP 3");
  rig.settle();
  BOOST_TEST(has(r, "NOOP 1"));
  BOOST_TEST(has(r, "NOOP 2"));
  BOOST_TEST(std::ranges::count(r.got, "=connect") == 2);  // also what was said before the name was known
  BOOST_TEST(!has(r, "NOOP 3"));
}

BOOST_AUTO_TEST_CASE(a_session_that_comes_into_sight_late_shows_no_secrets) {
  Rig rig;
  Reading& r = rig.follow({.clients = {"192.0.2.0/24"}});
  const auto d = rig.incoming("198.51.100.1", "other.example");
  d->command("AUTH PLAIN eA==");
  d->reply("535 5.7.8 no\r\n");
  d->peer("192.0.2.1", "c.example");  // XCLIENT
  d->command("c2VjcmV0");
  d->command("MAIL FROM:<a@b.example>");
  rig.settle();
  const std::vector<std::string> wanted = {"<***", "<MAIL FROM:<a@b.example>"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_session_out_of_sight_is_seen_by_a_reader_that_comes_later) {
  Rig rig;
  Reading& first = rig.follow({.clients = {"192.0.2.1"}});
  const auto d = rig.incoming("198.51.100.1", "other.example");
  d->command("NOOP unseen");
  Reading& second = rig.follow();
  d->command("QUIT");
  d->end("disconnect");
  rig.settle();
  BOOST_TEST(first.got.empty());
  const std::vector<std::string> wanted = {"<QUIT", ".disconnect"};
  BOOST_TEST(second.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_reader_that_comes_after_another_has_its_own_filter) {
  Rig rig;
  const Reading& first = rig.follow();
  Reading& second = rig.follow();
  const auto d = rig.incoming();
  rig.settle();
  second.channel->close();
  rig.settle();
  const Reading& third = rig.follow({.clients = {"198.51.100.1"}});  // at the place of the second
  d->command("NOOP");
  rig.settle();
  BOOST_TEST(has(first, "NOOP"));
  BOOST_TEST(third.got.empty());
}

BOOST_AUTO_TEST_CASE(a_host_is_known_by_what_it_calls_itself) {
  Rig rig;
  Reading& r = rig.follow({.hosts = {"says.example"}});
  const auto d = rig.incoming("198.51.100.1", "c.example");
  d->command("EHLO says.example");
  rig.settle();
  const std::vector<std::string> wanted = {"=connect", "<EHLO says.example"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_message_that_fits_is_shown_with_what_came_before_and_no_other_one) {
  Rig rig;
  Reading& r = rig.follow({.recipients = {"two@b.example"}});
  const auto d = rig.incoming();
  d->command("EHLO c.example");
  Rig::message(*d, "s@a.example", "one@b.example", "ID1");
  Rig::message(*d, "s@a.example", "two@b.example", "ID2");
  Rig::message(*d, "s@a.example", "three@b.example", "ID3");
  d->end("disconnect");
  rig.settle();
  const std::vector<std::string> wanted = {"=connect",
                                           "<EHLO c.example",
                                           "<MAIL FROM:<s@a.example> SIZE=10",
                                           ">250 2.1.0 Ok",
                                           "<RCPT TO:<two@b.example>",
                                           ">250 2.1.5 Ok",
                                           "=content, 10 octets",
                                           ">250 2.0.0 Ok: queued as ID2",
                                           ".disconnect"};
  BOOST_TEST(r.got == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_queue_id_is_found_when_the_session_hears_of_it) {
  Rig rig;
  Reading& r = rig.follow({.domains = {"a.example"}, .queue_ids = {"ID2"}});
  const auto d = rig.incoming();
  Rig::message(*d, "s@a.example", "one@b.example", "ID1");
  BOOST_TEST(r.got.empty());
  Rig::message(*d, "s@a.example", "two@b.example", "ID2");
  rig.settle();
  BOOST_TEST(has(r, "MAIL FROM"));
  BOOST_TEST(has(r, "two@b.example"));
  BOOST_TEST(!has(r, "one@b.example"));
}

BOOST_AUTO_TEST_CASE(a_shared_connection_is_shown_while_a_message_that_fits_is_in_hand) {
  Rig rig;
  Reading& r = rig.follow({.domains = {"b.example"}});
  Dialogue d(*rig.hub, Dialogue::Way::out, Begin::start, "4711-12");
  d.mark("connect to mx");
  d.peer("192.0.2.9", "mx.example");
  const auto send = [&](std::string_view id, std::string_view recipient) {
    d.job_begins(id, "s@a.example", {recipient});
    d.command(fmt::format("MAIL FROM:<s@a.example>\r\nRCPT TO:<{}>\r\n", recipient));
  };
  send("ID1", "x@other.example");
  send("ID2", "y@b.example");  // pipelined behind it
  d.reply("250 for ID1");
  d.job_ends("ID1");
  d.reply("250 for ID2");
  d.job_ends("ID2");
  send("ID3", "z@other.example");
  d.end("end");
  rig.settle();
  BOOST_TEST(has(r, "connect to mx"));
  BOOST_TEST(has(r, "y@b.example"));
  BOOST_TEST(has(r, "250 for ID2"));
  BOOST_TEST(!has(r, "z@other.example"));
  BOOST_TEST(r.got.back() == ".end");
}

BOOST_AUTO_TEST_CASE(few_lines_are_kept_of_a_session_that_may_yet_fit) {
  Rig rig;
  Reading& r = rig.follow({.recipients = {"last@b.example"}});
  const auto d = rig.incoming();
  d->command("MAIL FROM:<s@a.example>");
  for (int i = 0; i < 1000; ++i) d->command(fmt::format("RCPT TO:<user{}@b.example>", i));
  d->command("RCPT TO:<last@b.example>");
  rig.settle();
  BOOST_TEST(r.got.size() <= Dialogue::kKeptLines + 2);
  BOOST_TEST(has(r, "earlier lines were not kept"));
  BOOST_TEST(has(r, "user999@"));
  BOOST_TEST(!has(r, "user1@"));
  BOOST_TEST(r.got.back() == "<RCPT TO:<last@b.example>");
}

BOOST_AUTO_TEST_CASE(what_all_sessions_keep_is_bounded_together) {
  Rig rig({.service = "smtp", .readers = 2, .buffer = 4096});
  Reading& r = rig.follow({.recipients = {"two@b.example"}});
  std::vector<std::unique_ptr<Dialogue>> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back(rig.incoming());
    many.back()->command("EHLO c.example");
  }
  Rig::message(*many.back(), "s@a.example", "two@b.example", "ID");
  rig.settle();
  BOOST_TEST(!has(r, "EHLO"));
  BOOST_TEST(has(r, "were not kept"));
  BOOST_TEST(has(r, "queued as ID"));
  many.clear();  // and the room is free again
  const auto d = rig.incoming();
  d->command("EHLO d.example");
  Rig::message(*d, "s@a.example", "two@b.example", "ID");
  rig.settle();
  BOOST_TEST(has(r, "EHLO d.example"));
}

BOOST_AUTO_TEST_CASE(a_reader_that_stops_loses_lines_and_is_told_how_many) {
  Rig rig({.service = "smtp", .readers = 2, .buffer = 4096});
  Reading& slow = rig.follow({}, false);
  Reading& quick = rig.follow();
  const auto d = rig.incoming();
  const std::string text(500, 'x');
  constexpr int kLines = 5000;  // beyond what the kernel takes
  for (int i = 0; i < kLines; ++i) {
    d->command("NOOP " + text);
    if (i % 5 == 0) rig.settle();
  }
  rig.settle();
  BOOST_TEST(quick.got.size() == kLines + 1U);
  rig.tasks.spawn("reader", read_all(&slow));
  rig.settle();
  std::size_t shown = 0;
  unsigned long long dropped = 0;
  for (const std::string& line : slow.got) {
    if (line.starts_with('!'))
      dropped += std::stoull(line.substr(1));
    else
      ++shown;
  }
  BOOST_TEST(dropped > 0U);
  BOOST_TEST(shown + dropped == kLines + 1U);
  d->command("NOOP again");
  rig.settle();
  BOOST_TEST(slow.got.back() == "<NOOP again");
}

BOOST_AUTO_TEST_CASE(readers_beyond_the_limit_and_wrong_filters_are_refused) {
  Rig rig({.service = "smtp", .readers = 1, .buffer = 4096});
  BOOST_TEST(rig.follow({.recipients = {"nobody"}}).refused.contains("neither an address"));
  Reading& first = rig.follow();
  BOOST_TEST(first.following);
  BOOST_TEST(rig.follow().refused.contains("trace_subscriber_limit"));
  first.channel->close();
  rig.settle();
  BOOST_TEST(!rig.hub->on());
  BOOST_TEST(rig.follow().following);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_replaced_says_so) {
  Rig rig;
  Reading& r = rig.follow();
  rig.draining.raise();
  rig.settle();
  BOOST_TEST(r.replaced);
  BOOST_TEST(r.over);
  BOOST_TEST(!rig.hub->on());
}

BOOST_AUTO_TEST_CASE(lines_that_nobody_saw_make_a_dialogue_stale) {
  Rig rig;
  Reading& r = rig.follow();
  auto d = rig.incoming();
  BOOST_TEST(!d->stale());
  r.channel->close();
  rig.settle();
  const Reading& next = rig.follow();
  BOOST_TEST(d->stale());
  d.reset();
  rig.settle();
  BOOST_TEST(next.got.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::trace
