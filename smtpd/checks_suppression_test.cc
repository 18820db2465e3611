// The suppression list in real sessions: what is asked, and what the client hears.
#include <boost/test/unit_test.hpp>

#include "lib/suite/suppression/client.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(suppression_at_rcpt)

namespace {

using ipc::suppression::Standing;

class Scripted final : public suppression::List {
 public:
  async::Task<Answer> ask(Question question, async::Until) override {
    asked.push_back(question);
    co_return Answer{.request = 0, .standing = standing, .reason = ipc::suppression::Reason::complaint};
  }
  void tell(Failure) override {}
  std::vector<Question> asked;
  Standing standing = Standing::listed;
};

struct Open : Rig {
  explicit Open(const std::string& more = {})
      : Rig("suppression_list = yes\nsmtpd_recipient_restrictions =\n"
            "smtpd_relay_restrictions = permit_mynetworks, reject\nmynetworks = 192.0.2.0/24\n"
            "mydestination = example.org\nrelay_domains = relay.example\n" +
            more) {
    BOOST_TEST_REQUIRE(problem == "");
    server.suppression = list;
    connect("192.0.2.7");
    say("EHLO client.example\r\n");
  }
  std::string rcpt(std::string_view from, std::string_view to) {
    say("RSET\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
  std::shared_ptr<Scripted> list = std::make_shared<Scripted>();
};

const std::string kOk = "250 2.1.5 Ok\r\n";

}  // namespace

BOOST_AUTO_TEST_CASE(a_listed_recipient_is_refused_with_the_kind_of_reason) {
  Open rig;
  BOOST_TEST(rig.rcpt("news@here.example", "jo@there.example") ==
             "550 5.7.1 <jo@there.example>: Recipient address rejected: on this server's suppression list: its reader "
             "complained\r\n");
  BOOST_TEST_REQUIRE(rig.list->asked.size() == 1u);
  BOOST_TEST(rig.list->asked[0].sender == "news@here.example");
  BOOST_TEST(rig.list->asked[0].recipient == "jo@there.example");
  BOOST_TEST(rig.list->asked[0].tenant == "");
  BOOST_TEST(rig.rcpt("news@here.example", "jo@relay.example").starts_with("550 5.7.1"));
  Open other("suppression_reject_code = 554\n");
  BOOST_TEST(other.rcpt("news@here.example", "jo@there.example").starts_with("554 5.7.1"));
}

BOOST_AUTO_TEST_CASE(what_is_delivered_here_and_notices_are_not_asked_about) {
  Open rig;
  BOOST_TEST(rig.rcpt("news@here.example", "user@example.org") == kOk);
  BOOST_TEST(rig.rcpt("", "jo@there.example") == kOk);
  BOOST_TEST(rig.list->asked.empty());
}

BOOST_AUTO_TEST_CASE(a_list_that_cannot_be_read_refuses_nobody_and_a_table_of_exempt_senders_puts_off) {
  Open rig;
  rig.list->standing = Standing::unknown;
  BOOST_TEST(rig.rcpt("news@here.example", "jo@there.example") == kOk);
  rig.list->standing = Standing::free;
  BOOST_TEST(rig.rcpt("news@here.example", "jo@there.example") == kOk);
  rig.list->standing = Standing::undecided;
  BOOST_TEST(rig.rcpt("news@here.example", "jo@there.example").starts_with("451 4.3.0"));
}

BOOST_AUTO_TEST_CASE(the_question_has_the_tenant) {
  Open rig("tenant_identity = sender_domain\ntenant_maps = inline:{ { here.example = Shop } }\n");
  rig.rcpt("news@here.example", "jo@there.example");
  BOOST_TEST_REQUIRE(rig.list->asked.size() == 1u);
  BOOST_TEST(rig.list->asked[0].tenant == "shop");
}

BOOST_AUTO_TEST_CASE(a_tenant_that_stands_in_the_header_is_asked_about_before_delivery) {
  Open rig("tenant_identity = header\n");
  BOOST_TEST(rig.rcpt("news@here.example", "jo@there.example") == kOk);
  BOOST_TEST(rig.list->asked.empty());
}

BOOST_AUTO_TEST_SUITE_END()
