#include "tools/queue_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/queue_listing.h"
#include "tools/read_options.h"

namespace pen::tools {
namespace {

using Action = QueueTool::Action;
constexpr const char* kId = "4bGNsx3Ynxz1kGz8";

BOOST_AUTO_TEST_SUITE(queue_tool)

BOOST_AUTO_TEST_CASE(a_listing_is_of_messages_queues_and_choices) {
  const auto o = read_options<QueueTool>({"-p", kId, "deferred", "--reply", "busy"});
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->action == Action::list);
  BOOST_TEST(o->wanted.queue_ids == std::vector<std::string>{kId}, boost::test_tools::per_element());
  BOOST_TEST(o->wanted.filter.reply == "busy");
  BOOST_TEST(o->wanted.filter.places == ipc::queue::bit_of(ipc::queue::Place::deferred));
  BOOST_CHECK(read_options<QueueTool>({"-jv", "-c", "etc"})->action == Action::json);
}

BOOST_AUTO_TEST_CASE(called_mailq_it_lists_and_with_q_flushes) {
  const char* const argv[] = {"/usr/bin/mailq", "-C", "etc", "-v"};
  const auto o = QueueTool::read(4, argv);
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->action == Action::list);
  BOOST_TEST(o->directory == "etc");
  const char* const flush[] = {"mailq", "-q"};
  BOOST_CHECK(QueueTool::read(2, flush)->action == Action::flush);
  const char* const taken[] = {"mailq", "-Ac", "-OQueueDirectory=/x", "-i"};
  BOOST_CHECK(QueueTool::read(4, taken)->action == Action::list);
  const char* const unknown[] = {"mailq", "-f"};
  BOOST_TEST(QueueTool::read(2, unknown).error().text == "mailq: no such option: -f; see mailq --help\n");
}

BOOST_AUTO_TEST_CASE(messages_are_tried_by_id_by_site_or_all) {
  BOOST_CHECK(read_options<QueueTool>({"-f"})->action == Action::flush);
  BOOST_TEST(read_options<QueueTool>({"-i", kId})->target == kId);
  BOOST_TEST(read_options<QueueTool>({"-s", "@example.com"})->target == "example.com");
  BOOST_TEST(read_options<QueueTool>({"--log", "a", "b"})->paths.size() == 2U);
}

BOOST_AUTO_TEST_CASE(files_of_the_spool_are_listed_by_number_or_message) {
  const auto all = read_options<QueueTool>({"--spool", "-j"});
  BOOST_REQUIRE(all);
  BOOST_TEST((all->spool && all->files.all()));
  BOOST_TEST(!read_options<QueueTool>({"--spool", "17", kId})->files.all());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
  const auto refused = [](std::initializer_list<const char*> words, const char* why) {
    const std::string text = refusal<QueueTool>(words);
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refused({}, "usage: penqueue");
  refused({"-f", "word"}, "usage: penqueue");
  refused({"-f", "--domain", "example.com"}, "usage: penqueue");
  refused({"--log", "--domain", "example.com"}, "usage: penqueue");
  refused({"--spool", "no.id"}, "neither a file of the spool nor a queue id: no.id");
  refused({"--spool", "-f"}, "--spool goes with -p or -j");
  refused({"--spool", "--domain", "example.com"}, "--spool goes with -p or -j");
  refused({"-p", "-f"}, "only one of -p, -j, -f, -i, -s, --log");
  refused({"-p", "no.id"}, "neither a queue id nor a queue: no.id");
  refused({"-i", "no.id"}, "not a queue id: no.id");
  refused({"-s", "a..b"}, "not a destination: a..b");
}

BOOST_AUTO_TEST_CASE(a_site_is_a_domain_or_a_host_in_brackets) {
  for (const char* site : {"example.com", "@example.com", "[192.0.2.1]", "[mx.example.com]:25", "[IPv6:2001:db8::1]",
                           "a_b", "b\xC3\xBC.example"})
    BOOST_TEST(QueueTool::is_site(site), site);
  for (const char* site : {"", "@", "[]", "[a", "[a]x", "[a]:", ".com", "a..b", "a b", "a:25", "a/b"})
    BOOST_TEST(!QueueTool::is_site(site), site);
}

BOOST_AUTO_TEST_CASE(the_day_of_a_month_has_a_blank_in_front_as_in_postfix) {
  ipc::queue::Entry entry;
  entry.arrival = WallTime(seconds(1796497200));  // 5 December 2026, 19:00 UTC
  BOOST_TEST(mailq_line(entry).find(" Dec  ") != std::string::npos, mailq_line(entry));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
