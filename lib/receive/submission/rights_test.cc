#include "lib/receive/submission/rights.h"

#include <boost/test/unit_test.hpp>

namespace pen::submission {
namespace {

constexpr uid_t kNobodyAtAll = 4000000001;  // an account that no host has

BOOST_AUTO_TEST_SUITE(rights)

BOOST_AUTO_TEST_CASE(everybody_may_where_nothing_is_set) {
  BOOST_TEST(Rights::Settings{}.everybody());
  const auto open = Rights::open({}).value();
  BOOST_TEST(open.refuses_user(kNobodyAtAll).value() == "");
  BOOST_TEST(open.refuses_sender(kNobodyAtAll, "anybody@example.org").value() == "");
}

BOOST_AUTO_TEST_CASE(a_user_who_is_shut_out_may_nothing_and_root_may_always) {
  const auto open = Rights::open({.users = "!unknown, static:anyone"}).value();
  BOOST_TEST(open.refuses_user(kNobodyAtAll).value().contains("(authorized_submit_users)"));
  BOOST_TEST(open.refuses_user(0).value() == "");
}

BOOST_AUTO_TEST_CASE(a_login_sends_as_its_own_addresses_alone) {
  const auto open = Rights::open({.login_senders = "inline:{{uid:4000000001=ada@example.org}}"}).value();
  BOOST_TEST(open.refuses_sender(kNobodyAtAll, "ada@example.org").value() == "");
  BOOST_TEST(open.refuses_sender(kNobodyAtAll, "eve@example.org").value().contains("(local_login_sender_maps)"));
}

BOOST_AUTO_TEST_CASE(a_table_that_fails_is_an_error_that_names_its_setting) {
  const auto open = Rights::open({.users = "texthash:/nonexistent", .login_senders = "texthash:/nonexistent"});
  BOOST_REQUIRE(open);
  BOOST_TEST(open->refuses_user(kNobodyAtAll).error().message().contains("authorized_submit_users"));
  BOOST_TEST(open->refuses_sender(kNobodyAtAll, "a@b").error().message().contains("local_login_sender_maps"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
