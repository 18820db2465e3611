#include "lib/send/mailbox/content.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

using namespace pen;
using namespace pen::mailbox;

namespace {
std::string lf(std::string_view in, std::size_t step) {
  LineEnds l;
  std::string out;
  for (std::size_t i = 0; i < in.size(); i += step) l.feed(in.substr(i, step), out);
  l.finish(out);
  return out;
}
std::string quoted(std::string_view in, std::size_t step) {
  MboxQuoter q;
  std::string out;
  for (std::size_t i = 0; i < in.size(); i += step) q.feed(in.substr(i, step), out);
  q.finish(out);
  return out;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(mailbox_content)

BOOST_AUTO_TEST_CASE(crlf_becomes_lf_and_every_other_byte_stays) {
  using namespace std::string_view_literals;
  for (std::size_t step = 1; step < 8; ++step) {
    BOOST_TEST(lf("a\r\nb\r\n", step) == "a\nb\n");
    BOOST_TEST(lf("a\rb\r\r\nc\n\r", step) == "a\rb\r\nc\n\r");
    BOOST_TEST(lf("\0\xff\r\n"sv, step) == "\0\xff\n"sv);
    BOOST_TEST(lf("\r\n\r\n", step) == "\n\n");
  }
}

BOOST_AUTO_TEST_CASE(lines_that_start_with_from_are_quoted_in_an_mbox) {
  for (std::size_t step = 1; step < 12; ++step) {
    BOOST_TEST(quoted("From x\nFro\n From\nFrom\n", step) == ">From x\nFro\n From\nFrom\n\n");
    BOOST_TEST(quoted("a From b\n>From c\n", step) == "a From b\n>From c\n\n");
    BOOST_TEST(quoted("\nFrom ", step) == "\n>From \n\n");
  }
}

BOOST_AUTO_TEST_CASE(a_message_in_an_mbox_ends_with_one_empty_line_whatever_its_end) {
  for (std::size_t step = 1; step < 4; ++step) {
    BOOST_TEST(quoted("a", step) == "a\n\n");
    BOOST_TEST(quoted("a\n", step) == "a\n\n");
    BOOST_TEST(quoted("a\nFro", step) == "a\nFro\n\n");
  }
  BOOST_TEST(quoted("", 1) == "\n");
}

BOOST_AUTO_TEST_CASE(quoting_does_not_depend_on_how_the_input_is_cut) {
  const std::uint64_t seed = 20261121;
  BOOST_TEST_MESSAGE("seed " << seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string in;
    for (int i = 0; i < 60; ++i) in += "From \n>\rx"[random.below(9)];
    const auto whole = quoted(lf(in, in.size()), 1000);
    LineEnds l;
    MboxQuoter q;
    std::string plain, out;
    for (std::size_t i = 0; i < in.size();) {
      const auto n = 1 + random.below(7);
      plain.clear();
      l.feed(std::string_view(in).substr(i, n), plain);
      q.feed(plain, out);
      i += n;
    }
    plain.clear();
    l.finish(plain);
    q.feed(plain, out);
    q.finish(out);
    BOOST_REQUIRE_EQUAL(out, whole);
  }
}

BOOST_AUTO_TEST_CASE(the_from_line_names_the_sender_or_mailer_daemon) {
  BOOST_TEST(mbox_from_line("a@b", WallTime{}).starts_with("From a@b  "));
  BOOST_TEST(mbox_from_line("", WallTime{}).starts_with("From MAILER-DAEMON  "));
  BOOST_TEST(mbox_from_line("\"a b\"@c", WallTime{}).starts_with("From \"a_b\"@c  "));
}

BOOST_AUTO_TEST_CASE(prepended_fields_cannot_be_broken_out_of) {
  BOOST_TEST(prepended_fields("a\nX: y", "o@x", "d@x") ==
             "Return-Path: <a?X: y>\nX-Original-To: o@x\nDelivered-To: d@x\n");
  BOOST_TEST(prepended_fields("", "", "") == "Return-Path: <>\n");
  BOOST_TEST(prepended_fields("", "o@x", "") == "Return-Path: <>\nX-Original-To: o@x\n");
}

BOOST_AUTO_TEST_CASE(a_loop_is_seen_by_delivered_to_in_the_header_only) {
  const std::string mail = "Received: x\r\nDelivered-To: Bob@Example.org\r\n\r\nDelivered-To: eve@example.org\r\n";
  BOOST_TEST(was_delivered_to(mail, "bob@example.org"));
  BOOST_TEST(!was_delivered_to(mail, "eve@example.org"));
  BOOST_TEST(!was_delivered_to(mail, "ob@example.org"));
  BOOST_TEST(!was_delivered_to("", "bob@example.org"));
}

BOOST_AUTO_TEST_CASE(maildir_names_have_no_slash_or_colon_and_differ) {
  MaildirName name{WallTime(seconds(1'700'000'000) + microseconds(42)), 7, 1, 0xabc, "a/b:c"};
  BOOST_TEST(name.temporary() == "1700000000.P7Q1Rabc.a\\057b\\072c");
  BOOST_TEST(name.final(0x801, 0x1234) == "1700000000.V801I1234M42.a\\057b\\072c");
  auto other = name;
  other.counter = 2;
  BOOST_TEST(other.temporary() != name.temporary());
}

BOOST_AUTO_TEST_SUITE_END()
