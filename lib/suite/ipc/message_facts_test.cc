/// The facts of a message on their way: what is stored and what is sent of them, to the byte.
#include "lib/mail/message_facts.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/queue.h"

namespace pen::ipc {
BOOST_AUTO_TEST_SUITE(message_facts)

namespace {

/// Each fact with a value that is not its default.
mail::MessageFacts every_fact() {
  return {WallTime(seconds(1'800'000'000)),
          "ada@one.example",
          "id7",
          mail::Ret::headers,
          mail::BodyType::eight_bit_mime,
          true,
          mail::RequireTls::yes,
          {"client.example", "192.0.2.7", 1025, "helo.example", "ESMTPSA", "reverse.example", "PLAIN", "ada",
           "ada@login.example"},
          {.size = 1200,
           .header_size = 90,
           .longest_line = 76,
           .eight_bit_header = true,
           .eight_bit_body = false,
           .nul = true},
          mail::Purpose::traced,
          "+=",
          "acme",
          -7,
          WallTime(seconds(1'800'003'600)),
          "for;3600",
          "signer.example"};
}
const mail::Recipient kEve{.address = "eve@three.example", .original = {}, .orcpt = {}, .notify = 0};

mail::Envelope sample_envelope() {
  mail::Envelope e;
  e.facts() = every_fact();
  e.queue_id = "4bGNsx3Ynxz1kGz8";
  e.recipients.push_back(kEve);
  e.message_id = "<7@one.example>";
  e.discharges.push_back({"4bOther", {0, 3}, 1});
  e.transport = "smtp:relay";
  e.filter = "scan:";
  e.hold = true;
  return e;
}
delivery::Job sample_job() {
  delivery::Job j;
  j.facts() = every_fact();
  j.job = 3;
  j.connection = 4;
  j.slot = 5;
  j.queue_id = "4bGNsx3Ynxz1kGz8";
  j.active = WallTime(seconds(1'800'000'001));
  j.nexthop = "three.example";
  j.recipients.push_back({1, kEve});
  j.body_offset = 512;
  j.inline_body = "body";
  j.soft_refusals = true;
  j.shaped = true;
  j.provider = "big";
  j.other_hosts = true;
  j.other_sender = true;
  j.attempt = 3;
  return j;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

/// So that the other cases look at every fact. This one does not compile with a list that lacks one.
BOOST_AUTO_TEST_CASE(no_fact_of_the_sample_has_its_default) {
  const mail::MessageFacts none, all = every_fact();
  const auto& [arrival, sender, envid, ret, body_type, smtputf8, requiretls, client, body, purpose, verp, tenant,
               priority, release, release_request, signer] = all;
  BOOST_TEST((arrival != none.arrival));
  BOOST_TEST(sender != none.sender);
  BOOST_TEST(envid != none.envid);
  BOOST_TEST((ret != none.ret));
  BOOST_TEST((body_type != none.body_type));
  BOOST_TEST(smtputf8 != none.smtputf8);
  BOOST_TEST((requiretls != none.requiretls));
  BOOST_TEST((client != none.client));
  BOOST_TEST((body != none.body));
  BOOST_TEST((purpose != none.purpose));
  BOOST_TEST(verp != none.verp);
  BOOST_TEST(tenant != none.tenant);
  BOOST_TEST(priority != none.priority);
  BOOST_TEST((release != none.release));
  BOOST_TEST(release_request != none.release_request);
  BOOST_TEST(signer != none.signer);
}

BOOST_AUTO_TEST_CASE(every_fact_travels_with_an_envelope_and_with_a_job) {
  const auto travels_with = []<class Carrier>(Carrier carrier) {
    carrier.envelope = sample_envelope();
    const std::string bytes = encode(carrier);
    const auto read = decode<Carrier>(bytes);
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST((read->envelope == sample_envelope()));
  };
  travels_with(enqueue::Enqueue());
  travels_with(bounce::Notify());
  travels_with(queue::Content());
  const std::string bytes = encode(sample_job());
  const auto job = decode<delivery::Job>(bytes);
  BOOST_TEST_REQUIRE(job.has_value());
  BOOST_TEST((job->facts() == every_fact()));
}

/// In the queue log, and in the conversation "enqueue": older and newer programs read the same bytes.
BOOST_AUTO_TEST_CASE(an_envelope_has_the_bytes_that_it_always_had) {
  BOOST_TEST(hex(encode(sample_envelope())) ==
             "103462474e737833596e787a316b477a388080c489e5c5b2060f616461406f6e652e6578616d706c65011165766540746872"
             "65652e6578616d706c6500000003696437020201010e636c69656e742e6578616d706c65093139322e302e322e3781080c68"
             "656c6f2e6578616d706c650745534d545053410f726576657273652e6578616d706c6505504c41494e036164611161646140"
             "6c6f67696e2e6578616d706c65b0095a4c0100010f3c37406f6e652e6578616d706c653e010734624f74686572020003010a"
             "736d74703a72656c6179057363616e3a0101022b3d");
}

/// Other bytes are another version of the conversations (kVersion).
BOOST_AUTO_TEST_CASE(a_job_has_the_bytes_of_this_version) {
  BOOST_TEST(hex(encode(sample_job())) ==
             "030405103462474e737833596e787a316b477a388080c489e5c5b2068089be8ae5c5b2060f616461406f6e652e6578616d70"
             "6c650d74687265652e6578616d706c650101116576654074687265652e6578616d706c6500000003696437020201010e636c"
             "69656e742e6578616d706c65093139322e302e322e3781080c68656c6f2e6578616d706c650745534d545053410f72657665"
             "7273652e6578616d706c6505504c41494e0361646111616461406c6f67696e2e6578616d706c65b0095a4c01000180040462"
             "6f6479010101022b3d01030461636d6501036269670d8090e1f2ffc5b20608666f723b333630300e7369676e65722e657861"
             "6d706c65");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::ipc
