/// What gives a message its priority, and who may say it.
#include "lib/receive/tenant/priority.h"

#include <boost/test/unit_test.hpp>

#include <string>

namespace pen::tenant {
BOOST_AUTO_TEST_SUITE(priorities)

namespace {

struct Rig {
  config::Settings settings;
  Rig() { settings.message_priority_header = "MT-Priority"; }
  int of(const PriorityClues& clues) {
    const auto priorities = Priorities::open(settings);
    BOOST_REQUIRE_MESSAGE(priorities, (priorities ? "" : priorities.error().message()));
    BOOST_REQUIRE(*priorities != nullptr);
    const auto found = (*priorities)->of(clues);
    BOOST_REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    return found->priority;
  }
  std::string refused() {
    const auto priorities = Priorities::open(settings);
    return priorities ? "" : priorities.error().message();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(without_the_setting_there_are_none) {
  Rig rig;
  const auto none = Priorities::open(rig.settings);
  BOOST_REQUIRE(none);
  BOOST_TEST(*none == nullptr);
}

BOOST_AUTO_TEST_CASE(the_first_that_is_there_counts) {
  Rig rig;
  rig.settings.message_priority = {"mt_priority", "header", "sender", "sender_domain", "tenant"};
  rig.settings.message_priority_maps = {"inline:{ a@one.example=3, @one.example=-2, tenant:acme=5, header:bulk=-6 }"};
  BOOST_TEST(rig.of({.trusted = true}) == 0);
  BOOST_TEST(rig.of({.given = 7, .header = "bulk", .trusted = true}) == 7);
  BOOST_TEST(rig.of({.given = 0, .sender = "a@one.example", .trusted = true}) == 0);
  BOOST_TEST(rig.of({.header = "Bulk", .sender = "a@one.example", .trusted = true}) == -6);
  BOOST_TEST(rig.of({.header = "4 (urgent)", .trusted = true}) == 4);
  BOOST_TEST(rig.of({.header = "first-class", .sender = "A@One.example"}) == 3);
  BOOST_TEST(rig.of({.sender = "b@one.example", .tenant = "acme"}) == -2);
  BOOST_TEST(rig.of({.sender = "b@two.example", .tenant = "acme"}) == 5);
  BOOST_TEST(rig.of({.sender = "b@two.example", .tenant = "other"}) == 0);
}

BOOST_AUTO_TEST_CASE(who_may_not_say_it_can_only_be_less_urgent) {
  Rig rig;
  rig.settings.message_priority = {"mt_priority", "header", "sender"};
  rig.settings.message_priority_maps = {"inline:{ header:now=9, a@one.example=3 }"};
  BOOST_TEST(rig.of({.given = 7}) == 0);
  BOOST_TEST(rig.of({.given = -7}) == -7);
  BOOST_TEST(rig.of({.header = "9"}) == 0);
  BOOST_TEST(rig.of({.header = "now"}) == 0);
  BOOST_TEST(rig.of({.header = "-1"}) == -1);
  BOOST_TEST(rig.of({.sender = "a@one.example"}) == 3);
  const auto priorities = Priorities::open(rig.settings);
  BOOST_REQUIRE(priorities);
  BOOST_TEST((*priorities)->of({.given = 7})->wanted == 7);
}

BOOST_AUTO_TEST_CASE(message_priority_clients_says_who_may) {
  Rig rig;
  rig.settings.message_priority = {"header"};
  rig.settings.message_priority_header = "X-Urgency";
  rig.settings.message_priority_clients = {"192.0.2.0/24"};
  const auto priorities = Priorities::open(rig.settings);
  BOOST_REQUIRE(priorities);
  BOOST_TEST((*priorities)->field() == "X-Urgency");
  BOOST_TEST(!(*priorities)->takes_parameter());
  BOOST_TEST(*(*priorities)->may_say("unknown", "192.0.2.7"));
  BOOST_TEST(!*(*priorities)->may_say("unknown", "198.51.100.7"));
}

BOOST_AUTO_TEST_CASE(mistakes_are_told) {
  Rig rig;
  rig.settings.message_priority = {"shoe_size"};
  BOOST_TEST(rig.refused().contains("message_priority: shoe_size"));
  rig.settings.message_priority = {"header"};
  rig.settings.message_priority_header = "not a name";
  BOOST_TEST(rig.refused().contains("message_priority_header"));
  rig.settings.message_priority = {"sender"};
  rig.settings.message_priority_maps = {"static:10"};
  const auto priorities = Priorities::open(rig.settings);
  BOOST_REQUIRE(priorities);
  const auto found = (*priorities)->of({.sender = "a@one.example"});
  BOOST_REQUIRE(!found);
  BOOST_TEST(found.error().message().contains("not a priority"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::tenant
