#include "penevents/accounting.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

namespace pen::penevents {
namespace {

using events::Event;
using events::Field;
using events::Type;

std::optional<std::string> row_of(const Event& event) {
  std::string blob;
  event.append_to(blob);
  std::string_view rest = blob;
  return accounting_line(events::next(rest).value());
}

const WallTime kTime{seconds(1'764'206'424)};

BOOST_AUTO_TEST_SUITE(accounting)

BOOST_AUTO_TEST_CASE(a_delivery_has_the_columns_of_the_header) {
  const auto row = row_of(Event(Type::delivered, kTime)
                              .text(Field::from, "a@x.example")
                              .text(Field::to, "b@y.example")
                              .number(Field::size, 1000)
                              .time(Field::arrival, kTime - seconds(5))
                              .text(Field::nexthop, "[192.0.2.1]:25")
                              .text(Field::relay, "mx.y.example[192.0.2.1]:25")
                              .text(Field::source_address, "192.0.2.9")
                              .text(Field::source, "bulk-1")
                              .text(Field::client_address, "192.0.2.7")
                              .text(Field::dsn, "2.0.0")
                              .text(Field::reply, "250 Ok")
                              .text(Field::envid, "e1"));
  BOOST_REQUIRE(row);
  BOOST_TEST(*row ==
             "d,2025-11-27 01:20:24+0000,2025-11-27 01:20:19+0000,a@x.example,b@y.example,,relayed,2.0.0,250 Ok,"
             "mx.y.example (192.0.2.1),,smtp,192.0.2.7,smtp,192.0.2.9,192.0.2.1,,1000,bulk-1,,e1,y.example,\n");
  BOOST_TEST(std::ranges::count(*row, ',') == std::ranges::count(accounting_header(), ','));
}

BOOST_AUTO_TEST_CASE(a_bounce_that_another_host_has_sent_back_is_a_remote_one) {
  const auto row = row_of(Event(Type::returned, kTime)
                              .text(Field::from, "list@x.example")
                              .text(Field::to, "b@y.example")
                              .text(Field::client_address, "192.0.2.7")
                              .text(Field::envid, "e1")
                              .text(Field::dsn, "5.2.2")
                              .text(Field::status, "failed")
                              .text(Field::reply, "552 full")
                              .text(Field::remote_mta, "inner.y.example"));
  BOOST_REQUIRE(row);
  BOOST_TEST(*row ==
             "rb,2025-11-27 01:20:24+0000,,list@x.example,b@y.example,,failed,5.2.2,552 full,inner.y.example,"
             "quota-issues,smtp,192.0.2.7,,,,,,,,e1,y.example,\n");
  BOOST_TEST(std::ranges::count(*row, ',') == std::ranges::count(accounting_header(), ','));
  BOOST_TEST(!row_of(Event(Type::returned, kTime).text(Field::to, "b@y.example").text(Field::status, "delayed")));
}

BOOST_AUTO_TEST_CASE(a_deferral_is_a_transient_row_each_time) {
  const auto row = row_of(Event(Type::deferred, kTime)
                              .text(Field::from, "a@x.example")
                              .text(Field::to, "b@y.example")
                              .text(Field::relay, "mx.y.example[192.0.2.1]:25")
                              .text(Field::dsn, "4.2.2")
                              .text(Field::reply, "452 full"));
  BOOST_REQUIRE(row);
  BOOST_TEST(row->starts_with("t,"));
  BOOST_TEST(row->contains(",b@y.example,,delayed,4.2.2,452 full,mx.y.example (192.0.2.1),quota-issues,"));
  BOOST_TEST(std::ranges::count(*row, ',') == std::ranges::count(accounting_header(), ','));
}

BOOST_AUTO_TEST_CASE(values_with_commas_quotes_and_line_ends_are_quoted) {
  const auto row = row_of(Event(Type::bounced, kTime)
                              .text(Field::to, "\"a,b\"@y.example")
                              .text(Field::dsn, "5.1.1")
                              .text(Field::reply, "550 no\r\nsuch\tuser"));
  BOOST_REQUIRE(row);
  BOOST_TEST(row->contains(",\"\"\"a,b\"\"@y.example\","));
  BOOST_TEST(row->contains(",5.1.1,\"550 no  such user\",,bad-mailbox,local,"));
  BOOST_TEST(std::ranges::count(*row, '\n') == 1);
}

BOOST_AUTO_TEST_CASE(a_recipient_whose_message_expired_is_a_bounce) {
  const auto row = row_of(Event(Type::bounced, kTime)
                              .text(Field::from, "a@x.example")
                              .text(Field::to, "b@y.example")
                              .text(Field::relay, "none")
                              .text(Field::dsn, "4.4.7")
                              .text(Field::status, "expired")
                              .text(Field::reply, "452 full"));
  BOOST_REQUIRE(row);
  BOOST_TEST(row->starts_with("b,"));
  BOOST_TEST(row->contains(",b@y.example,,failed,4.4.7,452 full,,message-expired,"));
}

BOOST_AUTO_TEST_CASE(other_events_have_no_row) {
  BOOST_TEST(!row_of(Event(Type::expired, kTime)));  // of a message: each recipient has its own
  BOOST_TEST(!row_of(Event(Type::received, kTime)));
}

BOOST_AUTO_TEST_CASE(bounces_have_categories) {
  BOOST_TEST(bounce_category("5.2.2") == "quota-issues");
  BOOST_TEST(bounce_category("5.7.26") == "policy-related");
  BOOST_TEST(bounce_category("5.6.9") == "content-related");
  BOOST_TEST(bounce_category("5.0.0") == "other");
  BOOST_TEST(bounce_category("") == "other");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
