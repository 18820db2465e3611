#include "lib/mail/header.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/received.h"

using namespace pen;
using namespace pen::mail;
using Line = HeaderScanner::Line;

namespace {
HeaderSummary summary_of(std::initializer_list<std::string_view> lines) {
  HeaderScanner scan;
  bool first = true;
  for (auto line : lines) {
    const auto kind = HeaderScanner::classify(line, true, first);
    first = false;
    BOOST_TEST_REQUIRE((kind == Line::field || kind == Line::continuation));
    scan.line(line, kind);
  }
  return scan.summary();
}
}  // namespace

BOOST_AUTO_TEST_SUITE(header)

BOOST_AUTO_TEST_CASE(lines_are_told_apart) {
  BOOST_TEST((HeaderScanner::classify("Subject: x", true, true) == Line::field));
  BOOST_TEST((HeaderScanner::classify("Subject : x", true, true) == Line::field));
  BOOST_TEST((HeaderScanner::classify(" x", true, false) == Line::continuation));
  BOOST_TEST((HeaderScanner::classify(" x", true, true) == Line::body));
  BOOST_TEST((HeaderScanner::classify("", true, false) == Line::separator));
  BOOST_TEST((HeaderScanner::classify("no colon here", true, false) == Line::body));
  BOOST_TEST((HeaderScanner::classify(": x", true, false) == Line::body));
  BOOST_TEST((HeaderScanner::classify("Sub", false, false) == Line::undecided));
  BOOST_TEST((HeaderScanner::classify("Sub ", false, false) == Line::undecided));
  BOOST_TEST((HeaderScanner::classify("Sub x", false, false) == Line::body));
  BOOST_TEST((HeaderScanner::classify(std::string(HeaderScanner::kDecide, 'x'), false, false) == Line::body));
}

BOOST_AUTO_TEST_CASE(received_fields_are_counted_and_folds_belong_to_them) {
  auto s = summary_of({"Received: from x", "\tby y; Received: no", "RECEIVED: from z", "Date: now", "From: a@b"});
  BOOST_TEST(s.received == 2u);
  BOOST_TEST(s.date);
  BOOST_TEST(s.from);
  BOOST_TEST(!s.message_id);
}

BOOST_AUTO_TEST_CASE(a_folded_message_id_is_put_together) {
  auto s = summary_of({"Message-Id:", "  <a.b@c>  ", "Subject: x", "Message-ID: <second@c>"});
  BOOST_TEST(s.message_id_value == "<a.b@c>");
  BOOST_TEST(summary_of({"Message-ID: <" + std::string(5000, 'x') + ">"}).message_id_value.size() ==
             HeaderSummary::kMaxKept);
}

BOOST_AUTO_TEST_CASE(the_trace_field_has_postfix_s_layout) {
  Client client;
  client.name = "unknown";
  client.address = "192.0.2.1";
  client.helo = "me.example (x)\r\nEvil: 1";
  client.protocol = "ESMTP";
  const ReceivedField f{
      client, "mx.example.org", "Penstock", "ABC", "r@example.org", false, WallTime(seconds(1'800'000'000))};
  const auto text = received_field(f);
  BOOST_TEST(text.starts_with("Received: from me.example ?x???Evil: 1 (unknown "
                              "[192.0.2.1])\r\n\tby mx.example.org (Penstock)"
                              " with ESMTP id ABC\r\n\tfor <r@example.org>; Fri, 15 Jan 2027 "),
             text);
  client.address = "2001:db8::1";
  BOOST_TEST(received_field({client, "mx", "Penstock", "ABC", "", true, {}})
                 .find("[IPv6:2001:db8::1])\r\n\tby mx (Penstock) with UTF8SMTP id ABC; ") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
