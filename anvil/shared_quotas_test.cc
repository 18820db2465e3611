// What the redis server says about quotas, taken apart; tests/integration/test_quotas.py runs the script.
#include "anvil/shared_quotas.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::anvil;
using redis::Reply;
using Limit = ipc::sender_memory::QuotaLimit;

BOOST_AUTO_TEST_SUITE(shared_quotas)

namespace {

Reply of_kind(Reply::Kind kind, std::int64_t integer, const std::string& text) {
  Reply out;
  out.kind = kind;
  out.integer = integer;
  out.text = text;
  return out;
}

Reply numbers(const std::vector<std::int64_t>& values) {
  Reply out = of_kind(Reply::Kind::array, 0, "");
  for (const auto value : values) out.items.push_back(of_kind(Reply::Kind::integer, value, ""));
  return out;
}

struct Fixture {
  Fixture() {
    question.request = 7;
    for (const char* name : {"", "login:ada", "sender:a@x.example"}) question.users.push_back({.name = name});
  }
  Quotas::Question question;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_user_without_a_name_is_not_among_those_of_the_server) {
  const auto reply = quota_reply(numbers({4, 1, 82'800, 10, 1, 2, 20, 3, 4, 11, 5, 6, 21, 7, 8}), question);
  BOOST_TEST_REQUIRE(reply.has_value());
  BOOST_TEST(reply->answer.request == 7U);
  BOOST_TEST((reply->answer.exceeded == Limit::recipients_per_day));
  BOOST_TEST(reply->answer.user == 2U);  // its place in the question
  BOOST_TEST(reply->answer.wait == 82'800U);
  BOOST_TEST_REQUIRE(reply->users.size() == 2U);
  BOOST_TEST(bool(reply->users[0].hour.since == seconds(10)));
  BOOST_TEST(reply->users[0].day.recipients == 4U);
  BOOST_TEST(reply->users[1].hour.messages == 5U);
  BOOST_TEST(reply->users[1].day.messages == 7U);
}

BOOST_AUTO_TEST_CASE(what_is_no_such_reply_is_refused) {
  const std::vector<std::int64_t> good{0, 0, 0, 10, 1, 2, 20, 3, 4, 11, 5, 6, 21, 7, 8};
  BOOST_TEST(quota_reply(numbers(good), question).has_value());
  const auto with = [&](std::size_t at, std::int64_t value) {
    auto bad = good;
    bad[at] = value;
    return quota_reply(numbers(bad), question).has_value();
  };
  BOOST_TEST(!with(0, 5));                      // no such limit
  BOOST_TEST(!with(1, 2));                      // no such user
  BOOST_TEST(!with(4, -1));                     // no count
  BOOST_TEST(!with(4, std::int64_t{1} << 32));  // as none of ours
  auto few = good;
  few.pop_back();
  BOOST_TEST(!quota_reply(numbers(few), question).has_value());
  BOOST_TEST(!quota_reply(numbers({}), question).has_value());
  BOOST_TEST(!quota_reply(of_kind(Reply::Kind::error, 0, "NOSCRIPT No matching script"), question));
  auto text = numbers(good);
  text.items[3] = of_kind(Reply::Kind::text, 0, "10");
  BOOST_TEST(!quota_reply(text, question).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
