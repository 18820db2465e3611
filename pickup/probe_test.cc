#include "pickup/probe.h"

#include <boost/test/unit_test.hpp>

#include "lib/intake/fakes.h"

using namespace pen;
using namespace pen::pickup;
using mail::Action;

namespace {
struct Asked {
  Asked() { envelope.sender = "ada@example.org"; }
  Result<std::vector<mail::DsnRecipient>> ask(std::vector<std::string> addresses) {
    for (auto& a : addresses)
      envelope.recipients.push_back(
          {.address = std::move(a), .original = {}, .orcpt = {}, .notify = 0});
    return probe(resolve, std::move(envelope), WallTime{});
  }
  mail::DeliveryStatus one(std::string address) {
    const auto found = ask({std::move(address)});
    BOOST_REQUIRE(found);
    BOOST_REQUIRE_EQUAL(found->size(), 1U);
    return found->front().status;
  }
  void goes(std::string transport, std::string nexthop) {
    resolve.answer.transport = std::move(transport);
    resolve.answer.nexthop = std::move(nexthop);
  }
  intake::fakes::SetResolve resolve;
  mail::Envelope envelope;
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(probe_of_addresses, Asked)

BOOST_AUTO_TEST_CASE(an_address_with_a_way_says_which) {
  goes("smtp", "[far.example]");
  const auto status = one("x@far.example");
  BOOST_TEST((status.action == Action::delivered));
  BOOST_TEST(status.text == "would go by smtp to [far.example]");
}

BOOST_AUTO_TEST_CASE(an_unknown_user_a_bad_address_and_an_error_transport_would_come_back) {
  BOOST_TEST(one("nobody").dsn == "5.1.1");
  resolve.answer.bad_address = true;
  BOOST_TEST(one("user").dsn == "5.1.3");
  resolve.answer.bad_address = false;
  goes("error", "5.1.2 no such domain");
  const auto gone = one("x@far.example");
  BOOST_TEST((gone.action == Action::failed));
  BOOST_TEST(gone.dsn == "5.1.2");
  BOOST_TEST(gone.text == "no such domain");
  goes("retry", "later");
  BOOST_TEST((one("x@far.example").action == Action::deferred));
}

BOOST_AUTO_TEST_CASE(aliases_are_followed_and_each_end_is_told_of) {
  resolve.aliases["team@example.org"] = {"user@example.org", "nobody@example.org", "x@far.example"};
  const auto found = ask({"team"});
  BOOST_REQUIRE(found);
  BOOST_REQUIRE_EQUAL(found->size(), 3U);
  BOOST_TEST((*found)[0].recipient.original == "team@example.org");
  BOOST_TEST((*found)[1].status.dsn == "5.1.1");
  BOOST_TEST((*found)[2].recipient.address == "x@far.example");
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_read_is_no_answer) {
  resolve.broken = true;
  BOOST_TEST(!ask({"user"}));
}

BOOST_AUTO_TEST_SUITE_END()
