#include "tools/order_tool.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using ipc::queue::Verb;
using Ids = std::vector<std::string>;
constexpr const char* kOne = "4bGNsx3Ynxz1kGz8";
constexpr const char* kTwo = "4bGNsx3Ynxz1kGz9";

BOOST_AUTO_TEST_SUITE(order_tool)

BOOST_AUTO_TEST_CASE(orders_are_those_of_the_command_line_in_its_order) {
  const auto o = read_options<OrderTool>({"-r", kOne, "-h", "ALL", "-r", kTwo, "-d", "-"});
  BOOST_REQUIRE(o);
  BOOST_REQUIRE(o->orders.size() == 4U);
  BOOST_CHECK(o->orders[0].verb == Verb::requeue && o->orders[0].ids == Ids{kOne});
  BOOST_CHECK(o->orders[1].verb == Verb::hold && o->orders[1].all);
  BOOST_CHECK(o->orders[2].verb == Verb::requeue && o->orders[2].ids == Ids{kTwo});
  BOOST_CHECK(o->orders[3].verb == Verb::remove && o->orders[3].input);
}

BOOST_AUTO_TEST_CASE(ids_one_after_the_other_for_one_verb_are_one_order) {
  const auto o = read_options<OrderTool>({"-d", kOne, "-d", kTwo, "-f", kOne});
  BOOST_REQUIRE(o);
  BOOST_REQUIRE(o->orders.size() == 2U);
  BOOST_CHECK((o->orders[0].ids == Ids{kOne, kTwo}));
  BOOST_CHECK(o->orders[1].verb == Verb::expire_release);
}

BOOST_AUTO_TEST_CASE(what_chooses_messages_goes_with_every_order) {
  const auto o = read_options<OrderTool>({"-nv", "-e", "ALL", "--sender", "MAILER-DAEMON", "--older=2h", "deferred"});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->dry_run);
  BOOST_TEST(o->verbose);
  BOOST_TEST(o->filter.sender == "<>");
  BOOST_CHECK(o->filter.older == minutes(120));
  BOOST_TEST(o->filter.places == ipc::queue::bit_of(ipc::queue::Place::deferred));
}

BOOST_AUTO_TEST_CASE(what_tidies_the_files_of_another_queue_needs_nothing) {
  const auto tidies = [](std::initializer_list<const char*> words) {
    const auto o = read_options<OrderTool>(words);
    BOOST_REQUIRE(o);
    BOOST_TEST(o->tidy);
    BOOST_TEST(OrderTool(*o).run() == 0);
  };
  for (const char* option : {"-p", "-s", "-S"}) tidies({option, "active"});
  tidies({});
  tidies({"deferred"});
  const auto both = read_options<OrderTool>({"-s", "-d", "ALL"});
  BOOST_REQUIRE(both);
  BOOST_TEST(both->orders.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_word_that_is_no_id_is_skipped_and_the_others_are_orders) {
  const auto o = read_options<OrderTool>({"-d", "../etc", "-d", kOne, "-h", "4A*"});
  BOOST_REQUIRE(o);
  Ids ids;
  for (const auto& order : o->orders) ids.insert(ids.end(), order.ids.begin(), order.ids.end());
  BOOST_TEST(ids == Ids{kOne}, boost::test_tools::per_element());
  BOOST_CHECK(std::ranges::none_of(o->orders, &OrderTool::Order::all));
  BOOST_CHECK(o->orders.back().verb == Verb::hold);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
  const auto refused = [](std::initializer_list<const char*> words, const char* why) {
    const std::string text = refusal<OrderTool>(words);
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refused({"-d", "ALL", "spam"}, "not a queue: spam");
  refused({"--sender", "a@example.com"}, "say what to do");
  refused({"-n"}, "say what to do");
  refused({"-h", "ALL", "maildrop"}, "can be deleted (-d) and nothing else");
  // A condition for "no domain" would select every message.
  refused({"-d", "ALL", "--domain", "@"}, "an empty condition chooses nothing");
}

BOOST_AUTO_TEST_CASE(ids_of_the_input_are_taken_in_requests_of_bounded_size) {
  std::string text = "\n no-id \n";
  for (std::size_t i = 0; i < ipc::queue::kMaxIds + 1; ++i) text += std::string(kOne) + " \r\n";
  std::istringstream input(text);
  BOOST_TEST(OrderTool::read_ids(input).size() == ipc::queue::kMaxIds);
  BOOST_TEST(OrderTool::read_ids(input) == Ids{kOne}, boost::test_tools::per_element());
  BOOST_TEST(OrderTool::read_ids(input).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
