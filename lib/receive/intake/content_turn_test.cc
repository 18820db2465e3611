#include "lib/receive/intake/content_turn.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "lib/base/async/testing/run.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::intake {
BOOST_AUTO_TEST_SUITE(content_turn)

namespace {

struct Fixture {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  testing::ScratchDir dir;
  std::thread::id asked_in;
  std::shared_ptr<const CheckTables> tables;

  /// Returns the number of pieces in which the content was fed; asked_in then has the threads that scanned it.
  int feed(const std::string& rules, const std::string& message) {
    CheckTables::Specs specs;
    specs.header = specs.body = "regexp:" + dir.write("rules", rules);
    specs.body_size_limit = 0;
    auto opened = CheckTables::open(specs);
    BOOST_REQUIRE(opened);
    tables = *opened;
    asked_in = {};
    Checks checks(tables, Checks::Side::receiving,
                  {.note = [this](const auto&) { asked_in = std::this_thread::get_id(); }, .warn = {}});
    ContentOptions options;
    options.checks = &checks;
    ContentBuilder content(std::move(options));
    return async::testing::run(loop, feed_all(content, message + "\r\n.\r\n"));
  }
  async::Task<int> feed_all(ContentBuilder& content, std::string text) {
    if (slow) content.found_slow();
    ContentTurn turn(loop, pool, content);
    mail::DataScanner scanner;
    int pieces = 0;
    for (std::string_view rest = text; !scanner.done(); ++pieces) rest.remove_prefix(co_await turn.feed(scanner, rest));
    BOOST_TEST(content.finish().size == text.size() - 3);
    co_return pieces;
  }
  async::Task<void> count_turns(const bool* over, int* turns) {
    for (; !*over; ++*turns) co_await loop.yield();
  }
  bool slow = false;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_short_field_is_looked_at_here_and_a_long_one_elsewhere) {
  const auto here = std::this_thread::get_id();
  feed("/^Subject:/ WARN\n", "Subject: short\r\n\r\nbody");
  BOOST_TEST((asked_in == here));
  feed("/^Subject:/ WARN\n", "Subject: " + std::string(20'000, 'x') + "\r\n\r\nbody");
  BOOST_TEST((asked_in != here && asked_in != std::thread::id()));
}

BOOST_AUTO_TEST_CASE(content_is_looked_at_elsewhere_after_it_was_found_slow) {
  slow = true;
  feed("/body/ WARN\n", "Subject: short\r\n\r\nbody");
  BOOST_TEST((asked_in != std::this_thread::get_id() && asked_in != std::thread::id()));
}

BOOST_AUTO_TEST_CASE(others_have_their_turns_while_a_large_message_is_looked_at) {
  std::string message = "Subject: x\r\n\r\n";
  while (message.size() < 4'000'000) message += "some text that no rule says anything of\r\n";
  bool over = false;
  int turns = 0;
  loop.spawn("others", count_turns(&over, &turns));
  const int pieces = feed("/literal/ WARN\n/[0-9]{3}/ WARN\n", message);
  over = true;
  loop.run();
  BOOST_TEST(pieces > 100);  // the clock decides how many
  BOOST_TEST(turns > 5);
}

BOOST_AUTO_TEST_CASE(content_that_nobody_looks_at_is_taken_whole) {
  ContentBuilder content(ContentOptions{});
  BOOST_TEST(async::testing::run(
                 loop, feed_all(content, "Subject: x\r\n\r\n" + std::string(200'000, 'x') + "\r\n.\r\n")) == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::intake
