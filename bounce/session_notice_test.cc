#include "bounce/session_notice.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/error_class.h"
#include "lib/receive/intake/fakes.h"

using namespace pen;
using namespace pen::bounce;
using ipc::session_errors::Role;
using ipc::session_errors::Session;
using mail::ErrorClass;

BOOST_AUTO_TEST_SUITE(session_notices)

namespace {

SessionNoticeSettings settings(std::string errors_to = "errors", std::string bounces_to = "bounces@example.net") {
  return {.mail_name = "Penstock",
          .hostname = "mx.example.org",
          .origin = "example.org",
          .errors_to = std::move(errors_to),
          .bounces_to = std::move(bounces_to),
          .sender = "double-bounce@mx.example.org"};
}
Session session_of(mail::ErrorClasses classes) {
  Session s;
  s.peer = "client.example[192.0.2.7]";
  s.classes = classes.bits();
  s.transcript = "Out: 220 mx.example.org\nIn:  FROB\nOut: 500 5.5.2 Error\n";
  return s;
}
std::string text_of(const Session& session, std::uint64_t left_out = 0) {
  return session_notice(session, settings(), "<1@mx.example.org>", WallTime{}, left_out);
}

struct World {
  World() : World("errors", "bounces@example.net") {}
  World(std::string errors_to, std::string bounces_to)
      : pool(loop, 1), random(1), notices(intake, settings(std::move(errors_to), std::move(bounces_to)), random) {
    intake.settings.myhostname = "mx.example.org";
    intake.settings.message_size_limit = 0;
    intake.expansion_waits = false;
  }
  void send(Session session) {
    loop.spawn("test", notices.send(std::move(session)));
    loop.run();
  }
  async::Loop loop;
  async::HandlerPool pool;
  intake::fakes::MemoryQueue queue;
  int ids = 0;
  intake::Intake intake{loop,  pool,
                        queue, std::make_shared<intake::fakes::SetResolve>(),
                        {},    [this] { return "NEW" + std::to_string(++ids); }};
  Random random;
  SessionNotices notices;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_notice_has_the_transcript_and_says_that_it_is_automatic) {
  auto session = session_of(ErrorClass::protocol);
  session.reason = "timeout";
  const std::string text = text_of(session);
  for (const char* line :
       {"From: Mail Delivery System <MAILER-DAEMON@example.org>\r\n", "To: Postmaster <errors@example.org>\r\n",
        "Subject: Penstock SMTP server: errors from client.example[192.0.2.7]\r\n",
        "Auto-Submitted: auto-generated\r\n", "Message-ID: <1@mx.example.org>\r\n",
        "\r\n\r\nErrors of class protocol in a session with client.example[192.0.2.7].\r\n",
        "\r\n Out: 220 mx.example.org\r\n In:  FROB\r\n Out: 500 5.5.2 Error\r\n",
        "\r\nSession aborted, reason: timeout\r\n"})
    BOOST_TEST(text.find(line) != std::string::npos, line);
  session.role = Role::lmtp_client;
  BOOST_TEST(text_of(session).find("Subject: Penstock LMTP client: errors from") != std::string::npos);
  BOOST_TEST(text_of(session, 17).find("there were 17 more such sessions") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(names_are_written_as_header_from_format_says) {
  auto obsolete = settings();
  obsolete.obsolete_from = true;
  const std::string text = session_notice(session_of(ErrorClass::protocol), obsolete, "<1@x>", WallTime{}, 0);
  BOOST_TEST(text.find("\r\nFrom: MAILER-DAEMON@example.org (Mail Delivery System)\r\n"
                       "To: errors@example.org (Postmaster)\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_a_peer_says_cannot_leave_its_place) {
  auto session = session_of(ErrorClass::protocol);
  session.peer = "a\r\nBcc: <x@example.org>\xff";
  session.transcript = "In:  " + std::string(300, 'x') + " y\nIn:  \x01\r\xc3\n" + std::string(1U << 20, 'z') + "\n";
  const std::string text = text_of(session);
  BOOST_TEST(text.find("\r\nBcc:") == std::string::npos);
  BOOST_TEST(text.size() < 40000u);
  std::string_view rest = std::string_view(text).substr(text.find("\r\n\r\n"));
  while (!rest.empty()) {
    const auto end = rest.find("\r\n");
    BOOST_TEST(end <= 400u);
    for (const char c : rest.substr(0, end)) BOOST_REQUIRE((c >= 32 && c < 127));
    rest.remove_prefix(end + 2);
  }
}

BOOST_AUTO_TEST_CASE(it_is_queued_for_the_postmaster_of_its_class_from_the_sender_of_double_bounces) {
  World world;
  world.send(session_of(ErrorClass::policy));
  mail::ErrorClasses both = ErrorClass::policy;
  both.add(ErrorClass::bounce);
  world.send(session_of(both));
  BOOST_REQUIRE(world.queue.stored.size() == 2u);
  const auto& first = world.queue.stored[0];
  BOOST_TEST(first.envelope.sender == "double-bounce@mx.example.org");
  BOOST_TEST(first.envelope.recipients.at(0).address == "errors@example.org");
  BOOST_TEST(first.content.starts_with("Received: "));
  BOOST_TEST(first.content.find("Subject: Penstock SMTP server: errors") != std::string::npos);
  BOOST_TEST(world.queue.stored[1].envelope.recipients.at(0).address == "bounces@example.net");
}

BOOST_AUTO_TEST_CASE(a_flood_of_errors_makes_no_flood_of_notices) {
  World world;
  for (int i = 0; i < Allowance::kAtOnce + 7; ++i) world.send(session_of(ErrorClass::resource));
  BOOST_TEST(world.queue.stored.size() == static_cast<std::size_t>(Allowance::kAtOnce));
  BOOST_TEST(world.notices.sent() == static_cast<std::uint64_t>(Allowance::kAtOnce));

  Allowance allowance;
  const SteadyTime start{seconds(1000)};
  for (int i = 0; i < Allowance::kAtOnce; ++i) BOOST_TEST(allowance.take(start));
  BOOST_TEST(!allowance.take(start));
  BOOST_TEST(!allowance.take(start + Allowance::kEvery - milliseconds(1)));
  BOOST_TEST(allowance.take(start + Allowance::kEvery));
  BOOST_TEST(!allowance.take(start + Allowance::kEvery));
  BOOST_TEST(allowance.take_left_out() == 3u);
  BOOST_TEST(allowance.take_left_out() == 0u);
  for (int i = 0; i < Allowance::kAtOnce; ++i) BOOST_TEST(allowance.take(start + seconds(100000)));
  BOOST_TEST(!allowance.take(start + seconds(100000)));
}

BOOST_AUTO_TEST_CASE(what_clients_do_wrong_leaves_room_for_what_this_host_has_wrong) {
  World world;
  for (int i = 0; i < Allowance::kAtOnce + 7; ++i) world.send(session_of(ErrorClass::policy));
  mail::ErrorClasses both = ErrorClass::policy;
  both.add(ErrorClass::resource);
  world.send(session_of(both));
  world.send(session_of(ErrorClass::software));
  BOOST_TEST(world.notices.sent() == static_cast<std::uint64_t>(Allowance::kAtOnce) + 2);
  for (int i = 0; i < Allowance::kAtOnce + 7; ++i) world.send(session_of(ErrorClass::resource));
  world.send(session_of(ErrorClass::software));
  BOOST_TEST(world.notices.sent() == 2 * static_cast<std::uint64_t>(Allowance::kAtOnce) + 2);
}

BOOST_AUTO_TEST_CASE(a_notice_that_cannot_be_queued_is_gone_and_the_next_says_so) {
  World world;
  world.queue.outcome = intake::Enqueued::no_space;
  world.send(session_of(ErrorClass::resource));
  world.send(session_of(ErrorClass::resource));
  BOOST_TEST(world.queue.stored.empty());
  BOOST_TEST(world.notices.sent() == 0u);
  world.queue.outcome = intake::Enqueued::ok;
  world.send(session_of(ErrorClass::resource));
  world.send(session_of(ErrorClass::resource));
  BOOST_REQUIRE(world.queue.stored.size() == 2u);
  BOOST_TEST(world.queue.stored[0].content.find("there were 2 more such sessions") != std::string::npos);
  BOOST_TEST(world.queue.stored[1].content.find("more such sessions") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_empty_recipient_is_told_nothing) {
  World errors({}, "bounces@example.net");
  errors.send(session_of(ErrorClass::resource));
  BOOST_TEST(errors.queue.stored.empty());
  errors.send(session_of(ErrorClass::bounce));
  BOOST_TEST(errors.queue.stored.size() == 1u);
  World bounces("errors", {});
  bounces.send(session_of(ErrorClass::bounce));
  BOOST_TEST(bounces.queue.stored.empty());
  bounces.send(session_of(ErrorClass::resource));
  BOOST_TEST(bounces.queue.stored.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
