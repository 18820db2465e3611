/// Which messages are in memory, and how much of them.
#include "qmgr/active_set.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Set : PartsFixture {
  ActiveSet active{around};
  Active& add(const std::string& id, const std::string& body = "body\r\n") {
    Active& m = active.add(begun(envelope(id), body));
    scheduler.admit(m.number, {});
    return m;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(active_set, Set)

BOOST_AUTO_TEST_CASE(a_message_is_found_by_number_and_by_id_until_it_goes) {
  Active& m = add("A1");
  const MessageNumber number = m.number;
  BOOST_TEST(active.find(number) == &m);
  BOOST_TEST(active.find("A1") == &m);
  BOOST_TEST(active.size() == 1U);
  BOOST_TEST(active.bytes() > 0U);
  active.remove(m);
  BOOST_TEST(active.find(number) == nullptr);
  BOOST_TEST(active.find("A1") == nullptr);
  BOOST_TEST(active.bytes() == 0U);
  BOOST_TEST(active.body_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(places_that_are_promised_count_as_taken) {
  around.options.active_messages = 2;
  add("A1");
  BOOST_TEST(active.has_room());
  active.promise_place();
  BOOST_TEST(!active.has_room());
  active.give_back_place();
  BOOST_TEST(active.has_room());
  add("A2");
  BOOST_TEST(!active.has_room());
}

BOOST_AUTO_TEST_CASE(large_envelopes_fill_the_set_before_its_number_does) {
  around.options.active_bytes = 1;
  BOOST_TEST(active.has_room());
  add("A1");
  BOOST_TEST(!active.has_room());
}

BOOST_AUTO_TEST_CASE(the_oldest_bodies_beyond_the_bound_are_read_again) {
  around.options.body_bytes = 250;
  const std::string body(100, 'b');
  Active& first = add("A1", body);
  Active& second = add("A2", body);
  add("A3", body);
  BOOST_TEST(active.body_bytes() == 200U);
  BOOST_TEST(first.body.empty());
  BOOST_TEST(!first.body_kept);
  BOOST_TEST(second.body == body);
  BOOST_TEST((active.body_of(first) == body));
}

BOOST_AUTO_TEST_CASE(a_renewed_message_keeps_its_body_in_memory) {
  around.options.body_bytes = 0;
  Active& m = add("A1", "content");
  BOOST_TEST(m.body.empty());
  active.renew(m);
  BOOST_TEST(m.body == "content");
  BOOST_TEST(active.body_bytes() == 7U);
  BOOST_TEST(m.generation == 1U);
  active.remove(m);
  BOOST_TEST(active.body_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
