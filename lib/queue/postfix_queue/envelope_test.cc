#include "lib/queue/postfix_queue/envelope.h"

#include <boost/test/unit_test.hpp>

#include "lib/queue/postfix_queue/testing/records.h"

using namespace pen;
using namespace pen::postfix_queue;

namespace {

QueueFile file_of(Records records) {
  auto file = read_queue_file(records.end());
  BOOST_REQUIRE(file);
  return *std::move(file);
}

Records begin() { return Records().add('T', "1795710193 5").add('S', "a@one.example"); }

struct Stored {
  std::string content;
  mail::BodyFacts facts;
  std::string message_id;
};

Stored stored(const std::vector<std::string>& lines, bool replace_bare_cr = true) {
  Stored out;
  ContentTaker taker(replace_bare_cr, [&](std::string_view part) { out.content += part; });
  const auto bytes = begin().recipient("b@c").content(lines).end();
  BOOST_REQUIRE(read_queue_file(bytes, taker.sink()));
  out.facts = taker.finish();
  out.message_id = taker.header().message_id_value;
  BOOST_CHECK_EQUAL(out.facts.size, out.content.size());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(postfix_envelope)

BOOST_AUTO_TEST_CASE(recipients_that_are_done_are_left_out_and_the_others_keep_what_was_said_of_them) {
  auto r = begin().add('D', "done@x.example").attribute("notify_flags=6");
  r.attribute("dsn_orig_rcpt=rfc822;o+1@x.example").add('O', "o@x.example").add('R', "b@x.example");
  auto taken = envelope_of(file_of(r.recipient("c@x.example").content({"x"})), "4A1B");
  BOOST_REQUIRE(taken);
  const auto& e = taken->envelope;
  BOOST_CHECK_EQUAL(e.queue_id, "4A1B");
  BOOST_CHECK(e.arrival == WallTime(seconds(1795710193)) + microseconds(5));
  BOOST_REQUIRE_EQUAL(e.recipients.size(), 2);
  BOOST_CHECK((e.recipients[0] == mail::Recipient{.address = "b@x.example",
                                                  .original = "o@x.example",
                                                  .orcpt = "rfc822;o+2B1@x.example",
                                                  .notify = mail::notify::kSuccess | mail::notify::kFailure}));
  BOOST_CHECK((e.recipients[1] == mail::Recipient{.address = "c@x.example", .original = {}, .orcpt = {}, .notify = 0}));
  BOOST_CHECK((taken->from == std::vector<std::size_t>{1, 2}));
}

BOOST_AUTO_TEST_CASE(the_client_and_the_options_of_mail_are_kept) {
  auto r = begin().attribute("encoding=8bit").attribute("ret_flags=1").attribute("envelope_id=a+b");
  r.attribute("log_client_address=192.0.2.1").attribute("client_address=127.0.0.1").attribute("client_port=2525");
  r.attribute("protocol_name=ESMTPSA").attribute("helo_name=h.example").attribute("sasl_username=ada");
  const auto e = envelope_of(file_of(r.recipient("b@c").content({"x"})), "A")->envelope;
  BOOST_CHECK(e.body_type == mail::BodyType::eight_bit_mime);
  BOOST_CHECK(e.ret == mail::Ret::full);
  BOOST_CHECK_EQUAL(e.envid, "a+b");
  BOOST_CHECK_EQUAL(e.client.address, "127.0.0.1");
  BOOST_CHECK_EQUAL(e.client.port, 2525);
  BOOST_CHECK_EQUAL(e.client.protocol, "ESMTPSA");
  BOOST_CHECK_EQUAL(e.client.helo, "h.example");
  BOOST_CHECK_EQUAL(e.client.sasl_username, "ada");
  BOOST_CHECK_EQUAL(envelope_of(file_of(begin().recipient("b@c").content({})), "A")->envelope.client.protocol, "local");
}

BOOST_AUTO_TEST_CASE(a_redirected_message_goes_to_the_one_address) {
  auto r = begin().recipient("b@c").recipient("d@e").content({"x"}).add('>', "new@x.example");
  const auto e = envelope_of(file_of(r), "A")->envelope;
  BOOST_REQUIRE_EQUAL(e.recipients.size(), 1);
  BOOST_CHECK_EQUAL(e.recipients[0].address, "new@x.example");
  BOOST_CHECK_EQUAL(e.recipients[0].original, "b@c");
}

BOOST_AUTO_TEST_CASE(what_no_address_may_hold_keeps_a_message_out) {
  BOOST_CHECK(!envelope_of(file_of(begin().add('R', "b\r\nRCPT TO:<x>").content({})), "A"));
  BOOST_CHECK(!envelope_of(file_of(begin().add('R', "").content({})), "A"));
  BOOST_CHECK(!envelope_of(file_of(begin().add('R', std::string(2000, 'x')).content({})), "A"));
}

BOOST_AUTO_TEST_CASE(what_has_no_equal_here_is_named) {
  const auto with = [](const char* verp) {
    return *envelope_of(file_of(begin().add('V', verp).recipient("b@c").content({})), "A");
  };
  BOOST_CHECK_EQUAL(with("+@").lost.size(), 1);
  BOOST_CHECK_EQUAL(with("+=").lost.size(), 0);
  BOOST_CHECK_EQUAL(with("+=").envelope.verp, "+=");
}

BOOST_AUTO_TEST_CASE(content_gets_line_ends_of_the_wire_and_its_facts) {
  const auto s = stored({"Subject: x", "Message-ID: <1@x>", "", ".dot", "\xe4", "yyyyyyyyyyyyyyyyyyyyyyy"});
  BOOST_CHECK_EQUAL(s.content, "Subject: x\r\nMessage-ID: <1@x>\r\n\r\n.dot\r\n\xe4\r\nyyyyyyyyyyyyyyyyyyyyyyy\r\n");
  BOOST_CHECK_EQUAL(s.facts.header_size, s.content.find(".dot"));
  BOOST_CHECK_EQUAL(s.facts.longest_line, 23);
  BOOST_CHECK(s.facts.eight_bit_body && !s.facts.eight_bit_header && !s.facts.nul);
  BOOST_CHECK_EQUAL(s.message_id, "<1@x>");
}

BOOST_AUTO_TEST_CASE(a_header_without_an_empty_line_ends_where_the_body_begins) {
  const auto s = stored({"Subject: x", "this is no field", "a: b"});
  BOOST_CHECK_EQUAL(s.facts.header_size, s.content.find("this"));
  BOOST_CHECK_EQUAL(stored({"Subject: x"}).facts.header_size, 12);
  BOOST_CHECK_EQUAL(stored({}).content, "");
}

BOOST_AUTO_TEST_CASE(a_carriage_return_in_a_line_becomes_a_space_unless_it_is_to_stay) {
  BOOST_CHECK_EQUAL(stored({"a: b", "", "x\ry"}).content, "a: b\r\n\r\nx y\r\n");
  BOOST_CHECK_EQUAL(stored({"a: b", "", "x\ry"}, false).content, "a: b\r\n\r\nx\ry\r\n");
}

BOOST_AUTO_TEST_CASE(a_header_line_of_any_length_stays_one_line) {
  const std::string field = "X-Long: " + std::string(50'000, 'l');
  const auto s = stored({field, "", "body"});
  BOOST_CHECK_EQUAL(s.content, field + "\r\n\r\nbody\r\n");
  BOOST_CHECK_EQUAL(s.facts.header_size, field.size() + 4);
}

BOOST_AUTO_TEST_SUITE_END()
