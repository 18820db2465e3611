#include "penevents/json.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

namespace pen::penevents {
BOOST_AUTO_TEST_SUITE(json_lines)

namespace {

using events::Event;
using events::Field;
using events::Type;

std::string text_of(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

std::string line_of(const Event& event, const Origin& origin = {}) {
  std::string blob;
  event.append_to(blob);
  std::string_view rest = blob;
  return json_line(7, events::next(rest).value(), origin);
}

const WallTime kTime{microseconds(1'764'206'424'005'000)};

BOOST_AUTO_TEST_CASE(hostile_bytes_become_one_line_of_valid_json) {
  BOOST_TEST(text_of("a\"b\\c\r\n\t\x1b[2J\x7f") == R"("a\"b\\c\u000d\u000a\u0009\u001b[2J\u007f")");
  BOOST_TEST(text_of(std::string("a\0b", 3)) == R"("a\u0000b")");
  BOOST_TEST(text_of("\xe2\x80\xa8\xe2\x80\xa9") == R"("\u2028\u2029")");
  BOOST_TEST(text_of("gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\xa7") == "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x93\xa7\"");
}

BOOST_AUTO_TEST_CASE(what_is_no_utf_8_is_replaced_byte_by_byte) {
  BOOST_TEST(text_of("a\xff\xc3") == R"("a\ufffd\ufffd")");
  BOOST_TEST(text_of("\xc0\xaf") == R"("\ufffd\ufffd")");                      // longer than needed
  BOOST_TEST(text_of("\xed\xa0\x80") == R"("\ufffd\ufffd\ufffd")");            // half of a pair
  BOOST_TEST(text_of("\xf4\x90\x80\x80") == R"("\ufffd\ufffd\ufffd\ufffd")");  // above U+10FFFF
  BOOST_TEST(text_of("\xe2\x82x") == R"("\ufffd\ufffdx")");                    // cut short
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (int i = 0; i < 256; ++i) (all += static_cast<char>(255 - i)) += "\xa4";
  BOOST_CHECK_NO_THROW(static_cast<void>(nlohmann::json::parse(text_of(all))));
}

BOOST_AUTO_TEST_CASE(id_time_and_type_come_first) {
  const auto line = line_of(Event(Type::order, kTime).text(Field::action, "removed"),
                            {.host = "mx.example", .program = "qmgr", .service = "qmgr", .pid = 12});
  BOOST_TEST(line == R"({"id":7,"time":"2025-11-27T01:20:24.005Z","type":"order","host":"mx.example",)"
                     R"("program":"qmgr","service":"qmgr","pid":12,"action":"removed"})"
                     "\n");
}

BOOST_AUTO_TEST_CASE(several_recipients_are_an_array) {
  const auto recipients = [](std::string_view lines) {
    return nlohmann::json::parse(line_of(Event(Type::received, kTime).text(Field::recipients, lines)))["recipients"];
  };
  BOOST_TEST(recipients("a@x.example\n\"b,c\"@y.example").dump() == R"(["a@x.example","\"b,c\"@y.example"])");
  BOOST_TEST(recipients("a@x.example").dump() == R"(["a@x.example"])");
}

BOOST_AUTO_TEST_CASE(a_delivery_has_seconds_and_the_parts_of_its_relay) {
  const auto json = nlohmann::json::parse(line_of(Event(Type::delivered, kTime)
                                                      .text(Field::relay, "mx.example.org[2001:db8::1]:25")
                                                      .duration(Field::delay, microseconds(1'250'000))
                                                      .duration(Field::delay_transmission, microseconds(250'000))
                                                      .text(Field::reply, "250 2.0.0 Ok: queued as 4ABC")
                                                      .flag(Field::final, true)));
  BOOST_TEST(json["relay_host"] == "mx.example.org");
  BOOST_TEST(json["relay_address"] == "2001:db8::1");
  BOOST_TEST(json["relay_port"] == 25);
  BOOST_TEST(json["delay"] == 1.25);
  BOOST_TEST(json["delays"]["transmission"] == 0.25);
  BOOST_TEST(json["delays"]["queue_manager"] == 0);
  BOOST_TEST(json["reply_code"] == 250);
  BOOST_TEST(json["from"] == "");
  BOOST_TEST(json["final"] == true);
}

BOOST_AUTO_TEST_CASE(a_deferral_is_not_final_and_a_text_of_our_own_has_no_code) {
  const auto json = nlohmann::json::parse(line_of(
      Event(Type::deferred, kTime).text(Field::relay, "none").text(Field::reply, "connect to x: Connection refused")));
  BOOST_TEST(json["final"] == false);
  BOOST_TEST(!json.contains("reply_code"));
  BOOST_TEST(!json.contains("relay_address"));
  const auto said = nlohmann::json::parse(
      line_of(Event(Type::bounced, kTime)
                  .text(Field::reply, "host mx[192.0.2.1] said: 550-5.1.1 no (in reply to RCPT TO command)")));
  BOOST_TEST(said["reply_code"] == 550);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::penevents
