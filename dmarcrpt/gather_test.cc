#include "dmarcrpt/gather.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::dmarcrpt;

namespace {

WallTime at(std::int64_t day) { return WallTime(std::chrono::days(day)); }
ipc::dmarc_report::Result result(const std::string& domain, const std::string& address = "192.0.2.1") {
  ipc::dmarc_report::Result out;
  out.published = {.domain = domain, .policy = "none", .subdomains = {}, .missing = {}};
  out.facts.source_ip = address;
  out.facts.header_from = "a.example";
  out.facts.signatures = {{"a.example", "s1", "pass"}};
  return out;
}
using Gathered = daily_reports::Days<DomainDay>;

}  // namespace

BOOST_AUTO_TEST_SUITE(dmarcrpt_gather)

BOOST_AUTO_TEST_CASE(equal_messages_are_one_row_of_the_domain_and_day) {
  Gathered days(1);
  BOOST_TEST(add(days, result("A.example"), at(5)));
  BOOST_TEST(add(days, result("a.example"), at(5)));
  BOOST_TEST(add(days, result("a.example", "192.0.2.2"), at(5)));
  BOOST_TEST(add(days, result("a.example"), at(6)));
  const DomainDay* day = days.find(5, "a.example");
  BOOST_REQUIRE(day != nullptr);
  BOOST_REQUIRE(day->rows.size() == 2u);
  BOOST_TEST(day->rows[0].count + day->rows[1].count == 3u);
  BOOST_TEST(days.find(6, "a.example")->rows[0].count == 1u);
}

BOOST_AUTO_TEST_CASE(a_day_of_refused_mail_is_worth_no_report) {
  Gathered days(1);
  auto refused = result("a.example");
  refused.facts.disposition = "reject";
  // More kinds than there are rows.
  for (std::size_t i = 0; i < kMaxRows + 2; ++i) {
    refused.facts.source_ip = std::to_string(i);
    add(days, refused, at(5));
  }
  BOOST_TEST(!takes_mail(*days.find(5, "a.example")));
  auto taken = result("a.example", "192.0.2.9");
  taken.facts.disposition = "none";
  add(days, taken, at(5));
  BOOST_TEST(takes_mail(*days.find(5, "a.example")));
  DomainDay older;
  older.rows.push_back({taken.facts, 1});
  BOOST_TEST(takes_mail(older));
}

BOOST_AUTO_TEST_CASE(what_is_counted_most_stands_in_front) {
  Gathered days(1);
  for (const char* address : {"192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"})
    add(days, result("a.example", address), at(5));
  BOOST_TEST(days.find(5, "a.example")->rows[0].facts.source_ip == "192.0.2.2");
}

BOOST_AUTO_TEST_CASE(kinds_beyond_the_bound_are_counted_as_one_number) {
  Gathered days(1);
  for (std::size_t i = 0; i < kMaxRows + 7; ++i) add(days, result("a.example", std::to_string(i)), at(5));
  BOOST_TEST(days.find(5, "a.example")->rows.size() == kMaxRows);
  BOOST_TEST(days.find(5, "a.example")->beyond == 7u);
}

BOOST_AUTO_TEST_CASE(texts_and_signatures_are_bounded) {
  Gathered days(1);
  auto long_one = result("a.example");
  long_one.facts.header_from = std::string(5000, 'x');
  long_one.facts.signatures.assign(100, {std::string(5000, 'y'), "s", "fail"});
  BOOST_TEST(add(days, long_one, at(5)));
  const Facts& kept = days.find(5, "a.example")->rows[0].facts;
  BOOST_TEST(kept.header_from.size() <= kMaxText + 3);
  BOOST_REQUIRE(kept.signatures.size() == kMaxSignatures);
  BOOST_TEST(kept.signatures[0].domain.size() <= kMaxText + 3);
  BOOST_TEST(!add(days, result("no domain"), at(5)));
}

BOOST_AUTO_TEST_CASE(what_strangers_write_takes_a_bounded_number_of_bytes) {
  auto large = result("0.example");
  large.facts.signatures.assign(kMaxSignatures, {std::string(kMaxText, 'd'), std::string(kMaxText, 's'), "fail"});
  Gathered days(1);
  for (std::size_t domain = 0; days.bytes() + Gathered::kMaxDayBytes <= Gathered::kMaxBytes; ++domain) {
    large.published.domain = std::to_string(domain) + ".example";
    const std::size_t before = days.bytes();
    for (std::size_t i = 0; i < kMaxRows; ++i) {
      large.facts.source_ip = std::to_string(i);
      BOOST_REQUIRE(add(days, large, at(5)));
    }
    const DomainDay* day = days.find(5, large.published.domain);
    BOOST_REQUIRE(day->bytes <= Gathered::kMaxDayBytes);
    BOOST_REQUIRE(day->bytes == day->reckoned());
    BOOST_REQUIRE(day->rows.size() + day->beyond == kMaxRows);
    BOOST_REQUIRE(days.bytes() > before);
  }
  for (std::size_t domain = 0; domain < 200; ++domain) {
    large.published.domain = "more" + std::to_string(domain) + ".example";
    for (std::size_t i = 0; i < 300; ++i) {
      large.facts.source_ip = std::to_string(i);
      (void)add(days, large, at(5));
    }
  }
  BOOST_TEST(days.bytes() <= Gathered::kMaxBytes);
  const std::size_t all = days.bytes();
  const std::size_t first = days.find(5, "0.example")->bytes;
  days.remove(5, "0.example");
  BOOST_TEST(days.bytes() == all - first);
  (void)days.drop_old(at(20));
  BOOST_TEST(days.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_stored_reads_back) {
  Gathered days(1);
  add(days, result("a.example"), at(5));
  const auto back = decode<DomainDay>(encode(*days.find(5, "a.example")));
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST((back->rows[0].facts == days.find(5, "a.example")->rows[0].facts));
  BOOST_TEST((back->published == days.find(5, "a.example")->published));
}

BOOST_AUTO_TEST_SUITE_END()
