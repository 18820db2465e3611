#include "lib/receive/milter/protocol.h"

#include <boost/test/unit_test.hpp>

namespace pen::milter {
namespace {

using namespace std::string_literals;

std::string answer(std::string_view words) { return std::string(words); }

}  // namespace

BOOST_AUTO_TEST_SUITE(milter_protocol)

BOOST_AUTO_TEST_CASE(a_packet_counts_its_code_and_its_data) {
  std::string out;
  append_packet(out, Command::helo, c_string("a\0hidden"s));
  BOOST_TEST(out == "\0\0\0\3Ha\0"s);
  BOOST_TEST(packet_size("\0\0\1\2"s).value() == 258U);
  BOOST_TEST(!packet_size("\0\0\0\0"s));
}

BOOST_AUTO_TEST_CASE(an_offer_has_what_its_version_has) {
  BOOST_TEST(Offer{}.data() == "\0\0\0\6\0\0\1\xff\0\x1f\xff\xff"s);
  BOOST_TEST((Offer{.version = 2, .no_header_reply = false}.data()) == "\0\0\0\2\0\0\0\x3f\0\0\0\x7f"s);
  BOOST_TEST((Offer{.version = 4, .no_header_reply = true}.data()) == "\0\0\0\4\0\0\0\x3f\0\0\3\xff"s);
}

BOOST_AUTO_TEST_CASE(a_filter_may_take_less_than_was_offered_and_not_more) {
  const auto agreed = Negotiation::parse(answer("\0\0\0\4\0\0\0\x01\0\0\0\x02"s), {});
  BOOST_TEST_REQUIRE(agreed.has_value());
  BOOST_TEST(agreed->edits());
  BOOST_TEST(!agreed->wants(Stage::helo));
  BOOST_TEST(agreed->wants(Stage::end_of_message));
  BOOST_TEST(agreed->replies(Stage::mail));
  const auto old = Negotiation::parse(answer("\0\0\0\3\0\0\0\0\0\0\0\0"s), {});
  BOOST_TEST(!old->wants(Stage::data));
  BOOST_TEST(!old->edits());
  for (const auto& bad : {"\0\0\0\7\0\0\0\0\0\0\0\0"s, "\0\0\0\1\0\0\0\0\0\0\0\0"s, "\0\0\0\6\0\0\2\0\0\0\0\0"s,
                          "\0\0\0\6\0\0\0\0\0\x20\0\0"s}) {
    const auto refused = Negotiation::parse(bad, {});
    BOOST_TEST((!refused && refused.error().is(MilterError::incompatible)));
  }
  BOOST_TEST(Negotiation::parse("\0\0\0\6"s, {}).error().is(MilterError::malformed));
}

BOOST_AUTO_TEST_CASE(a_filter_names_its_own_macros) {
  const std::string head = "\0\0\0\6\0\0\0\0\0\0\0\0"s;
  const auto agreed = Negotiation::parse(head + "\0\0\0\2i {auth_type}\0\0\0\0\5\0"s, {});
  BOOST_TEST_REQUIRE(agreed.has_value());
  BOOST_TEST((agreed->macros[2] == std::vector<std::string>{"i", "{auth_type}"}));
  BOOST_TEST(!agreed->macros[5]);  // an empty list replaces nothing
  BOOST_TEST(!Negotiation::parse(head + "\0\0\0\7i\0"s, {}));
  BOOST_TEST(!Negotiation::parse(head + "\0\0\0\2i"s, {}));
}

BOOST_AUTO_TEST_CASE(replies_of_a_filter_must_be_refusals_of_one_code) {
  using Lines = std::vector<std::string>;
  BOOST_TEST((parse_reply("550 5.7.1 100%% %sure").value() == Lines{"550 5.7.1 100% sure"}));
  BOOST_TEST((parse_reply("451-4.7.1 one\r\n451 4.7.1 two").value() == Lines{"451-4.7.1 one", "451 4.7.1 two"}));
  BOOST_TEST((parse_reply("550 no enhanced code").value() == Lines{"550 no enhanced code"}));
  for (const char* bad :
       {"250 ok", "55 x", "550", "550 ", "550 4.7.1 mixed", "450 5.7.1 mixed", "550-only", "550 a\r\n451 b",
        "550-a\r\n551 b", "550 a\r\n550 b", "550 a\nb", "550 a\rb", "", "550-a\r\n"})
    BOOST_TEST(parse_reply(bad).error().is(MilterError::bad_reply), bad);
}

BOOST_AUTO_TEST_CASE(edits_are_taken_apart_and_must_have_been_agreed_on) {
  const auto insert = parse_edit({'i', "\0\0\0\2X-New\0 v\0"s}, action::kAll);
  BOOST_TEST_REQUIRE((insert && *insert));
  BOOST_TEST((*insert)->index == 2U);
  BOOST_TEST((*insert)->name == "X-New");
  BOOST_TEST((*insert)->value == " v");
  const auto added = parse_edit({'2', "<a@b>\0NOTIFY=NEVER\0"s}, action::kAll);
  BOOST_TEST((*added)->value == "NOTIFY=NEVER");
  BOOST_TEST((**parse_edit({'b', "any\0bytes"s}, action::kAll)).value == "any\0bytes"s);
  BOOST_TEST(!parse_edit({'c', {}}, action::kAll)->has_value());
  BOOST_TEST(parse_edit({'h', "a\0b\0"s}, action::kChangeBody).error().is(MilterError::incompatible));
  BOOST_TEST(parse_edit({'h', "a\0b"s}, action::kAll).error().is(MilterError::malformed));
  BOOST_TEST(parse_edit({'h', "a\0b\0c"s}, action::kAll).error().is(MilterError::malformed));
  BOOST_TEST(parse_edit({'m', "\0\0"s}, action::kAll).error().is(MilterError::malformed));
}

BOOST_AUTO_TEST_CASE(verdicts) {
  BOOST_TEST((parse_final({'c', {}}).value()->answer == Answer::go_on));
  BOOST_TEST((parse_final({'a', {}}).value()->answer == Answer::accept));
  BOOST_TEST((parse_final({'d', {}}).value()->answer == Answer::discard));
  BOOST_TEST(!parse_final({'p', {}}).value().has_value());
  BOOST_TEST(parse_final({'r', {}}).value()->reply.front() == "550 5.7.1 Command rejected");
  BOOST_TEST(parse_final({'y', "450 4.2.0 later\0"s}).value()->reply.front() == "450 4.2.0 later");
  BOOST_TEST(!parse_final({'y', "450 4.2.0 later"s}));
  for (const std::string& cut : {""s, "\0"s, "5\0"s, "55\0"s, "550\0"s, "550 5.7.1 a\0b\0"s, "550-5.7.1 a\r\n\0"s})
    BOOST_TEST(!parse_final({'y', cut}));
  BOOST_TEST(!parse_final({'c', "data"s}));
  BOOST_TEST(!parse_final({'?', {}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::milter
