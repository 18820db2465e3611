/// Messages of the active set: what they keep, packed or not, and how much memory that takes.
#include "qmgr/message.h"

#include <malloc.h>

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
namespace {

mail::Envelope envelope(std::size_t recipients = 1) {
  mail::Envelope e;
  e.queue_id = "4bGNsx3Ynxz1kGz8";
  e.sender = "sender@load.example";
  for (std::size_t i = 0; i < recipients; ++i)
    e.recipients.push_back({.address = "user" + std::to_string(i) + "@d7.far.example",
                            .original = {},
                            .orcpt = "rfc822;user@far.example",
                            .notify = mail::notify::kFailure});
  e.client = {"load.example", "127.0.0.1", 1025, "load.example", "ESMTP", {}, {}, {}, {}};
  e.body.size = 120;
  e.body.dots = {7, 90};
  e.message_id = "<4bGNsx3Ynxz1kGz8@load.example>";
  e.discharges.push_back({"4bOther", {0, 3}, 1});
  return e;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(message)

BOOST_AUTO_TEST_CASE(a_packed_envelope_is_what_it_was) {
  Unpacked unpacked;
  Active m;
  m.set_envelope(envelope());
  m.keep_in(unpacked);
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST(unpacked.count == 1U);
    m.pack();
    BOOST_TEST(unpacked.count == 0U);
    BOOST_TEST(m.id() == "4bGNsx3Ynxz1kGz8");
    BOOST_TEST((m.envelope() == envelope()));
  }
}

BOOST_AUTO_TEST_CASE(those_unpacked_are_listed_oldest_first_and_leave_the_list_when_they_end) {
  Unpacked unpacked;
  auto a = std::make_unique<Active>(), b = std::make_unique<Active>();
  for (auto* m : {a.get(), b.get()}) {
    m->set_envelope(envelope());
    m->keep_in(unpacked);
  }
  BOOST_TEST(&unpacked.first() == a.get());
  a->pack();
  BOOST_TEST(&unpacked.first() == b.get());
  BOOST_TEST(a->envelope().sender == "sender@load.example");
  BOOST_TEST(unpacked.count == 2U);
  b.reset();
  BOOST_TEST(unpacked.count == 1U);
  BOOST_TEST(&unpacked.first() == a.get());
  a.reset();
  BOOST_TEST(unpacked.count == 0U);
}

BOOST_AUTO_TEST_CASE(an_envelope_with_many_recipients_stays_unpacked) {
  Unpacked unpacked;
  Active m;
  m.set_envelope(envelope(Active::kPackRecipients + 1));
  m.keep_in(unpacked);
  BOOST_TEST(unpacked.count == 0U);
  const auto* before = &m.envelope();
  m.pack();
  BOOST_TEST(&m.envelope() == before);
}

BOOST_AUTO_TEST_CASE(a_message_is_self_contained_unless_its_body_is_in_a_file) {
  queue_log::Envelope stored;  // used again for each message
  for (const std::uint64_t file : {0U, 7U, 0U}) {
    to_log(envelope(), beginning_of(envelope(), {}), {}, file, 0, stored);
    BOOST_TEST(stored.self_contained == (file == 0));
    queue_log::Stored again;
    again.envelope = stored;
    const auto m = from_log(std::move(again));
    BOOST_REQUIRE(m != nullptr);
    BOOST_TEST(to_log(*m, {}).self_contained == (file == 0));
  }
}

BOOST_AUTO_TEST_CASE(payloads_of_older_layouts_can_be_read) {
  mail::Envelope e = envelope();
  e.filter = "scan:";
  e.hold = true;
  e.purpose = mail::Purpose::traced;
  queue_log::Envelope stored;
  to_log(e, beginning_of(e, {}), "body", 0, 0, stored);
  const auto now = read_payload(stored.payload);
  BOOST_TEST_REQUIRE(now.has_value());
  BOOST_TEST((now->envelope == e));
  BOOST_TEST(now->inline_body == "body");
  const auto reads = [&](std::string old) {
    Encoder encode_rest(old);
    encode_rest(std::vector<Note>{}, true, std::uint64_t{0}, std::uint64_t{9},
                std::string_view("body"), std::vector<Deaths>{{0, 2}});
    const auto then = read_payload(old);
    BOOST_TEST_REQUIRE(then.has_value());
    BOOST_TEST((then->envelope == e));
    BOOST_TEST(then->forced_expire);
    BOOST_TEST(then->spool_offset == 9U);
    BOOST_TEST(then->inline_body == "body");
    BOOST_TEST(then->deaths.size() == 1U);
  };
  // Layout 2: no purpose.
  e.purpose = mail::Purpose::mail;
  std::string whole = encode(e);
  whole.pop_back();
  const std::string mark(1, '\0');
  reads(mark + "\2" + whole);
  BOOST_TEST(!read_payload(mark + "\4" + whole).has_value());
  // Layout 1: no mark, no filter, no hold.
  e.filter.clear();
  e.hold = false;
  whole = encode(e);
  reads(whole.substr(0, whole.size() - 3));
}

#if !defined(PEN_SANITIZED) && defined(__GLIBC__)
BOOST_AUTO_TEST_CASE(a_message_that_waits_takes_less_than_900_bytes) {
  constexpr std::size_t kMessages = 1000;
  Unpacked unpacked;
  std::vector<std::unique_ptr<Active>> waiting;
  waiting.reserve(kMessages);
  queue_log::Envelope stored;
  to_log(envelope(), beginning_of(envelope(), {}), std::string(120, 'x'), 0, 0, stored);
  const auto before = ::mallinfo2().uordblks;
  for (std::size_t i = 0; i < kMessages; ++i) {
    queue_log::Stored s;
    s.envelope.recipients = 1;
    s.envelope.remaining = queue_log::OrdinalSet::one(0);
    s.envelope.payload = stored.payload;
    waiting.push_back(from_log(std::move(s)));
    waiting.back()->keep_in(unpacked);
    waiting.back()->pack();
  }
  const auto each = (::mallinfo2().uordblks - before) / kMessages;
  BOOST_TEST(each < 900U);
  BOOST_TEST(each > sizeof(Active));  // it counts what it should
}
#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
