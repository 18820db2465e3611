#include "lib/suite/suppression/fault.h"

#include <boost/test/unit_test.hpp>

#include "lib/suite/suppression/words.h"

BOOST_AUTO_TEST_SUITE(suppression_fault)

using pen::suppression::Fault;
using pen::suppression::fault_of;

BOOST_AUTO_TEST_CASE(an_address_that_does_not_exist_is_certain) {
  BOOST_TEST(
      (fault_of("5.1.1", "550 5.1.1 The email account that you tried to reach does not exist.") == Fault::certain));
  BOOST_TEST((fault_of("5.1.6", "551 5.1.6 gone away") == Fault::certain));
}

BOOST_AUTO_TEST_CASE(what_may_pass_or_is_said_without_a_code_is_likely) {
  BOOST_TEST((fault_of("5.2.1", "550 5.2.1 The email account that you tried to reach is inactive.") == Fault::likely));
  BOOST_TEST(
      (fault_of("5.0.0", "554 delivery error: dd This user doesn't have a there.example account") == Fault::likely));
  BOOST_TEST((fault_of("5.4.1", "550 5.4.1 Recipient address rejected: User unknown") == Fault::likely));
}

BOOST_AUTO_TEST_CASE(blocks_policies_and_full_mailboxes_are_no_fault_of_the_address) {
  BOOST_TEST((fault_of("5.2.2", "552 5.2.2 mailbox unavailable") == Fault::none));
  BOOST_TEST((fault_of("5.1.1", "550 5.1.1 blocked, see our page") == Fault::none));
  BOOST_TEST((fault_of("5.7.1", "550 5.7.1 Message rejected as SPAM: user unknown") == Fault::none));
  BOOST_TEST((fault_of("5.1.1", "550 5.1.1 over quota") == Fault::none));
  BOOST_TEST((fault_of("5.7.26", "550 5.7.26 unauthenticated") == Fault::none));
  BOOST_TEST((fault_of("5.0.0", "554 transaction failed") == Fault::none));
}

BOOST_AUTO_TEST_CASE(a_deferral_is_no_fault) {
  BOOST_TEST((fault_of("4.1.1", "450 4.1.1 user unknown") == Fault::none));
  BOOST_TEST((fault_of("", "user unknown") == Fault::none));
}

BOOST_AUTO_TEST_CASE(each_reason_has_a_word_that_is_read_back) {
  using pen::suppression::Reason;
  for (const Reason r : {Reason::bounce, Reason::returned, Reason::complaint, Reason::order})
    BOOST_TEST((pen::suppression::reason_named(pen::suppression::word(r)) == r));
  BOOST_TEST(!pen::suppression::reason_named("whim").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
