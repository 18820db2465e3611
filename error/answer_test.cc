#include "error/answer.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::error_program;

BOOST_AUTO_TEST_SUITE(error_answer)

BOOST_AUTO_TEST_CASE(the_service_decides_what_happens) {
  BOOST_TEST((answer(kind_of("error"), "mail for x is not welcome").action == mail::Action::failed));
  BOOST_TEST((answer(kind_of("retry"), "later").action == mail::Action::deferred));
  BOOST_TEST((answer(kind_of("discard"), "silently").action == mail::Action::delivered));
  BOOST_TEST((answer(kind_of("myerror"), "x").action == mail::Action::failed));
}
BOOST_AUTO_TEST_CASE(a_code_in_front_of_the_text_counts) {
  const auto status = answer(Kind::error, "5.1.1 no such user here");
  BOOST_TEST(status.dsn == "5.1.1");
  BOOST_TEST(status.text == "no such user here");
  BOOST_TEST(answer(Kind::error, "closed").dsn == "5.0.0");
  BOOST_TEST(answer(Kind::retry, "4.3.2 down").dsn == "4.3.2");
}
BOOST_AUTO_TEST_CASE(a_code_cannot_change_the_class) {
  BOOST_TEST(answer(Kind::error, "2.1.1 fine").dsn == "5.1.1");
  BOOST_TEST(answer(Kind::retry, "5.1.1 no").dsn == "4.1.1");
}
BOOST_AUTO_TEST_CASE(there_is_always_a_text) {
  BOOST_TEST(!answer(Kind::error, "").text.empty());
  BOOST_TEST(!answer(Kind::retry, " 4.1.1 ").text.empty());
}

BOOST_AUTO_TEST_SUITE_END()
