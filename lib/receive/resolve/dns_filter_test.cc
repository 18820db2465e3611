#include "lib/receive/resolve/dns_filter.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/manual_clock.h"

using namespace pen;
using net::DnsOutcome;
using net::RecordType;

namespace {

net::DnsRecord record(RecordType type, std::string data, std::uint16_t preference = 0) {
  return {.type = type,
          .name = "host.example",
          .ttl = seconds(60),
          .preference = preference,
          .weight = 0,
          .port = 0,
          .data = std::move(data)};
}

struct Filtering {
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  map::Asker tables{loop};

  net::DnsAnswer filter(std::string_view spec, std::vector<net::DnsRecord> records,
                        DnsOutcome outcome = DnsOutcome::found) {
    net::DnsAnswer answer;
    answer.outcome = outcome;
    answer.records = std::move(records);
    auto filter = resolve::DnsFilter::open("smtp_dns_reply_filter", spec, {});
    BOOST_TEST_REQUIRE(filter.has_value());
    auto task = filter->apply(tables, answer);
    async::Gate gate(loop);
    gate.spawn("filter", std::move(task));
    for (int i = 0; i < 100 && gate.size() > 0; ++i) loop.run_once();
    BOOST_TEST_REQUIRE(gate.size() == 0u);
    return answer;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(dns_filter, Filtering)

BOOST_AUTO_TEST_CASE(a_record_is_looked_up_as_owner_ttl_class_type_and_data) {
  BOOST_TEST(resolve::record_text(record(RecordType::mx, "mx.example", 10)) == "host.example. 60 IN MX 10 mx.example.");
  BOOST_TEST(resolve::record_text(record(RecordType::a, "192.0.2.1")) == "host.example. 60 IN A 192.0.2.1");
  BOOST_TEST(resolve::record_text(record(RecordType::aaaa, "2001:db8::1")) == "host.example. 60 IN AAAA 2001:db8::1");
  BOOST_TEST(resolve::record_text(record(RecordType::tlsa, "3 1 1 ab")) == "host.example. 60 IN TLSA 3 1 1 ab");
}

BOOST_AUTO_TEST_CASE(only_ignored_records_are_left_out) {
  const auto answer = filter("inline:{ { host.example. 60 IN A 192.0.2.1 = Ignore } }",
                             {record(RecordType::a, "192.0.2.1"), record(RecordType::a, "192.0.2.2")});
  BOOST_TEST((answer.outcome == DnsOutcome::found));
  BOOST_TEST_REQUIRE(answer.records.size() == 1u);
  BOOST_TEST(answer.records[0].data == "192.0.2.2");
}

BOOST_AUTO_TEST_CASE(nothing_left_is_a_temporary_failure) {
  const auto answer = filter("static:ignore", {record(RecordType::a, "192.0.2.1")});
  BOOST_TEST((answer.outcome == DnsOutcome::temporary));
  BOOST_TEST(answer.records.empty());
  BOOST_TEST(answer.text == "smtp_dns_reply_filter leaves out all records");
}

BOOST_AUTO_TEST_CASE(a_table_that_is_wrong_makes_the_answer_temporary) {
  BOOST_TEST((filter("fail:broken", {record(RecordType::a, "192.0.2.1")}).outcome == DnsOutcome::temporary));
  const auto unknown = filter("static:DROP", {record(RecordType::a, "192.0.2.1")});
  BOOST_TEST((unknown.outcome == DnsOutcome::temporary));
  BOOST_TEST(unknown.text == "smtp_dns_reply_filter: unknown action DROP");
}

BOOST_AUTO_TEST_CASE(what_was_not_found_stays_so) {
  BOOST_TEST((filter("fail:broken", {}, DnsOutcome::no_data).outcome == DnsOutcome::no_data));
}

BOOST_AUTO_TEST_SUITE_END()
