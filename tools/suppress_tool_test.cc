// The lines and the command line of pensuppress.
#include "tools/suppress_tool.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

BOOST_AUTO_TEST_SUITE(suppress_tool)

using namespace pen;
using pen::ipc::suppression::Reason;
using pen::tools::SuppressTool;

namespace {
constexpr WallTime kNow{seconds(1'800'000'000)};  // 2027-01-15T08:00:00Z
}

BOOST_AUTO_TEST_CASE(what_was_exported_is_imported) {
  SuppressTool::Entry e;
  e.address = "\"a,b\"@there.example";
  e.tenant = "shop";
  e.reason = Reason::complaint;
  e.text = "abuse, said its reader";
  e.expires = 1'900'000'000;
  const auto back = SuppressTool::imported(trim(SuppressTool::exported(e)), {}, kNow);
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(back->address == e.address);
  BOOST_TEST(back->tenant == "shop");
  BOOST_TEST((back->reason == Reason::complaint));
  BOOST_TEST(back->text == e.text);
  BOOST_TEST(back->expires == e.expires);
}

BOOST_AUTO_TEST_CASE(an_address_alone_gets_what_the_options_say) {
  SuppressTool::Entry usual;
  usual.reason = Reason::bounce;
  usual.tenant = "shop";
  usual.expires = 7;
  const auto one = SuppressTool::imported("jo@there.example", usual, kNow);
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(one->tenant == "shop");
  BOOST_TEST((one->reason == Reason::bounce));
  BOOST_TEST(one->expires == 7);
  BOOST_TEST(!SuppressTool::imported("jo", usual, kNow).has_value());
  BOOST_TEST(!SuppressTool::imported("jo@there.example,whim", usual, kNow).has_value());
  BOOST_TEST(!SuppressTool::imported("jo@there.example,order,someday", usual, kNow).has_value());
}

BOOST_AUTO_TEST_CASE(an_end_is_a_time_a_date_or_never) {
  BOOST_TEST(SuppressTool::end_of("never", kNow).value() == 0);
  BOOST_TEST(SuppressTool::end_of("90d", kNow).value() == 1'800'000'000 + 90 * 86'400);
  BOOST_TEST(SuppressTool::end_of("90", kNow).value() == 1'800'000'000 + 90 * 86'400);
  BOOST_TEST(SuppressTool::end_of("2027-01-15", kNow).value() == 1'800'000'000 - 8 * 3600);
  BOOST_TEST(SuppressTool::end_of("2027-01-15T08:00:00Z", kNow).value() == 1'800'000'000);
  BOOST_TEST(SuppressTool::end_of("2027-01-15T10:00:00+02:00", kNow).value() == 1'800'000'000);
  for (const char* bad : {"", "soon", "2027-13-01", "2027-02-30", "2027-01-15T08", "2027-01-15T08:00:00", "-3d",
                          "2027-01-15T-8:00:00Z", "2027-01-15T08:00:00Z or Z", "2027-01- 5", "1970-01-01"})
    BOOST_TEST(!SuppressTool::end_of(bad, kNow).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(a_command_line_that_makes_no_sense_is_refused) {
  const auto reads = [](std::vector<const char*> words) {
    words.insert(words.begin(), "pensuppress");
    return SuppressTool::read(static_cast<int>(words.size()), words.data()).has_value();
  };
  BOOST_TEST(reads({"list"}));
  BOOST_TEST(reads({"add", "a@b.example", "c@d.example", "--reason", "complaint", "--expires", "1w"}));
  BOOST_TEST(!reads({"list", "a@b.example"}));
  BOOST_TEST(!reads({"show"}));
  BOOST_TEST(!reads({"show", "a@b.example", "c@d.example"}));
  BOOST_TEST(!reads({"add", "nobody"}));
  BOOST_TEST(!reads({"add", "a@b.example", "--reason", "whim"}));
  BOOST_TEST(!reads({"add", "a@b.example", "--expires", "someday"}));
  BOOST_TEST(!reads({"empty"}));
}

BOOST_AUTO_TEST_SUITE_END()
