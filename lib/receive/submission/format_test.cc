#include "lib/receive/submission/format.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

namespace pen::submission {
BOOST_AUTO_TEST_SUITE(submission_format)

namespace {

Submission sample() {
  Submission s;
  s.queue_id = "4bGNsx3Ynxz1kGz8Q";
  s.arrival = WallTime(microseconds(1795334400000000));
  s.sender = "ada@example.org";
  s.full_name = "Ada L.";
  s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 2}};
  s.envid = "id 1";
  return s;
}

/// The fields that version 1 began with.
struct First {
  std::string queue_id;
  WallTime arrival{};
  std::string sender, full_name;
  std::vector<mail::Recipient> recipients;
  std::string envid;
  mail::Ret ret = mail::Ret::unspecified;
  mail::BodyType body_type = mail::BodyType::unspecified;
  PEN_FIELDS(queue_id, arrival, sender, full_name, recipients, envid, ret, body_type)
};

BOOST_AUTO_TEST_CASE(a_head_is_read_as_it_was_written) {
  const std::string bytes = head(sample());
  BOOST_TEST(head_size(bytes.substr(0, kPrefixSize)).value() == bytes.size());
  BOOST_TEST((parse_head(bytes).value() == sample()));
}

BOOST_AUTO_TEST_CASE(a_head_cut_short_or_of_another_version_is_refused) {
  const std::string bytes = head(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) BOOST_TEST(!parse_head(bytes.substr(0, n)));
  std::string newer = bytes;
  newer[8] = 2;
  BOOST_TEST(parse_head(newer).error().is(FormatError::other_version));
  std::string long_one = bytes;
  long_one[15] = 1;  // 16 MiB of envelope
  BOOST_TEST(head_size(long_one).error().is(FormatError::damaged));
}

BOOST_AUTO_TEST_CASE(what_a_reader_may_not_know_is_only_written_where_it_says_something) {
  Submission s = sample();
  BOOST_REQUIRE(decode<First>(encode(s)));
  BOOST_TEST(decode<First>(encode(s))->envid == s.envid);
  for (int more = 0; more < 64; ++more) {
    if ((more & 17) == 17) continue;
    s.purpose = (more & 1) != 0 ? mail::Purpose::probe : (more & 16) != 0 ? mail::Purpose::traced : mail::Purpose::mail;
    s.smtputf8 = (more & 2) != 0;
    s.requiretls = (more & 4) != 0 ? mail::RequireTls::yes : mail::RequireTls::unspecified;
    s.gateway = (more & 8) != 0;
    s.verp = (more & 32) != 0 ? "+=" : "";
    BOOST_TEST((parse_head(head(s)).value() == s));
    BOOST_TEST(decode<First>(encode(s)).has_value() == (more == 0));
  }
}

/// A file in maildrop may be older than the program that reads it.
BOOST_AUTO_TEST_CASE(a_submission_has_the_bytes_that_it_always_had) {
  Submission s = sample();
  s.arrival = WallTime(seconds(1'800'000'000));
  s.queue_id = "4bGNsx3Ynxz1kGz8";
  s.sender = "ada@one.example";
  s.full_name = "Ada";
  s.recipients = {{.address = "eve@three.example", .original = {}, .orcpt = {}, .notify = 0}};
  s.envid = "id7";
  s.ret = mail::Ret::headers;
  s.body_type = mail::BodyType::eight_bit_mime;
  s.smtputf8 = true;
  s.requiretls = mail::RequireTls::yes;
  s.gateway = true;
  s.purpose = mail::Purpose::traced;
  s.verp = "+=";
  std::string hex;
  for (const char c : encode(s)) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  BOOST_TEST(hex ==
             "103462474e737833596e787a316b477a388080c489e5c5b2060f616461406f6e652e6578616d706c65034164610111657665"
             "4074687265652e6578616d706c650000000369643702020001010101022b3d");
}

BOOST_AUTO_TEST_CASE(what_must_not_get_into_an_envelope_is_refused) {
  const auto refused = [](auto change) {
    Submission s = sample();
    change(s);
    return decode_submission(encode(s), true).has_value() == false;
  };
  BOOST_TEST(!refused([](Submission&) {}));
  BOOST_TEST(!refused([](Submission& s) { s.verp = "-+"; }));
  for (const char* verp : {"+", "+=+", "+a", "+@", "\"=", "+\n"})
    BOOST_TEST(refused([verp](Submission& s) { s.verp = verp; }), verp);
  BOOST_TEST(refused([](Submission& s) { s.queue_id = "../../etc/passwd"; }));
  BOOST_TEST(refused([](Submission& s) { s.queue_id.clear(); }));
  BOOST_TEST(refused([](Submission& s) { s.sender = "a\nb@example.org"; }));
  BOOST_TEST(refused([](Submission& s) { s.recipients.clear(); }));
  BOOST_TEST(refused([](Submission& s) { s.recipients[0].address.clear(); }));
  BOOST_TEST(refused([](Submission& s) { s.recipients[0].address.assign(5000, 'a'); }));
  BOOST_TEST(refused([](Submission& s) { s.recipients[0].notify = 12; }));
  BOOST_TEST(refused([](Submission& s) { s.full_name = "a\r\nBcc: x"; }));
  BOOST_TEST(refused([](Submission& s) { s.envid.assign(101, 'a'); }));
  BOOST_TEST(refused([](Submission& s) { s.purpose = Submission::kProbeAndTraced; }));
  BOOST_TEST(refused([](Submission& s) { s.recipients.resize(kMaxRecipients + 1, s.recipients[0]); }));
  // The caller must not choose the queue id.
  BOOST_TEST(!decode_submission(encode(sample()), false));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
