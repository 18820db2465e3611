// Which recipient of a notice counts.
#include "lib/suite/suppression/returned_failure.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(returned_failure)

namespace {

using pen::returned::Action;
using pen::returned::Notice;

Notice notice_of(const std::vector<std::string>& recipients) {
  Notice notice;
  for (const auto& address : recipients)
    notice.recipients.push_back({.original = {},
                                 .final = address,
                                 .action = Action::failed,
                                 .status = "5.1.1",
                                 .diagnostic = "550 5.1.1 no such user",
                                 .remote_mta = {}});
  return notice;
}
/// "": none.
std::string counts(const Notice& notice, std::string_view verp = {}) {
  const auto failure = pen::suppression::returned_failure(notice, verp);
  if (!failure) return {};
  BOOST_TEST(!failure->certain);
  BOOST_TEST((failure->reason == pen::ipc::suppression::Reason::returned));
  BOOST_TEST(failure->text == "550 5.1.1 no such user");
  return failure->address;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_notice_speaks_of_one_recipient_however_many_it_names) {
  BOOST_TEST(counts(notice_of({"a@x.example", "b@x.example", "c@x.example"})) == "a@x.example");
  Notice later = notice_of({"a@x.example", "b@x.example"});
  later.recipients[0].diagnostic = "550 5.1.1 blocked, see our page";
  BOOST_TEST(counts(later) == "b@x.example");
  later.recipients[1].action = Action::delayed;
  BOOST_TEST(counts(later) == "");
}

BOOST_AUTO_TEST_CASE(to_an_address_of_verp_it_speaks_of_the_recipient_that_this_names) {
  BOOST_TEST(counts(notice_of({"elsewhere@x.example"}), "jo@x.example") == "jo@x.example");
  BOOST_TEST(counts(notice_of({"a@x.example", "Jo@x.example"}), "jo@x.example") == "jo@x.example");
  BOOST_TEST(counts(notice_of({"a@x.example", "b@x.example"}), "jo@x.example") == "");
  Notice more = notice_of({"a@x.example"});
  more.more = 3;
  BOOST_TEST(counts(more, "jo@x.example") == "");
}

BOOST_AUTO_TEST_SUITE_END()
