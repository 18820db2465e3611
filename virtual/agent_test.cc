#include "virtual/agent.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::virtuals;

namespace {
struct Setup {
  Setup() {
    rules.base = "/var/vmail";
    rules.delimiters = "+";
    rules.mailboxes = open(
        "inline:{ { bob@example.org = example.org/bob/ }, { old@example.org = old }, "
        "{ @catch.example = all/ } }");
    rules.uids = open("static:5000");
    rules.gids = open("static:5001");
  }
  static map::MapList open(const char* value) {
    auto list = map::MapList::open(value);
    BOOST_REQUIRE(list);
    return *std::move(list);
  }
  Rules rules;
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(virtual_place, Setup)

BOOST_AUTO_TEST_CASE(a_value_with_a_final_slash_is_a_maildir_and_without_an_mbox) {
  auto place = find_place(rules, "Bob@Example.org");
  BOOST_REQUIRE(place);
  BOOST_TEST((place->target.form == mailbox::Form::maildir));
  BOOST_TEST(place->target.path == "example.org/bob/");
  BOOST_TEST(place->identity.uid == 5000U);
  BOOST_TEST(place->identity.gid == 5001U);
  place = find_place(rules, "old@example.org");
  BOOST_REQUIRE(place);
  BOOST_TEST((place->target.form == mailbox::Form::mbox));
}

BOOST_AUTO_TEST_CASE(virtual_mailbox_limit_and_virtual_mailbox_lock_hold_for_every_mailbox) {
  rules.mailbox_limit = 12345;
  rules.lock = *mailbox::parse_lock_rules("flock");
  for (const char* address : {"bob@example.org", "old@example.org", "anyone@catch.example"}) {
    const auto place = find_place(rules, address);
    BOOST_REQUIRE(place);
    BOOST_TEST(place->target.size_limit == 12345U);
    BOOST_TEST(place->target.lock.flock);
    BOOST_TEST(!place->target.lock.dotlock);
  }
}

BOOST_AUTO_TEST_CASE(extensions_and_whole_domains_are_looked_up) {
  BOOST_TEST(find_place(rules, "bob+news@example.org")->target.path == "example.org/bob/");
  BOOST_TEST(find_place(rules, "anyone@catch.example")->target.path == "all/");
}

BOOST_AUTO_TEST_CASE(an_unknown_user_fails_for_good) {
  const auto place = find_place(rules, "eve@example.org");
  BOOST_REQUIRE(!place);
  BOOST_TEST(place.error().dsn == "5.1.1");
  BOOST_TEST((place.error().action == mail::Action::failed));
}

BOOST_AUTO_TEST_CASE(what_an_administrator_must_repair_is_deferred) {
  rules.uids = open("inline:{ x@y = 1 }");
  BOOST_TEST((find_place(rules, "bob@example.org").error().action == mail::Action::deferred));
  rules.uids = open("static:many");
  BOOST_TEST((find_place(rules, "bob@example.org").error().action == mail::Action::deferred));
  rules.uids = open("static:50");
  BOOST_TEST((find_place(rules, "bob@example.org").error().action == mail::Action::deferred));
  rules.uids = open("static:5000");
  rules.mailboxes = open("fail:x");
  BOOST_TEST((find_place(rules, "bob@example.org").error().action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_path_that_leads_out_of_the_base_is_deferred_with_the_reason) {
  for (const char* path : {"../x/", "a/../../x", "a/..", ".."}) {
    rules.mailboxes = open((std::string("static:") + path).c_str());
    const auto place = find_place(rules, "bob@example.org");
    BOOST_REQUIRE(!place);
    BOOST_TEST((place.error().action == mail::Action::deferred));
    BOOST_TEST(place.error().text.contains("below virtual_mailbox_base"), place.error().text);
  }
  rules.mailboxes = open("static:a..b/..c/");
  BOOST_TEST(find_place(rules, "bob@example.org").has_value());
}

BOOST_AUTO_TEST_CASE(nothing_is_delivered_as_root_even_if_the_settings_say_so) {
  rules.minimum_uid = 0;
  rules.uids = open("static:0");
  BOOST_TEST((find_place(rules, "bob@example.org").error().action == mail::Action::deferred));
}

BOOST_AUTO_TEST_SUITE_END()
