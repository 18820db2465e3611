/// What waits for the disk is called when it is durable, in order, and not earlier.
#include "qmgr/acknowledgements.h"

#include "qmgr/parts_fixture.h"

namespace pen::qmgr {
namespace {

struct Waiting : PartsFixture {
  Acknowledgements acknowledgements{*log};
  std::string called;
  void wait(queue_log::Ticket ticket, char name) {
    acknowledgements.when_durable(ticket, [this, name] { called += name; });
  }
  queue_log::Ticket append(const std::string& id) {
    queue_log::Envelope e;
    e.queue_id = id;
    e.sender = "s@x.example";
    e.remaining.add(0);
    e.payload = "x";
    const auto appended = log->append(e);
    BOOST_REQUIRE(appended.has_value());
    return appended->ticket;
  }
  void call_all() {
    while (acknowledgements.call_next()) {
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(acknowledgements, Waiting)

BOOST_AUTO_TEST_CASE(nothing_is_called_before_its_record_is_durable) {
  wait(append("A1"), 'a');
  BOOST_TEST(!acknowledgements.due());
  call_all();
  BOOST_TEST(called.empty());
  sync();
  BOOST_TEST(acknowledgements.due());
  call_all();
  BOOST_TEST(called == "a");
  BOOST_TEST(!acknowledgements.due());
}

BOOST_AUTO_TEST_CASE(calls_come_in_the_order_in_which_they_were_asked_for) {
  const auto first = append("A1");
  const auto second = append("A2");
  wait(second, 'b');
  wait(first, 'a');  // durable earlier, and asked for later
  sync();
  call_all();
  BOOST_TEST(called == "ba");
}

BOOST_AUTO_TEST_CASE(what_is_durable_already_is_not_called_at_once) {
  const auto ticket = append("A1");
  sync();
  wait(ticket, 'a');
  BOOST_TEST(called.empty());
  call_all();
  BOOST_TEST(called == "a");
}

BOOST_AUTO_TEST_CASE(a_call_may_ask_for_another) {
  const auto ticket = append("A1");
  acknowledgements.when_durable(ticket, [this, ticket] { wait(ticket, 'b'); });
  sync();
  call_all();
  BOOST_TEST(called == "b");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
