#include "lib/receive/submission/recipients.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/receive/submission/format.h"

namespace pen::submission {
namespace {

std::string named(std::string_view content, std::size_t piece = 1000000) {
  HeaderRecipients reader;
  while (!content.empty() && !reader.header_ended()) {
    reader.feed(content.substr(0, piece));
    content.remove_prefix(std::min(piece, content.size()));
  }
  reader.finish();
  return reader.fault().empty() ? join(reader.take(), " ") : "fault: " + reader.fault();
}

BOOST_AUTO_TEST_SUITE(header_recipients)

BOOST_AUTO_TEST_CASE(to_cc_and_bcc_are_read_whatever_their_form) {
  const std::string text =
      "Subject: to: nobody\r\nTO : Ada <ada@a.example>,\r\n\t\"Last, First\" <b@a.example> (x, "
      "y)\r\n"
      "X-To: no@a.example\r\ncc: friends: c@a.example, d@a.example;\r\nBcc: local\r\n\r\nTo: "
      "body@a.example\r\n";
  for (const std::size_t piece : {1U, 5U, 1000U})
    BOOST_TEST(named(text, piece) == "ada@a.example b@a.example c@a.example d@a.example local");
}

BOOST_AUTO_TEST_CASE(a_recipient_that_cannot_be_read_is_tried_as_it_stands_and_never_dropped) {
  const struct {
    std::string_view list, addresses;
    std::size_t unreadable;
  } rows[] = {
      {"a@x.example, b@y.example c@z.example", "a@x.example b@y.example c@z.example", 0},
      {"a@x.example b@y.example\tc", "a@x.example b@y.example c", 0},
      {"bo jo", "bo jo", 0},
      {"a @ x.example, b@y . example", "a@x.example b@y.example", 0},
      {"a@x.example, 'b@y.example'", "a@x.example \"'b@y.example'\"", 1},
      {"'Bo B' <b@y.example>, 'c@z.example' <c@z.example>", "b@y.example c@z.example", 0},
      {"a@x.example, b@y..example", "a@x.example \"b@y..example\"", 1},
      {"a@x.example, b@", "a@x.example \"b@\"", 1},
      {"a@x.example, @y.example", "a@x.example \"@y.example\"", 1},
      {"a@x.example, b@@y.example", "a@x.example \"b@\"@y.example", 1},
      {"a@x.example, b@[192.0.2", "a@x.example \"b@[192.0.2\"", 1},
      {"a@x.example, Bo <b@@y.example>", "a@x.example \"b@\"@y.example", 1},
      {"a@x.example, Bo <b@y.example> c@z.example", "a@x.example b@y.example c@z.example", 0},
      {"a@x.example <b@y.example>", "b@y.example", 0},  // a name
      {"a@x.example, <b@y.example> <c@z.example>", "a@x.example c@z.example b@y.example", 0},
      {"a@x.example, <b@y.example", "a@x.example b@y.example", 0},
      {"a@x.example; b@y.example;", "a@x.example b@y.example", 0},
      {"team: a@x.example, b@y.example;, c@z.example", "a@x.example b@y.example c@z.example", 0},
      {"a@x.example: b@y.example", "a@x.example b@y.example", 0},
      {"a@x.example (Ann, of x), (Bo) b@y.example", "a@x.example b@y.example", 0},
      {"a@x.example (Ann, b@y.example", "a@x.example b@y.example", 0},
      {"\"a b\"@x.example, \"c,d\"@y.example", "\"a b\"@x.example \"c,d\"@y.example", 0},
      {"a@[192.0.2.1], b@[IPv6:2001:db8::1] c", "a@[192.0.2.1] b@[IPv6:2001:db8::1] c", 0},
      {"<@r.example:a@x.example>", "a@x.example", 0},
      {" , ;<>, ()", "", 0},
  };
  for (const auto& row : rows) {
    const Listed got = read_recipients(row.list, 100);
    BOOST_TEST(join(got.addresses) == row.addresses, row.list << " gives " << join(got.addresses));
    BOOST_TEST(got.unreadable == row.unreadable, row.list);
    for (const std::string_view field : {"To: ", "Cc: ", "Bcc: ", "Resent-To: ", "Resent-Cc: ", "Resent-Bcc: "})
      BOOST_TEST(named(std::string(field) + std::string(row.list) + "\n\n") == row.addresses, field << row.list);
  }
  // A quote that has no end takes the rest with it, which then is tried as one.
  const Listed open_quote = read_recipients("a@x.example, \"b@y.example", 100);
  BOOST_TEST(open_quote.addresses.size() == 2U);
  BOOST_TEST(open_quote.unreadable == 1U);
  BOOST_TEST(read_recipients("a b c d", 2).addresses.size() == 2U);
}

BOOST_AUTO_TEST_CASE(resent_fields_win) {
  BOOST_TEST(named("To: a@x\nResent-Bcc: b@x\nResent-To: c@x\nCc: d@x\n\n") == "b@x c@x");
  // A resent field without an address still makes the other fields not count.
  BOOST_TEST(named("To: a@x\nResent-To:\n\n") == "");
}

BOOST_AUTO_TEST_CASE(the_same_address_counts_once) { BOOST_TEST(named("To: a@x, b@x, a@x\nCc: b@x\n\n") == "a@x b@x"); }

BOOST_AUTO_TEST_CASE(a_header_ends_at_what_is_no_field_and_at_the_end_of_input) {
  BOOST_TEST(named("To: a@x\nnot a field\nTo: b@x\n") == "a@x");
  BOOST_TEST(named("To: a@x") == "a@x");
  BOOST_TEST(named("") == "");
  BOOST_TEST(named("\nTo: a@x\n") == "");
}

BOOST_AUTO_TEST_CASE(long_fields_of_others_pass_and_long_ones_of_ours_are_a_fault) {
  const std::string filler(HeaderRecipients::kMaxHeader, 'x');
  BOOST_TEST(named("To: a@x\nX-Long: " + filler + "\n " + filler + "\nCc: b@x\n\n", 4096) == "a@x b@x");
  BOOST_TEST(named("To: " + filler + "\n\n", 4096) == "fault: header too long");
  std::string folded = "To: a@x";
  while (folded.size() < filler.size() + 20000) folded += ",\n " + std::string(990, 'y') + "@x";
  BOOST_TEST(named(folded + "\n\n", 4096) == "fault: header too long");
  std::string many = "To: a@x";
  for (std::size_t i = 0; i <= kMaxRecipients; ++i) many += ",a" + std::to_string(i) + "@x";
  BOOST_TEST(named(many + "\n\n") == "fault: too many recipients");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
