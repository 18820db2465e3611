/// Messages of the active set: what they keep, packed or not, and how much memory that takes.
#include "qmgr/message.h"

#include "lib/queue/queue_log/queue_log.h"

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
  e.message_id = "<4bGNsx3Ynxz1kGz8@load.example>";
  e.discharges.push_back({"4bOther", {0, 3}, 1});
  return e;
}

/// What older layouts wrote of one message, in hex: up to Envelope::transport, and from the notes on. Between them
/// layout 2 has the filter and hold, layout 3 the purpose too.
constexpr std::string_view kOldEnvelope =
    "103462474e737833596e787a316b477a388080c489e5c5b2060f616461406f6e652e6578616d706c"
    "65020f626f624074776f2e6578616d706c6512726f626572744074776f2e6578616d706c65197266"
    "633832323b726f626572744074776f2e6578616d706c6502116576654074687265652e6578616d70"
    "6c6500000003696437020201010e636c69656e742e6578616d706c65093139322e302e322e378108"
    "0c68656c6f2e6578616d706c650745534d545053410f726576657273652e6578616d706c6505504c"
    "41494e0361646111616461406c6f67696e2e6578616d706c65b0095a4c010001025fac02010f3c37"
    "406f6e652e6578616d706c653e010734624f74686572020003010a736d74703a72656c6179";
constexpr std::string_view kOldRest =
    "01010105342e342e310974696d6564206f757400106d782e74687265652e6578616d706c658084f3"
    "e8e5c5b2060401000904626f6479010102";

std::string from_hex(std::string_view hex) {
  std::string out;
  for (; !hex.empty(); hex.remove_prefix(2))
    out += static_cast<char>(std::stoi(std::string(hex.substr(0, 2)), nullptr, 16));
  return out;
}

/// That message.
mail::Envelope old_envelope() {
  mail::Envelope e;
  e.queue_id = "4bGNsx3Ynxz1kGz8";
  e.arrival = WallTime(seconds(1'800'000'000));
  e.sender = "ada@one.example";
  e.recipients.push_back({.address = "bob@two.example",
                          .original = "robert@two.example",
                          .orcpt = "rfc822;robert@two.example",
                          .notify = mail::notify::kFailure});
  e.recipients.push_back({.address = "eve@three.example", .original = {}, .orcpt = {}, .notify = 0});
  e.envid = "id7";
  e.ret = mail::Ret::headers;
  e.body_type = mail::BodyType::eight_bit_mime;
  e.smtputf8 = true;
  e.requiretls = mail::RequireTls::yes;
  e.client = {"client.example",  "192.0.2.7", 1025,  "helo.example",     "ESMTPSA",
              "reverse.example", "PLAIN",     "ada", "ada@login.example"};
  e.body = {.size = 1200,
            .header_size = 90,
            .longest_line = 76,
            .eight_bit_header = true,
            .eight_bit_body = false,
            .nul = true};
  e.message_id = "<7@one.example>";
  e.discharges.push_back({"4bOther", {0, 3}, 1});
  e.transport = "smtp:relay";
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

BOOST_AUTO_TEST_CASE(what_has_no_queue_id_is_no_message) {
  for (const std::string id : {"../../root/.profile", "", "a/b", "A 1"}) {
    mail::Envelope odd = envelope();
    odd.queue_id = id;
    queue_log::Stored stored;
    to_log(odd, beginning_of(odd, {}), {}, 0, 0, stored.envelope);
    BOOST_TEST(from_log(std::move(stored)) == nullptr, id);
  }
}

BOOST_AUTO_TEST_CASE(what_older_layouts_wrote_is_read_and_written_anew) {
  mail::Envelope e = old_envelope();
  const auto reads = [&](const std::string& old) {
    const auto then = read_payload(old);
    BOOST_TEST_REQUIRE(then.has_value());
    BOOST_TEST((then->envelope == e));
    BOOST_TEST_REQUIRE(then->notes.size() == 1U);
    BOOST_TEST(then->notes[0].status.text == "timed out");
    BOOST_TEST(then->forced_expire);
    BOOST_TEST(then->spool_offset == 9U);
    BOOST_TEST(then->inline_body == "body");
    BOOST_TEST_REQUIRE(then->deaths.size() == 1U);
    BOOST_TEST(then->deaths[0].count == 2U);

    queue_log::Stored stored;
    stored.envelope.recipients = 2;
    stored.envelope.remaining = queue_log::OrdinalSet::one(1);
    stored.envelope.payload = old;
    const auto m = from_log(std::move(stored));
    BOOST_REQUIRE(m != nullptr);
    BOOST_TEST((m->envelope() == e));
    const auto anew = to_log(*m, m->body);
    BOOST_TEST(anew.payload.starts_with(encode(PayloadLayout{})));
    const auto again = read_payload(anew.payload);
    BOOST_TEST_REQUIRE(again.has_value());
    BOOST_TEST((again->envelope == e));
    BOOST_TEST(again->inline_body == "body");
    BOOST_TEST(again->notes.size() == 1U);
  };
  const std::string envelope_bytes = from_hex(kOldEnvelope), rest = from_hex(kOldRest);
  reads(envelope_bytes + rest);
  e.filter = "scan:";
  e.hold = true;
  const std::string filter_and_hold = "\5scan:\1";
  const std::string mark(1, '\0');
  reads(mark + "\2" + envelope_bytes + filter_and_hold + rest);
  e.purpose = mail::Purpose::traced;
  reads(mark + "\3" + envelope_bytes + filter_and_hold + "\1" + rest);
  BOOST_TEST(!read_payload(mark + "\x8" + envelope_bytes + rest).has_value());
}

BOOST_AUTO_TEST_CASE(only_mail_with_something_new_has_the_layout_that_knows_it) {
  const auto written = [](const mail::Envelope& e) {
    queue_log::Envelope out;
    to_log(e, beginning_of(e, e.arrival), "body", 0, 0, out);
    return out.payload;
  };
  mail::Envelope e = old_envelope();
  BOOST_TEST(written(e).starts_with(std::string("\0\4", 2)));
  e.verp = "-=";
  const std::string payload = written(e);
  BOOST_TEST(payload.starts_with(std::string("\0\5", 2)));
  const auto back = read_payload(payload);
  BOOST_TEST_REQUIRE(back.has_value());
  BOOST_TEST((back->envelope == e));
  BOOST_TEST(back->inline_body == "body");
  // A tenant comes after what layout 5 has, which is as it was.
  e.tenant = "acme";
  std::string with_tenant = payload;
  with_tenant[1] = '\6';
  with_tenant.insert(payload.find("\2-=") + 3, "\4acme");
  BOOST_TEST(written(e) == with_tenant);
  const auto owned = read_payload(with_tenant);
  BOOST_TEST_REQUIRE(owned.has_value());
  BOOST_TEST((owned->envelope == e));
  BOOST_TEST(owned->inline_body == "body");
  e.verp.clear();
  BOOST_TEST(written(e).starts_with(std::string("\0\6", 2)));
  BOOST_TEST((read_payload(written(e))->envelope == e));
  // A priority or a time to be sent at comes after that.
  for (int i = 0; i < 2; ++i) {
    mail::Envelope urgent = old_envelope();
    if (i == 0) urgent.priority = -3;
    if (i == 1) {
      urgent.release = urgent.arrival + seconds(60);
      urgent.release_request = "for;60";
    }
    const std::string bytes = written(urgent);
    BOOST_TEST(bytes.starts_with(std::string("\0\7", 2)));
    const auto read = read_payload(bytes);
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST((read->envelope == urgent));
    BOOST_TEST(read->inline_body == "body");
  }
  // A signer comes last.
  mail::Envelope of_another = old_envelope();
  of_another.signer = "signer.example";
  of_another.release = of_another.arrival + seconds(60);
  const std::string bytes = written(of_another);
  BOOST_TEST(bytes.starts_with(std::string("\0\10", 2)));
  const auto read = read_payload(bytes);
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST((read->envelope == of_another));
  BOOST_TEST(read->inline_body == "body");
  queue_log::Stored stored;
  stored.envelope.payload = bytes;
  BOOST_TEST((release_of(stored) == of_another.release));
}

BOOST_AUTO_TEST_CASE(a_packed_envelope_keeps_its_tenant) {
  mail::Envelope e = envelope();
  e.tenant = "acme";
  e.priority = 4;
  e.release = e.arrival + seconds(60);
  e.release_request = "for;60";
  e.signer = "signer.example";
  Unpacked unpacked;
  Active m;
  m.set_envelope(e);
  m.keep_in(unpacked);
  m.pack();
  BOOST_TEST((m.envelope() == e));
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

BOOST_AUTO_TEST_CASE(words_are_cut_between_characters) {
  mail::DeliveryStatus s{mail::Action::failed, "5.1.1", {}, {}, "mx.example"};
  s.text = std::string(496, 'a') + "\xc3\xa4" + std::string(100, 'b');
  s.diagnostic = std::string(500, 'd');
  shorten(s);
  BOOST_TEST(s.text == std::string(496, 'a') + "...");
  BOOST_TEST(s.diagnostic == std::string(500, 'd'));
  BOOST_TEST(s.remote_mta == "mx.example");
  shorten(s, 0);
  BOOST_TEST(s.text + s.diagnostic + s.remote_mta == "");
}

BOOST_AUTO_TEST_CASE(what_is_known_of_recipients_fits_beside_an_immense_envelope) {
  Active m;
  mail::Envelope e;
  e.queue_id = "A1";
  const std::size_t kRecipients = 50'000;
  for (std::uint32_t i = 0; i < kRecipients; ++i) {
    e.recipients.push_back({.address = std::string(500, 'a'), .original = {}, .orcpt = {}, .notify = 0});
    m.notes[i] =
        Note{i,
             {mail::Action::failed, "5.1.1", std::string(500, 't'), std::string(500, 'd'), std::string(255, 'h')},
             WallTime(seconds(1)),
             mail::notify::kFailure};
  }
  m.set_envelope(std::move(e));
  const auto stored = to_log(m, std::string(20'000'000, 'b'));
  BOOST_TEST(stored.payload.size() <= queue_log::QueueLog::kMaxMessage);
  const auto back = read_payload(stored.payload);
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(back->notes.size() == kRecipients);
  BOOST_TEST(back->notes.back().owed == mail::notify::kFailure);
  BOOST_TEST(!back->notes.back().status.text.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
