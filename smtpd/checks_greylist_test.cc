// check_greylist in real sessions: what is asked, and what the client hears.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(greylist)

namespace {

class Scripted final : public sessions::SenderMemory {
 public:
  async::Task<std::optional<Answer>> greylist(Question question, async::Until) override {
    asked.push_back(question);
    co_return answer;
  }
  async::Task<std::optional<QuotaAnswer>> quota(QuotaQuestion, async::Until) override { co_return std::nullopt; }
  std::vector<Question> asked;
  std::optional<Answer> answer = Answer{};
};

struct Open : Rig {
  explicit Open(const std::string& restrictions, const std::string& more = {}, std::string address = "192.0.2.7")
      : Rig("smtpd_recipient_restrictions = " + restrictions + "\n" + more) {
    BOOST_TEST_REQUIRE(problem == "");
    server.sender_memory = memory;
    connect(std::move(address));
    say("EHLO client.example\r\n");
  }
  std::string rcpt(std::string_view from, std::string_view to = "user@example.org") {
    say("RSET\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
  std::shared_ptr<Scripted> memory = std::make_shared<Scripted>();
};

const std::string kOk = "250 2.1.5 Ok\r\n";

}  // namespace

BOOST_AUTO_TEST_CASE(the_question_has_networks_and_general_senders_and_the_settings) {
  Open rig("check_greylist",
           "recipient_delimiter = +\nsmtpd_greylist_delay = 1m\nsmtpd_greylist_window = 1h\n"
           "smtpd_greylist_keep_time = 1d\nsmtpd_greylist_known_after = 7\n");
  BOOST_TEST(rig.rcpt("List-owner-1234-user2=x@News.Example", "user@example.org") == kOk);
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 1u);
  const auto& q = rig.memory->asked[0];
  BOOST_TEST(q.client == "192.0.2.0");
  BOOST_TEST(q.sender == "list-owner-#-user2=x@news.example");
  BOOST_TEST(q.recipient == "user@example.org");
  BOOST_TEST(q.delay == 60u);
  BOOST_TEST(q.window == 3600u);
  BOOST_TEST(q.keep == 86400u);
  BOOST_TEST(q.passes == 7u);
  BOOST_TEST(rig.rcpt("ada+list@x.example") == kOk);
  BOOST_TEST(rig.memory->asked[1].sender == "ada@x.example");
  BOOST_TEST(rig.rcpt("") == kOk);
  BOOST_TEST(rig.memory->asked[2].sender == "@");
  Open six("check_greylist", "smtpd_greylist_ipv6_prefix_length = 48\n", "2001:db8:1:2::9");
  six.rcpt("a@x.example");
  BOOST_TEST(six.memory->asked.at(0).client == "2001:db8:1::");
  Open whole("check_greylist", "smtpd_greylist_ipv4_prefix_length = 32\n");
  whole.rcpt("a@x.example");
  BOOST_TEST(whole.memory->asked.at(0).client == "192.0.2.7");
}

BOOST_AUTO_TEST_CASE(who_must_wait_is_told_for_how_long_unless_the_refusal_is_final_anyway) {
  Open rig("check_greylist");
  rig.memory->answer->wait = 300;
  BOOST_TEST(rig.rcpt("a@x.example") ==
             "450 4.2.0 <user@example.org>: Recipient address rejected: Greylisted, try again in 300 seconds\r\n");
  BOOST_TEST(rig.rcpt("a@x.example", "nobody@example.org").starts_with("550 5.1.1 "));
  Open warned("warn_if_reject check_greylist");
  warned.memory->answer->wait = 300;
  BOOST_TEST(warned.rcpt("a@x.example") == kOk);
  Open trusted("permit_mynetworks, check_greylist", "", "127.0.0.1");
  trusted.memory->answer->wait = 300;
  BOOST_TEST(trusted.rcpt("a@x.example") == kOk);
  BOOST_TEST(trusted.memory->asked.empty());
}

BOOST_AUTO_TEST_CASE(nobody_is_put_off_while_nothing_is_remembered_or_there_is_nothing_to_ask) {
  Open away("check_greylist");
  away.memory->answer.reset();
  BOOST_TEST(away.rcpt("a@x.example") == kOk);
  Open none("check_greylist");
  none.server.sender_memory.reset();
  BOOST_TEST(none.rcpt("a@x.example") == kOk);
  Open asked("check_greylist");
  BOOST_TEST(asked.say("VRFY user@example.org\r\n").starts_with("252"));  // has no sender
  BOOST_TEST(asked.memory->asked.empty());
}

BOOST_AUTO_TEST_CASE(a_first_pass_is_told_in_the_header_once) {
  Open rig("check_greylist");
  rig.memory->answer->delayed = 312;
  BOOST_TEST(rig.rcpt("a@x.example") == kOk);
  rig.memory->answer->delayed = 313;
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
  rig.say("DATA\r\n");
  BOOST_TEST(rig.say("Subject: x\r\n\r\n.\r\n").starts_with("250"));
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  const std::string& content = rig.queue.stored[0].content;
  const auto at = content.find("X-Greylist: delayed 312 seconds by mx.example.org; ");
  BOOST_TEST(at != std::string::npos);
  BOOST_TEST(content.find("X-Greylist", at + 1) == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
