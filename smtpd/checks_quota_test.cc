// check_sender_quota in real sessions: which users are asked about, when it counts, and what the client hears.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using ipc::sender_memory::QuotaLimit;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(quota)

namespace {

class Scripted final : public sessions::SenderMemory {
 public:
  async::Task<std::optional<Answer>> greylist(Question, async::Until) override { co_return std::nullopt; }
  async::Task<std::optional<QuotaAnswer>> quota(QuotaQuestion question, async::Until) override {
    asked.push_back(question);
    co_return answer;
  }
  std::vector<QuotaQuestion> asked;
  std::optional<QuotaAnswer> answer = QuotaAnswer{};
};

const std::string kCounts = "smtpd_data_restrictions = check_sender_quota\n";

struct Open : Rig {
  explicit Open(const std::string& main_cf) : Rig("smtpd_authorized_xclient_hosts = 192.0.2.7\n" + main_cf) {
    BOOST_TEST_REQUIRE(problem == "");
    server.sender_memory = memory;
    connect();
    say("EHLO client.example\r\n");
  }
  void log_in(const std::string& user) {
    say("XCLIENT LOGIN=" + user + "\r\n");
    say("EHLO client.example\r\n");
  }
  std::string to_data(const std::string& from = "A@x.example") {
    say("RSET\r\n");
    const auto replies =
        say("MAIL FROM:<" + from + ">\r\nRCPT TO:<user@example.org>\r\nRCPT TO:<user@example.org>\r\n");
    if (!replies.ends_with("250 2.1.5 Ok\r\n")) return replies;
    const std::string reply = say("DATA\r\n");
    if (reply.starts_with("354")) say(".\r\n");
    return reply;
  }
  std::shared_ptr<Scripted> memory = std::make_shared<Scripted>();
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_is_counted_with_its_recipients_for_the_login_and_for_the_sender) {
  Open rig(kCounts +
           "smtpd_quota_login_messages_per_hour = 1\nsmtpd_quota_login_messages_per_day = 2\n"
           "smtpd_quota_login_recipients_per_hour = 3\nsmtpd_quota_login_recipients_per_day = 4\n"
           "smtpd_quota_sender_messages_per_hour = 5\nsmtpd_quota_sender_messages_per_day = 6\n"
           "smtpd_quota_sender_recipients_per_hour = 7\nsmtpd_quota_sender_recipients_per_day = 8\n");
  rig.log_in("ada");
  BOOST_TEST(rig.to_data().starts_with("354"));
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 1u);
  const auto& q = rig.memory->asked[0];
  BOOST_TEST(!q.look);
  BOOST_TEST(q.messages == 1u);
  BOOST_TEST(q.recipients == 2u);
  BOOST_TEST_REQUIRE(q.users.size() == 2u);
  BOOST_TEST(q.users[0].name == "login:ada");
  BOOST_TEST(q.users[1].name == "sender:a@x.example");
  const auto limits = [](const ipc::sender_memory::QuotaUser& u) {
    return std::vector<std::uint32_t>{u.messages_per_hour, u.messages_per_day, u.recipients_per_hour,
                                      u.recipients_per_day};
  };
  BOOST_TEST(limits(q.users[0]) == std::vector<std::uint32_t>({1, 2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(limits(q.users[1]) == std::vector<std::uint32_t>({5, 6, 7, 8}), boost::test_tools::per_element());
  rig.to_data("");  // a notice counts for the login alone
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 2u);
  BOOST_TEST(rig.memory->asked[1].users.size() == 1u);
}

BOOST_AUTO_TEST_CASE(who_has_used_up_a_quota_hears_which_one_and_for_how_long) {
  Open rig(kCounts + "smtpd_quota_login_messages_per_hour = 100\nsmtpd_quota_sender_recipients_per_day = 500\n");
  rig.log_in("ada");
  rig.memory->answer = {.exceeded = QuotaLimit::messages_per_hour, .user = 0, .wait = 1234};
  BOOST_TEST(rig.to_data() ==
             "450 4.7.1 <ada>: SASL login name rejected: quota of 100 messages per hour exceeded, try again in 1234 "
             "seconds\r\n");
  rig.memory->answer = {.exceeded = QuotaLimit::recipients_per_day, .user = 1, .wait = 5};
  BOOST_TEST(rig.to_data() ==
             "450 4.7.1 <A@x.example>: Sender address rejected: quota of 500 recipients per day exceeded, try again "
             "in 5 seconds\r\n");
  Open hard(kCounts + "smtpd_quota_sender_messages_per_day = 1\nsmtpd_quota_reject_code = 550\n");
  hard.memory->answer = {.exceeded = QuotaLimit::messages_per_day, .user = 0, .wait = 5};
  BOOST_TEST(hard.to_data().starts_with("550 5.7.1 <A@x.example>: Sender address rejected: quota of 1 messages"));
  rig.memory->answer.reset();  // anvil is away
  BOOST_TEST(rig.to_data().starts_with("354"));
}

BOOST_AUTO_TEST_CASE(at_rcpt_it_only_looks_whether_one_more_recipient_would_be_too_many) {
  Open rig("smtpd_recipient_restrictions = check_sender_quota\nsmtpd_quota_sender_recipients_per_hour = 1\n" + kCounts);
  BOOST_TEST(rig.to_data().starts_with("354"));
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 3u);
  BOOST_TEST(rig.memory->asked[0].look);
  BOOST_TEST(rig.memory->asked[0].recipients == 1u);
  BOOST_TEST(rig.memory->asked[1].look);
  BOOST_TEST(rig.memory->asked[1].recipients == 2u);
  BOOST_TEST(!rig.memory->asked[2].look);
}

BOOST_AUTO_TEST_CASE(smtpd_quota_maps_gives_limits_to_one_login_or_sender) {
  Open rig(kCounts +
           "smtpd_quota_login_messages_per_hour = 10\nsmtpd_quota_login_recipients_per_day = 20\n"
           "smtpd_quota_maps = inline:{ {ada = messages_per_hour=500, messages_per_day=600} {eve = unlimited} "
           "{bad = messages_per_hour=many} {list@x.example = recipients_per_day=3} }\n");
  rig.log_in("ada");
  BOOST_TEST(rig.to_data().starts_with("354"));
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 1u);
  BOOST_TEST(rig.memory->asked[0].users.at(0).messages_per_hour == 500u);
  BOOST_TEST(rig.memory->asked[0].users.at(0).messages_per_day == 600u);
  BOOST_TEST(rig.memory->asked[0].users.at(0).recipients_per_day == 20u);
  rig.log_in("eve");
  rig.to_data();
  BOOST_TEST(rig.memory->asked.size() == 1u);  // there is nothing to ask
  rig.to_data("List@x.example");
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 2u);
  BOOST_TEST(rig.memory->asked[1].users.at(0).recipients_per_day == 3u);
  rig.log_in("bad");
  BOOST_TEST(rig.to_data().starts_with("451 4.3.0 "));
}

BOOST_AUTO_TEST_CASE(smtpd_quota_maps_gives_limits_to_a_domain_whose_senders_are_counted_together) {
  Open rig(kCounts +
           "smtpd_quota_sender_messages_per_hour = 10\n"
           "smtpd_quota_maps = inline:{ {@x.example = messages_per_day=50} {@free.example = unlimited} }\n");
  rig.to_data("Ada@X.example");
  BOOST_TEST_REQUIRE(rig.memory->asked.size() == 1u);
  BOOST_TEST_REQUIRE(rig.memory->asked[0].users.size() == 2u);
  BOOST_TEST(rig.memory->asked[0].users[0].name == "sender:ada@x.example");
  BOOST_TEST(rig.memory->asked[0].users[0].messages_per_day == 0u);
  BOOST_TEST(rig.memory->asked[0].users[1].name == "domain:@x.example");
  BOOST_TEST(rig.memory->asked[0].users[1].messages_per_day == 50u);
  BOOST_TEST(rig.memory->asked[0].users[1].messages_per_hour == 0u);
  rig.memory->answer = {.exceeded = QuotaLimit::messages_per_day, .user = 1, .wait = 5};
  BOOST_TEST(rig.to_data("eve@x.example") ==
             "450 4.7.1 <@x.example>: Sender domain rejected: quota of 50 messages per day exceeded, try again in 5 "
             "seconds\r\n");
  rig.memory->answer = Scripted::QuotaAnswer{};
  for (const char* other : {"a@free.example", "a@sub.x.example"}) {
    rig.to_data(other);
    BOOST_TEST(rig.memory->asked.back().users.size() == 1u, other);
  }
}

BOOST_AUTO_TEST_CASE(without_limits_nothing_is_asked_and_a_list_that_counts_nothing_is_warned_of) {
  Open none(kCounts);
  BOOST_TEST(none.to_data().starts_with("354"));
  BOOST_TEST(none.memory->asked.empty());
  const auto warned = [](const Rig& rig) {
    return std::ranges::any_of(rig.policy->warnings,
                               [](const std::string& w) { return w.starts_with("check_sender_quota counts nothing"); });
  };
  BOOST_TEST(!warned(none));
  BOOST_TEST(warned(Rig("smtpd_recipient_restrictions = check_sender_quota\n")));
}

BOOST_AUTO_TEST_SUITE_END()
