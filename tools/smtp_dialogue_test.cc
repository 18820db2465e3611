#include "tools/smtp_dialogue.h"

#include <sysexits.h>

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace pen;
using namespace pen::tools;

namespace {
struct Taken {
  submission::Submission mail;
  std::string content;
};

struct User {
  /// Keeps the finished messages.
  struct Box final : Outlet {
    explicit Box(User& user) : user_(user) {}
    bool start(const submission::Submission& mail) override {
      taken_.mail = mail;
      return true;
    }
    bool content(std::string_view text) override {
      taken_.content += text;
      return true;
    }
    int finish() override {
      if (user_.status == EX_OK) user_.taken.push_back(std::move(taken_));
      return user_.status;
    }
    User& user_;
    Taken taken_;
  };
  /// The replies to the whole input, cut into pieces of that size.
  std::string say(std::string_view text, std::size_t piece = 0) {
    std::string whole;
    if (piece == 0) piece = text.size();
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
      dialogue().feed(text.substr(0, piece), whole);
    return whole;
  }
  SmtpDialogue& dialogue() {
    if (!dialogue_)
      dialogue_ = std::make_unique<SmtpDialogue>(options, [this] { return std::make_unique<Box>(*this); });
    return *dialogue_;
  }
  /// The codes alone, of the last line of each reply.
  std::string codes(std::string_view text, std::size_t piece = 0) {
    std::string out, all = say(text, piece);
    for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1)
      if (all[at + 3] == ' ') out += (out.empty() ? "" : " ") + all.substr(at, 3);
    return out;
  }
  SmtpDialogue::Options options{.hostname = "here.example", .mail_name = "Penstock", .size_limit = 1000};
  int status = EX_OK;
  std::vector<Taken> taken;
  std::unique_ptr<SmtpDialogue> dialogue_;
};

constexpr std::string_view kSession =
    "EHLO localhost\r\nMAIL FROM:<a@b> SIZE=20 RET=HDRS ENVID=x+2By\r\n"
    "RCPT TO:<c@d> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;e@f\r\nRCPT TO:<root>\r\nDATA\r\n"
    "Subject: x\r\n\r\n..dot\r\n.more\r\n\r\n.\r\nQUIT\r\n";
}  // namespace

BOOST_FIXTURE_TEST_SUITE(smtp_dialogue, User)

BOOST_AUTO_TEST_CASE(xverp_is_offered_and_taken) {
  BOOST_TEST(say("EHLO x\r\n").contains("250-XVERP\r\n"));
  const std::string rest = "RCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n";
  BOOST_TEST(codes("MAIL FROM:<a@b> XVERP\r\n" + rest) == "250 250 354 250");
  BOOST_TEST(codes("MAIL FROM:<a@b> XVERP=-=\r\n" + rest) == "250 250 354 250");
  BOOST_REQUIRE(taken.size() == 2U);
  BOOST_TEST(taken[0].mail.verp == "+=");
  BOOST_TEST(taken[1].mail.verp == "-=");
  BOOST_TEST(codes("MAIL FROM:<> XVERP\r\nMAIL FROM:<a@b> XVERP=ab\r\nHELO x\r\nMAIL FROM:<a@b> XVERP\r\n") ==
             "503 501 250 555");
}

BOOST_AUTO_TEST_CASE(a_session_submits_a_message_however_its_bytes_come) {
  for (const std::size_t piece : {0U, 1U, 3U, 7U}) {
    dialogue_.reset();
    taken.clear();
    BOOST_TEST(codes(kSession, piece) == "250 250 250 250 354 250 221");
    BOOST_TEST(dialogue().ended());
    BOOST_REQUIRE_EQUAL(taken.size(), 1U);
    BOOST_TEST(taken[0].content == "Subject: x\n\n.dot\nmore\n\n");
    const auto& mail = taken[0].mail;
    BOOST_TEST(mail.sender == "a@b");
    BOOST_TEST(mail.envid == "x+y");
    BOOST_TEST((mail.ret == mail::Ret::headers));
    BOOST_REQUIRE_EQUAL(mail.recipients.size(), 2U);
    BOOST_TEST(mail.recipients[0].notify == (mail::notify::kSuccess | mail::notify::kDelay));
    BOOST_TEST(mail.recipients[0].orcpt == "rfc822;e@f");
    BOOST_TEST(mail.recipients[1].address == "root");
  }
}

BOOST_AUTO_TEST_CASE(several_messages_go_in_one_session_each_for_itself) {
  BOOST_TEST(codes("HELO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\none\r\n.\r\n"
                   "RCPT TO:<late@b>\r\nMAIL FROM:<x@y>\r\nRCPT TO:<c@d>\r\nRSET\r\nDATA\r\n"
                   "MAIL FROM:<x@y>\r\nRCPT TO:<e@f>\r\nDATA\r\ntwo\r\n.\r\n") ==
             "250 250 250 354 250 503 250 250 250 503 250 250 354 250");
  BOOST_REQUIRE_EQUAL(taken.size(), 2U);
  BOOST_TEST(taken[0].content == "one\n");
  BOOST_TEST(taken[1].mail.recipients.size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_is_declared_smtputf8_is_submitted_so_even_if_its_addresses_are_ascii) {
  const std::string rest = "RCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n";
  BOOST_TEST(codes("EHLO x\r\nMAIL FROM:<a@b> SMTPUTF8\r\n" + rest + "MAIL FROM:<a@b>\r\n" + rest) ==
             "250 250 250 354 250 250 250 354 250");
  BOOST_REQUIRE_EQUAL(taken.size(), 2U);
  BOOST_TEST(taken[0].mail.smtputf8);
  BOOST_TEST(!taken[1].mail.smtputf8);
}

BOOST_AUTO_TEST_CASE(a_client_of_bare_line_feeds_is_understood) {
  for (const std::size_t piece : {0U, 1U}) {
    dialogue_.reset();
    taken.clear();
    BOOST_TEST(codes("MAIL FROM:<a@b>\nRCPT TO:<c@d>\nDATA\nx\n..y\nz\r\n.\nQUIT\n", piece) == "250 250 354 250 221");
    BOOST_REQUIRE_EQUAL(taken.size(), 1U);
    BOOST_TEST(taken[0].content == "x\n.y\nz\n");
  }
}

BOOST_AUTO_TEST_CASE(with_a_client_of_crlf_a_dot_between_bare_line_feeds_is_content) {
  BOOST_TEST(codes("MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nx\n.\nMAIL FROM:<evil@b>\r\n.\r\n") ==
             "250 250 354 250");
  BOOST_REQUIRE_EQUAL(taken.size(), 1U);
  BOOST_TEST(taken[0].content == "x\n.\nMAIL FROM:<evil@b>\n");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_refused_and_the_session_goes_on) {
  BOOST_TEST(codes("RCPT TO:<a@b>\r\nDATA\r\nMAIL FROM:<a@b> SIZE=1\r\nEHLO x\r\nMAIL FROM:<a@b> "
                   "SIZE=1001\r\n"
                   "MAIL FROM:<a@b> BODY=BINARYMIME\r\nMAIL FROM:<a@b>\r\nMAIL FROM:<a@b>\r\nDATA\r\n"
                   "RCPT TO:<>\r\nSTARTTLS\r\nnonsense\r\n") == "503 503 555 250 552 501 250 503 554 501 502 502");
  BOOST_TEST(codes(std::string(5000, 'x') + "\r\nNOOP\r\n") == "500 250");
  BOOST_TEST(taken.empty());
}

BOOST_AUTO_TEST_CASE(the_recipients_of_one_message_are_bounded) {
  options.recipient_limit = 2;
  BOOST_TEST(codes("MAIL FROM:<>\r\nRCPT TO:<a@b>\r\nRCPT TO:<c@b>\r\nRCPT TO:<d@b>\r\n") == "250 250 250 452");
}

BOOST_AUTO_TEST_CASE(a_message_that_is_too_large_or_not_taken_is_refused_at_its_end) {
  const std::string envelope = "MAIL FROM:<>\r\nRCPT TO:<a@b>\r\nDATA\r\n";
  BOOST_TEST(codes(envelope + std::string(1500, 'x') + "\r\n.\r\nNOOP\r\n") == "250 250 354 552 250");
  for (const auto& [ended, code] :
       {std::pair{EX_TEMPFAIL, "451"}, std::pair{EX_NOPERM, "550"}, std::pair{EX_CONFIG, "554"}}) {
    status = ended;
    BOOST_TEST(codes(envelope + "x\r\n.\r\n") == std::string("250 250 354 ") + code);
  }
  BOOST_TEST(taken.empty());
}

BOOST_AUTO_TEST_SUITE_END()
