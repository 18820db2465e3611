#include "tools/top_view.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"
#include "tools/top_tool.h"

namespace pen::tools {
namespace {

using ipc::destinations::Class;
using ipc::queue::Place;
using Screen = TopState::Screen;

struct Rig {
  TopSnapshot before, now;
  TopState state;
  Rig() {
    before.at = WallTime(seconds(1'800'000'000));
    now.at = before.at + seconds(10);
    before.counts = {{"accepted", 100}, {"finished", 50}, {"queue_syncs", 10}, {"queue_sync.sum", 1000}};
    now.counts = {{"accepted", 600},           {"finished", 75},    {"jobs", 7},
                  {"jobs_in_hand", 3},         {"connections", 12}, {"smtpd_connections", 9},
                  {"smtpd_disconnections", 4}, {"queue_syncs", 30}, {"queue_sync.sum", 101'000}};
    now.survey.looked = now.at;
    auto& deferred = now.survey.places[static_cast<std::size_t>(Place::deferred)];
    deferred = {.messages = 1234, .bytes = 5'000'000, .oldest = now.at - seconds(7200)};
    add("a.example[192.0.2.1]:25", Class::active, 50, 20'000);
    add("b.example[192.0.2.2]:25", Class::failing, 0, 0);
    now.destinations.back().facts.failures = 4;
    now.destinations.back().facts.reason = "connect to b.example[192.0.2.2]:25: Connection refused";
    now.destinations.back().facts.next_retry = now.at + seconds(60);
    add("c.example[192.0.2.3]:25", Class::active, 5, 900'000);
    now.destinations_in_all = 3;
    now.survey.oldest.push_back({.queue_id = "4jYB",
                                 .sender = "ada@a.example",
                                 .domains = "b.example",
                                 .arrival = now.at - seconds(7200),
                                 .next_try = now.at + seconds(60),
                                 .size = 629});
  }
  void add(const std::string& shown, Class c, std::uint64_t jobs, int takes) {
    views::Seen d;
    d.entry.key = d.entry.shown = shown;
    d.entry.classification = c;
    d.entry.in_hand = jobs;
    d.entry.transport = "smtp";
    d.facts.service_time = microseconds(takes);
    d.live = true;
    now.destinations.push_back(d);
  }
  void press(int key) { state.key(key, now); }
  void press(TopKey key) { state.key(static_cast<int>(key), now); }
  std::vector<std::string> lines(TopSize size = {.width = 200, .height = 0}) const {
    std::vector<std::string> out;
    for (const TopLine& line : draw(before, now, state, size)) out.push_back(plain_text(line));
    return out;
  }
  std::string text(TopSize size = {.width = 200, .height = 0}) const {
    std::string out;
    for (const auto& line : lines(size)) out += line + "\n";
    return out;
  }
  std::string first() const { return shown_destinations(now, state).at(0)->entry.shown; }
};

BOOST_AUTO_TEST_SUITE(top_view)

BOOST_AUTO_TEST_CASE(rates_are_of_the_interval_and_never_of_a_restart) {
  Rig rig;
  BOOST_TEST(rate(rig.before, rig.now, "accepted") == 50.0);
  BOOST_TEST(rate(rig.before, rig.now, "nothing") == 0.0);
  BOOST_TEST(mean(rig.before, rig.now, "queue_sync.sum", "queue_syncs") == 0.005);
  rig.now.counts["accepted"] = 3;
  BOOST_TEST(rate(rig.before, rig.now, "accepted") == 0.0);
  BOOST_TEST(mean(rig.before, rig.before, "queue_sync.sum", "queue_syncs") < 0);
}

BOOST_AUTO_TEST_CASE(the_first_screen_has_rates_queue_and_destinations_with_their_reasons) {
  const Rig rig;
  const std::string text = rig.text();
  for (const char* part :
       {"in 50/s", "out 2.5/s", "sessions in 5", "out 12", "jobs 7, 3 in hand", "sync 5.0ms", "deferred        1234",
        "2.0h", "a.example[192.0.2.1]:25", "Connection refused", "in 60s", "3 of 3 destinations"})
    BOOST_TEST(text.contains(part), part << " in\n" << text);
}

BOOST_AUTO_TEST_CASE(a_provider_that_rests_or_has_a_line_says_so) {
  Rig rig;
  rig.add("mx1.big.example[192.0.2.1]:25", Class::closed, 0, 0);
  auto& limits = rig.now.destinations.back().entry.limits;
  limits.emplace_back().group = "big";
  limits.back().rate = "10/m";
  limits.back().waiting = 4;
  limits.emplace_back().group = "big";
  limits.back().domain = "a.example";
  limits.back().held = seconds(60);  // of one sender
  limits.back().waiting = 3;
  BOOST_TEST(rig.text().contains("at most 10/m, 7 jobs wait at limits"));
  limits.front().held = milliseconds(59'100);
  BOOST_TEST(rig.text().contains("rests for 60 s"));
}

BOOST_AUTO_TEST_CASE(destinations_are_sorted_and_filtered_by_keys) {
  Rig rig;
  BOOST_TEST(rig.first() == "a.example[192.0.2.1]:25");
  rig.press('s');
  BOOST_TEST(rig.first() == "c.example[192.0.2.3]:25");
  rig.press('f');
  BOOST_TEST(rig.first() == "b.example[192.0.2.2]:25");
  rig.press('t');
  BOOST_TEST(rig.first() == "b.example[192.0.2.2]:25");
  rig.press('n');
  BOOST_TEST(rig.first() == "a.example[192.0.2.1]:25");
  rig.press('/');
  for (const char c : std::string_view("REFUSEDx")) rig.press(c);
  rig.press(TopKey::backspace);
  BOOST_TEST(rig.state.typing);
  rig.press(TopKey::enter);
  BOOST_TEST(shown_destinations(rig.now, rig.state).size() == 1U);
  BOOST_TEST(rig.first() == "b.example[192.0.2.2]:25");
  rig.press(TopKey::escape);
  BOOST_TEST(shown_destinations(rig.now, rig.state).size() == 3U);
}

BOOST_AUTO_TEST_CASE(enter_shows_everything_about_one_and_escape_goes_back) {
  Rig rig;
  rig.press('f');
  rig.press(TopKey::enter);
  BOOST_CHECK(rig.state.screen == Screen::destination);
  BOOST_TEST(rig.text().contains("failures in a row"));
  BOOST_TEST(rig.text().contains("Connection refused"));
  rig.press(TopKey::escape);
  rig.press('m');
  BOOST_TEST(rig.text().contains("4jYB"));
  rig.press(TopKey::enter);
  BOOST_CHECK(rig.state.screen == Screen::message);
  BOOST_TEST(rig.state.wants_detail);
  BOOST_TEST(rig.state.subject == "4jYB");
  rig.state.detail = "4jYB\n  It waits.\n";
  BOOST_TEST(rig.text().contains("It waits."));
  rig.press(TopKey::escape);
  BOOST_CHECK(rig.state.screen == Screen::messages);
  rig.press('?');
  BOOST_TEST(rig.text().contains("slowest first"));
  rig.press('q');
  BOOST_TEST(!rig.state.quit);
  rig.press('q');
  BOOST_TEST(rig.state.quit);
}

BOOST_AUTO_TEST_CASE(a_destination_that_is_gone_is_said_to_be) {
  Rig rig;
  rig.press(TopKey::enter);
  rig.now.destinations.clear();
  BOOST_TEST(rig.text().contains("not among"));
  rig.press(TopKey::escape);
  rig.press(TopKey::enter);  // nothing to choose
  BOOST_CHECK(rig.state.screen == Screen::destinations);
}

BOOST_AUTO_TEST_CASE(every_size_is_kept_to) {
  Rig rig;
  rig.now.classes.push_back({.mask = "192.0.2.0/24", .total = 10, .refuse = 8, .incoming = 9, .outgoing = 1});
  for (int i = 0; i < 300; ++i) rig.add("host" + std::to_string(i) + ".example[192.0.2.9]:25", Class::idle, 1, 1);
  for (const Screen screen :
       {Screen::destinations, Screen::messages, Screen::destination, Screen::message, Screen::help}) {
    rig.state.screen = screen;
    rig.state.subject = rig.now.destinations[0].entry.key;
    for (const std::size_t width : {40U, 59U, 80U, 132U, 300U})
      for (const std::size_t height : {10U, 19U, 24U, 60U}) {
        const auto lines = rig.lines({.width = width, .height = height});
        BOOST_TEST(lines.size() <= height);
        for (const auto& line : lines) BOOST_TEST(line.size() <= width);
      }
  }
}

BOOST_AUTO_TEST_CASE(the_chosen_line_is_always_on_the_screen) {
  Rig rig;
  for (int i = 0; i < 100; ++i) rig.add("host" + std::to_string(i) + ".example", Class::idle, 1, 1);
  const auto chosen = [&] {
    for (const TopLine& line : draw(rig.before, rig.now, rig.state, {.width = 80, .height = 24}))
      for (const TopSpan& span : line)
        if (span.style == TopStyle::chosen) return span.text;
    return std::string();
  };
  rig.press('n');
  BOOST_TEST(chosen().contains("a.example"));
  rig.press(TopKey::end);
  BOOST_TEST(chosen().contains("host99.example"));
  rig.press(TopKey::page_up);
  BOOST_TEST(!chosen().empty());
  rig.press(TopKey::home);
  BOOST_TEST(chosen().contains("a.example"));
}

BOOST_AUTO_TEST_CASE(what_comes_from_outside_cannot_write_to_the_terminal) {
  Rig rig;
  rig.now.destinations[1].facts.reason = "evil \x1b[2J\r\n text";
  rig.now.survey.oldest[0].sender = "\x1b]0;x\x07@a.example";
  for (const Screen screen : {Screen::destinations, Screen::messages}) {
    rig.state.screen = screen;
    for (const char c : rig.text()) BOOST_TEST((c == '\n' || (c >= 32 && c < 127)));
  }
}

BOOST_AUTO_TEST_CASE(what_could_not_be_asked_is_said) {
  Rig rig;
  rig.now.problem = "connect: Connection refused";
  rig.now.pages_problem = "/proc/1/fd/3: Permission denied";
  rig.now.survey.looked = {};
  const std::string text = rig.text();
  BOOST_TEST(text.contains("no answer: connect: Connection refused"));
  BOOST_TEST(text.contains("no counters: /proc/1/fd/3"));
  BOOST_TEST(text.contains("being looked through"));
}

BOOST_AUTO_TEST_CASE(options_of_the_command) {
  const auto o = read_options<TopTool>({"--once", "-d", "1", "--sort", "slowest", "--filter", "x", "--messages"});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->batch == 1);
  BOOST_CHECK(o->state.sort == TopState::Sort::slowest);
  BOOST_CHECK(o->state.screen == Screen::messages);
  BOOST_TEST(refusal<TopTool>({"--sort", "odd"}).contains("no order"));
  BOOST_TEST(refusal<TopTool>({"x"}).contains("unexpected"));
  BOOST_TEST(refusal<TopTool>({"--once", "--batch", "3"}).contains("--batch 1"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
