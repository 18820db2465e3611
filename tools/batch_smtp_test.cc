#include "tools/batch_smtp.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::tools;

namespace {

std::string content(const std::vector<std::string>& pieces) {
  std::string out;
  BatchContent c([&](std::string_view part) { out += part; });
  for (const auto& piece : pieces) c.feed(piece);
  c.finish();
  return out;
}

mail::Envelope envelope() {
  mail::Envelope e;
  e.sender = "a@one.example";
  e.envid = "x+y";
  e.ret = mail::Ret::headers;
  e.body.eight_bit_body = true;
  e.recipients = {{.address = "b@x", .original = {}, .orcpt = "rfc822;o+2B@x", .notify = 6},
                  {.address = "c@x", .original = {}, .orcpt = {}, .notify = 0}};
  return e;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batch_smtp)

BOOST_AUTO_TEST_CASE(the_envelope_is_said_in_commands_with_what_was_asked_for) {
  const auto e = envelope();
  BOOST_CHECK_EQUAL(batch_begin(e, e.recipients, {.helo = "mx.example"}),
                    "EHLO mx.example\r\nMAIL FROM:<a@one.example> BODY=8BITMIME RET=HDRS ENVID=x+2By\r\n"
                    "RCPT TO:<b@x> NOTIFY=FAILURE,DELAY ORCPT=rfc822;o+2B@x\r\nRCPT TO:<c@x>\r\nDATA\r\n");
  BOOST_CHECK_EQUAL(batch_begin(e, {e.recipients[0]}, {.helo = "mx.example", .plain = true}),
                    "EHLO mx.example\r\nMAIL FROM:<a@one.example>\r\nRCPT TO:<b@x>\r\nDATA\r\n");
  mail::Envelope later;
  later.sender = "a@one.example";
  later.priority = -4;
  later.release = WallTime(seconds(1'800'000'000));
  BOOST_TEST(batch_begin(later, {e.recipients[1]}, {.helo = "mx.example"})
                 .contains("MAIL FROM:<a@one.example> MT-PRIORITY=-4 HOLDUNTIL=2027-01-15T08:00:00Z\r\n"));
}

BOOST_AUTO_TEST_CASE(dots_are_doubled_wherever_the_pieces_are_cut_and_the_end_is_one_dot) {
  BOOST_CHECK_EQUAL(content({"a: b\r\n\r\n.", "x\r\n", ".\r\n"}), "a: b\r\n\r\n..x\r\n..\r\n.\r\n");
  BOOST_CHECK_EQUAL(content({"no end"}), "no end\r\n.\r\n");
  BOOST_CHECK_EQUAL(content({"bare\n.\nlf\n"}), "bare\r\n..\r\nlf\r\n.\r\n");
}

BOOST_AUTO_TEST_CASE(long_lines_stay_whole) {
  const std::string line(100'000, 'x');
  BOOST_CHECK_EQUAL(content({line + "\r\n"}), line + "\r\n.\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
