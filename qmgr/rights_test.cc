#include <pwd.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "qmgr/rights.h"

namespace pen::qmgr {

namespace {
constexpr uid_t kNobodyAtAll = 4'000'000'000U;
Rights rights(const std::vector<std::string>& list, const std::vector<std::string>& flush) {
  auto opened = Rights::open(list, flush, {});
  BOOST_REQUIRE(opened.has_value());
  return *std::move(opened);
}
}  // namespace

BOOST_AUTO_TEST_SUITE(rights_of_tools)

BOOST_AUTO_TEST_CASE(everyone_may_look_and_flush_by_default) {
  for (const Rights& r : {Rights(), rights({"static:anyone"}, {"static:anyone"})}) {
    BOOST_TEST(r.open_to_all());
    const Right right = r.of(kNobodyAtAll);
    BOOST_TEST(right.list);
    BOOST_TEST(right.flush);
    BOOST_TEST(!right.all);
  }
}

BOOST_AUTO_TEST_CASE(users_are_known_by_their_names) {
  const passwd* root = ::getpwuid(0);
  BOOST_REQUIRE(root != nullptr);
  const Rights r = rights({root->pw_name}, {"!" + std::string(root->pw_name), "static:anyone"});
  BOOST_TEST(!r.open_to_all());
  BOOST_TEST(r.of(0).list);
  BOOST_TEST(!r.of(0).flush);
  BOOST_TEST(!r.of(kNobodyAtAll).list);
  BOOST_TEST(r.of(kNobodyAtAll).flush);
}

BOOST_AUTO_TEST_CASE(who_has_no_name_is_unknown) {
  const Rights r = rights({"unknown"}, {});
  BOOST_TEST(r.of(kNobodyAtAll).list);
  BOOST_TEST(!r.of(kNobodyAtAll).flush);
}

BOOST_AUTO_TEST_CASE(a_list_that_cannot_be_read_is_named) {
  const auto opened = Rights::open({"static:anyone"}, {"/no/such/file"}, {});
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST(opened.error().message().find("authorized_flush_users") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(smtpd_has_mail_tried_and_nothing_else_and_an_order_needs_the_account_for_it) {
  BOOST_TEST(right_of("smtpd", true).flush);
  BOOST_TEST(!right_of("smtpd", true).list);
  BOOST_TEST(!right_of("smtpd", true).all);
  for (const char* program : {"penapi", ""}) {
    BOOST_TEST(right_of(program, true).all);
    BOOST_TEST(!right_of(program, false).all);
    BOOST_TEST(right_of(program, false).list);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
