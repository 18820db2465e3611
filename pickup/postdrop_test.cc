#include "pickup/postdrop.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::pickup;

namespace {

/// A record; its data is shorter than 128 bytes.
std::string record(char type, const std::string& data = "") {
  return std::string(1, type) + static_cast<char>(data.size()) + data;
}

/// What Debian's sendmail writes for -N success,failure -V env1 -R hdrs -F 'Full Name' -f a@x.example b@… c@….
std::string message(const std::string& content) {
  return record('A', "envelope_id=env1") + record('A', "ret_flags=2") + record('A', "rewrite_context=local") +
         record('F', "Full Name") + record('S', "a@x.example") + record('A', "notify_flags=6") +
         record('R', "b@y.example") + record('A', "notify_flags=6") + record('R', "c@y.example") + record('M') +
         content + record('X') + record('E');
}

constexpr WallTime kNow{std::chrono::seconds(1'795'792'370)};

}  // namespace

BOOST_AUTO_TEST_SUITE(postdrop)

BOOST_AUTO_TEST_CASE(what_sendmail_of_postfix_writes_is_a_submission) {
  const auto m = read_postdrop(
      message(record('N', "Subject: hi") + record('N') + record('L', "a long ") + record('N', "line")), kNow);
  BOOST_REQUIRE_MESSAGE(m, (m ? "" : m.error().message()));
  const auto& s = m->submission;
  BOOST_TEST(s.sender == "a@x.example");
  BOOST_TEST(s.envid == "env1");
  BOOST_CHECK(s.ret == mail::Ret::headers);
  BOOST_TEST(s.full_name == "Full Name");
  BOOST_REQUIRE_EQUAL(s.recipients.size(), 2U);
  BOOST_TEST(s.recipients[1].address == "c@y.example");
  BOOST_TEST(s.recipients[1].notify == (mail::notify::kSuccess | mail::notify::kFailure));
  BOOST_TEST(m->content == "Subject: hi\n\na long line\n");
}

BOOST_AUTO_TEST_CASE(recipients_of_the_header_come_behind_the_content) {
  const auto m = read_postdrop(record('A', "rewrite_context=local") + record('S') + record('A', "encoding=8bit") +
                                   record('A', "trace_flags=1024") + record('M') + record('N', "To: b@y.example") +
                                   record('X') + record('R', "b@y.example") + record('E'),
                               kNow);
  BOOST_REQUIRE_MESSAGE(m, (m ? "" : m.error().message()));
  BOOST_TEST(m->submission.sender == "");
  BOOST_REQUIRE_EQUAL(m->submission.recipients.size(), 1U);
  BOOST_CHECK(m->submission.body_type == mail::BodyType::eight_bit_mime);
  BOOST_CHECK(m->submission.purpose == mail::Purpose::traced);
}

BOOST_AUTO_TEST_CASE(a_report_without_a_delivery_is_a_probe) {
  const auto m = read_postdrop(record('S', "a@x.example") + record('A', "trace_flags=512") +
                                   record('R', "b@y.example") + record('M') + record('X') + record('E'),
                               kNow);
  BOOST_REQUIRE_MESSAGE(m, (m ? "" : m.error().message()));
  BOOST_CHECK(m->submission.purpose == mail::Purpose::probe);
}

BOOST_AUTO_TEST_CASE(a_carriage_return_of_a_line_stays) {
  const auto m = read_postdrop(message(record('N', "A: b\r") + record('N') + record('L', "x\r") + record('N') +
                                       record('L', "y\r") + record('N', "z")),
                               kNow);
  BOOST_REQUIRE(m);
  BOOST_TEST(m->content == "A: b\r\r\n\nx\r\r\ny\rz\n");
}

BOOST_AUTO_TEST_CASE(what_is_not_whole_or_not_for_users_is_refused) {
  const std::string whole = message(record('N', "x"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    BOOST_CHECK_MESSAGE(!read_postdrop(whole.substr(0, size), kNow), size);
  const auto with = [](const std::string& more) {
    return read_postdrop(
        more + record('S', "a@x.example") + record('R', "b@y.example") + record('M') + record('X') + record('E'), kNow);
  };
  BOOST_CHECK(with(""));
  BOOST_CHECK(!with(record('L', "smtp:[192.0.2.1]")));
  BOOST_CHECK(!with(record('>', "other@y.example")));
  BOOST_CHECK(!with(record('g', "garbage")));
  // No recipient.
  BOOST_CHECK(!read_postdrop(record('S', "a@x.example") + record('M') + record('X') + record('E'), kNow));
}

BOOST_AUTO_TEST_CASE(answers_are_names_and_values_with_zero_bytes) {
  using namespace std::string_literals;
  BOOST_TEST(postdrop_greeting("84740A862BC") == "protocol\0postdrop_protocol\0queue_id\084740A862BC\0\0"s);
  BOOST_TEST(postdrop_end(PostdropStatus::ok) == "status\0000\0reason\0\0\0"s);
}

BOOST_AUTO_TEST_SUITE_END()
