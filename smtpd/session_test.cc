// Scripted sessions against the real coroutine: every command in every state.
#include <malloc.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(session)

namespace {

const std::string kGreeting = "220 mx.example.org ESMTP Penstock\r\n";
const std::string kMail = "MAIL FROM:<s@remote.example>\r\n";
const std::string kRcpt = "RCPT TO:<user@example.org>\r\n";

/// The codes of the replies, last lines only: "250 354 250".
std::string codes(std::string_view replies) {
  std::string out;
  while (!replies.empty()) {
    const auto end = replies.find("\r\n");
    BOOST_TEST_REQUIRE(end != std::string_view::npos);
    const auto line = replies.substr(0, end);
    BOOST_TEST_REQUIRE(line.size() >= 4u);
    BOOST_TEST_REQUIRE(line.size() <= 510u);
    if (line[3] == ' ') out += (out.empty() ? "" : " ") + std::string(line.substr(0, 3));
    replies.remove_prefix(end + 2);
  }
  return out;
}

struct Open : Rig {
  explicit Open(std::string main_cf = {}) : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    BOOST_TEST_REQUIRE(connect() == kGreeting);
    BOOST_TEST_REQUIRE(codes(say("EHLO client.example\r\n")) == "250");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(ehlo_lists_keywords_in_postfix_s_order_and_helo_none) {
  Rig rig;
  BOOST_TEST(rig.connect() == kGreeting);
  BOOST_TEST(rig.say("EHLO me\r\n") ==
             "250-mx.example.org\r\n250-PIPELINING\r\n250-SIZE "
             "10240000\r\n250-VRFY\r\n250-ENHANCEDSTATUSCODES\r\n"
             "250-8BITMIME\r\n250-DSN\r\n250-SMTPUTF8\r\n250-LIMITS RCPTMAX=1000\r\n250 CHUNKING\r\n");
  BOOST_TEST(rig.say("HELO me\r\n") == "250 mx.example.org\r\n");
  BOOST_TEST(codes(rig.say("MAIL FROM:<a@b> SIZE=1\r\n")) == "555");  // HELO brings no extensions
  BOOST_TEST(codes(rig.say("BDAT 3\r\nabcNOOP\r\n")) == "502 250");
  BOOST_TEST(rig.say("VRFY <user@example.org>\r\n") == "252 2.0.0 <user@example.org>\r\n");
  Open fewer("smtpd_discard_ehlo_keywords = chunking, silent-discard, dsn, limits\ndisable_vrfy_command = yes\n");
  BOOST_TEST(fewer.say("EHLO me\r\n") ==
             "250-mx.example.org\r\n250-PIPELINING\r\n250-SIZE 10240000\r\n250-ENHANCEDSTATUSCODES\r\n"
             "250-8BITMIME\r\n250 SMTPUTF8\r\n");
  BOOST_TEST(codes(fewer.say("VRFY user\r\n")) == "502");
}

BOOST_AUTO_TEST_CASE(a_message_comes_in_and_is_queued_with_a_trace_field) {
  Open rig;
  BOOST_TEST(rig.say(kMail) == "250 2.1.0 Ok\r\n");
  BOOST_TEST(rig.say(kRcpt) == "250 2.1.5 Ok\r\n");
  BOOST_TEST(rig.say("DATA\r\n") == "354 End data with <CR><LF>.<CR><LF>\r\n");
  BOOST_TEST(rig.say("Subject: x\r\nMessage-ID: <m@x>\r\n\r\n..\r\n.\r\n") == "250 2.0.0 Ok: queued as Q1\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  const auto& [envelope, content, was_inline] = rig.queue.stored[0];
  BOOST_TEST(envelope.sender == "s@remote.example");
  BOOST_TEST(envelope.queue_id == "Q1");
  BOOST_TEST(envelope.message_id == "<m@x>");
  BOOST_TEST(envelope.recipients.size() == 1u);
  BOOST_TEST(envelope.recipients[0].address == "user@example.org");
  BOOST_TEST(envelope.client.protocol == "ESMTP");
  BOOST_TEST(envelope.client.address == "192.0.2.7");
  BOOST_TEST(was_inline);
  BOOST_TEST(
      content.starts_with("Received: from client.example (client.example [192.0.2.7])\r\n\tby mx.example.org "
                          "(Penstock) with ESMTP id Q1\r\n\tfor <user@example.org>; "));
  BOOST_TEST(content.ends_with("\r\nSubject: x\r\nMessage-ID: <m@x>\r\n\r\n.\r\n"));
  BOOST_TEST(envelope.body.size == content.size());
  BOOST_TEST(rig.say("QUIT\r\n") == "221 2.0.0 Bye\r\n");
  BOOST_TEST(rig.closed());
}

BOOST_AUTO_TEST_CASE(every_command_has_its_answer_in_every_state) {
  // state: bytes that lead there after EHLO; then the reply code of each command
  struct Row {
    std::string_view state, command, code;
  };
  const std::string mail = kMail, rcpt = kMail + kRcpt, refused = kMail + "RCPT TO:<x@elsewhere.example>\r\n",
                    chunk = rcpt + "BDAT 2\r\nab", long_name = "EHLO " + std::string(1000, 'a');
  const Row rows[] = {
      {"", "MAIL FROM:<a@b>", "250"},
      {mail, "MAIL FROM:<a@b>", "503"},
      {rcpt, "MAIL FROM:<a@b>", "503"},
      {"", "MAIL FROM:<>", "250"},
      {"", "MAIL", "501"},
      {"", "MAIL FROM:<a@b", "501"},
      {"", "MAIL FROM: <a@b>", "250"},
      {"", "MAIL FROM:<a@b> X=1", "555"},
      {"", "MAIL FROM:<a@b> SIZE=x", "501"},
      {"", "MAIL FROM:<a@b> SIZE=10240001", "552"},
      {"", "MAIL FROM:<a@b> SIZE=10240000", "250"},
      {"", "MAIL FROM:<a@b> SIZE=99999999999999999999", "552"},
      {"", "MAIL FROM:<\xc3\xa9@b>", "553"},
      {"", "RCPT TO:<user@example.org>", "503"},
      {mail, "RCPT TO:<user@example.org>", "250"},
      {rcpt, "RCPT TO:<root@example.org>", "250"},
      {mail, "RCPT TO:<>", "501"},
      {mail, "RCPT TO:<user@example.org> NOTIFY=NEVER,DELAY", "501"},
      {mail, "RCPT TO:<nobody@example.org>", "550"},
      {mail, "RCPT TO:<x@elsewhere.example>", "454"},
      {mail, "RCPT TO:<Postmaster>", "250"},
      {mail, "RCPT TO:<postMASTER@example.org>", "250"},
      {mail, "RCPT TO:<@a,@b:user@example.org>", "250"},
      {mail, "RCPT TO:<user%elsewhere.example@example.org>", "454"},
      {mail, "RCPT TO:<\"user@elsewhere.example\"@example.org>", "454"},
      {mail, "RCPT TO:<elsewhere.example!user@example.org>", "454"},
      {mail, "RCPT TO:<user%elsewhere.example>", "454"},
      {chunk, "RCPT TO:<user@example.org>", "503"},
      {"", "DATA", "503"},
      {mail, "DATA", "554"},
      {refused, "DATA", "554"},
      {rcpt, "DATA", "354"},
      {rcpt, "DATA x", "501"},
      {chunk, "DATA", "503"},
      {"", "BDAT 0", "503"},
      {mail, "BDAT 0", "554"},
      {rcpt, "BDAT 0", "250"},
      {rcpt, "BDAT 0 LAST", "250"},
      {chunk, "BDAT 0 LAST", "250"},
      {rcpt, "BDAT x", "501 421"},
      {"", "RSET", "250"},
      {mail, "RSET", "250"},
      {rcpt, "RSET", "250"},
      {chunk, "RSET", "250"},
      {"", "RSET x", "501"},
      {"", "NOOP", "250"},
      {"", "NOOP anything", "250"},
      {rcpt, "NOOP", "250"},
      {"", "VRFY user", "252"},
      {"", "VRFY nobody", "550"},
      {"", "VRFY", "501"},
      {"", "EXPN list", "502"},
      {"", "HELP", "214"},
      {"", "STARTTLS", "502"},
      {"", "AUTH PLAIN", "503"},
      {"", "ETRN x", "459"},
      {"", "FOO", "500"},
      {"", "", "500"},
      {"", "EHLO", "501"},
      {"", "HELO", "501"},
      {"", long_name, "250"},
      {rcpt, "EHLO again", "250"},
      {"", "EHLO [192.0.2.1]", "250"},
      {"", "EHLO [IPv6:2001:db8::1]", "250"},
      {"", "QUIT", "221"},
      {rcpt, "QUIT", "221"},
      {"", "GET / HTTP/1.1", "221"},
      {chunk, "MAIL FROM:<a@b>", "503"},
  };
  for (const auto& row : rows) {
    Open rig;
    if (!row.state.empty()) rig.say(row.state);
    BOOST_TEST(codes(rig.say(std::string(row.command) + "\r\n")) == row.code,
               "after [" << row.state << "] " << row.command);
  }
}

BOOST_AUTO_TEST_CASE(where_tls_is_required_no_mail_is_taken_in_clear_text) {
  for (const char* setting : {"smtpd_tls_security_level = encrypt\n", "smtpd_enforce_tls = yes\n"}) {
    Open rig(setting);
    BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\n") == "530 5.7.0 Must issue a STARTTLS command first\r\n");
    BOOST_TEST(codes(rig.say("RCPT TO:<user@example.org>\r\n")) == "530");
    BOOST_TEST(codes(rig.say("VRFY user\r\n")) == "530");
    BOOST_TEST(codes(rig.say("NOOP\r\n")) == "250");
    BOOST_TEST(codes(rig.say("QUIT\r\n")) == "221");
  }
  Open rig("smtpd_tls_security_level = may\nsmtpd_enforce_tls = yes\n");
  BOOST_TEST(codes(rig.say("MAIL FROM:<a@b.example>\r\n")) == "250");
}

BOOST_AUTO_TEST_CASE(every_reply_after_ehlo_has_an_enhanced_code_of_its_class) {
  Open rig;
  const std::string replies = rig.say("MAIL\r\n" + kMail + kMail + "RCPT TO:<a@b>\r\nRCPT TO:<nobody@example.org>\r\n" +
                                      kRcpt + "RSET\r\nFOO\r\n") +
                              rig.say("NOOP\r\n") + rig.say("VRFY user\r\n") + rig.say("HELP\r\n") +
                              rig.say("DATA\r\n") + rig.say("QUIT\r\n");
  std::string_view rest = replies;
  int lines = 0;
  for (; !rest.empty(); rest.remove_prefix(rest.find("\r\n") + 2), ++lines) {
    BOOST_TEST(rest[4] == rest[0], rest.substr(0, rest.find("\r\n")));
    BOOST_TEST(rest[5] == '.');
  }
  BOOST_TEST(lines == 13);
}

BOOST_AUTO_TEST_CASE(ehlo_and_rset_forget_the_transaction) {
  Open rig;
  rig.say(kMail + kRcpt);
  BOOST_TEST(codes(rig.say("EHLO again\r\n")) == "250");
  BOOST_TEST(codes(rig.say(kRcpt)) == "503");
  rig.say(kMail + kRcpt);
  BOOST_TEST(codes(rig.say("RSET\r\n" + kRcpt)) == "250 503");
}

BOOST_AUTO_TEST_CASE(a_pipelined_group_is_answered_in_order_wherever_it_is_cut) {
  const std::string group = kMail + kRcpt + "RCPT TO:<nobody@example.org>\r\nRCPT TO:<root@example.org>\r\nDATA\r\n";
  const std::string rest = "S: x\r\n\r\na\r\n.\r\n" + kMail + kRcpt + "RSET\r\nQUIT\r\n";
  for (std::size_t cut = 1; cut <= group.size(); ++cut) {
    Open rig;
    const std::string first = rig.say(std::string_view(group).substr(0, cut));
    BOOST_TEST_REQUIRE(codes(first + rig.say(std::string_view(group).substr(cut))) == "250 250 550 250 354");
    BOOST_TEST_REQUIRE(codes(rig.say_in_pieces(rest, cut)) == "250 250 250 250 221");
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    BOOST_TEST_REQUIRE(rig.queue.stored[0].envelope.recipients.size() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(the_next_transaction_may_follow_the_data_in_one_write) {
  Open rig;
  std::string all = kMail + kRcpt + "DATA\r\n";
  BOOST_TEST(codes(rig.say(all)) == "250 250 354");
  BOOST_TEST(codes(rig.say("one\r\n.\r\n" + all)) == "250 250 250 354");
  BOOST_TEST(codes(rig.say("two\r\n.\r\nRSET\r\n" + kMail)) == "250 250 250");
  BOOST_TEST(rig.queue.stored.size() == 2u);
}

BOOST_AUTO_TEST_CASE(cr_cr_lf_ends_a_command) {
  Rig rig;
  rig.connect();
  BOOST_TEST(rig.say("EHLO client.example\r\r\n").starts_with("250-"));
  BOOST_TEST(rig.say("MAIL FROM:<s@x.example>\r\r\n") == "250 2.1.0 Ok\r\n");
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\r\nRCPT TO:<root@example.org>\r\r\r\nDATA\r\r\n") ==
             "250 2.1.5 Ok\r\n250 2.1.5 Ok\r\n354 End data with <CR><LF>.<CR><LF>\r\n");
  BOOST_TEST(rig.say("x\r\n.\r\n").starts_with("250"));
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1U);
  BOOST_TEST(rig.queue.stored[0].envelope.recipients.size() == 2U);
}

BOOST_AUTO_TEST_CASE(no_stray_ending_smuggles_a_second_message) {
  const std::string_view endings[] = {"\n.\n",   "\n.\r\n", "\r\n.\n",       "\r.\r",       "\r\n.\r",
                                      "\r.\r\n", "\n.\r",   "\r\r\n.\r\r\n", "\r\n.\r\r\n", "\n\r.\r\n"};
  for (const auto ending : endings)
    for (const bool chunked : {false, true}) {
      Open rig;
      const std::string evil =
          "x" + std::string(ending) + "MAIL FROM:<evil@x>\r\nRCPT TO:<user@example.org>\r\nDATA\r\nevil\r\n";
      if (chunked) {
        BOOST_TEST(codes(rig.say(kMail + kRcpt + "BDAT " + std::to_string(evil.size()) + " LAST\r\n" + evil)) ==
                   "250 250 250");
      } else {
        rig.say(kMail + kRcpt + "DATA\r\n");
        BOOST_TEST(codes(rig.say(evil + ".\r\n")) == "250");
      }
      BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
      const auto& content = rig.queue.stored[0].content;
      BOOST_TEST(content.find("MAIL FROM:<evil@x>") != std::string::npos);
      for (std::size_t i = 0; i < content.size(); ++i) {
        if (content[i] == '\r') BOOST_TEST_REQUIRE(content[i + 1] == '\n');
        if (content[i] == '\n') BOOST_TEST_REQUIRE(content[i - 1] == '\r');
      }
    }
}

BOOST_AUTO_TEST_CASE(bare_newlines_are_refused_when_the_setting_says_so_but_for_excluded_clients) {
  const std::string reject = "smtpd_forbid_bare_newline = reject\nsmtpd_forbid_bare_newline_exclusions = 127.0.0.0/8\n";
  Open rig(reject);
  BOOST_TEST(codes(rig.say("NOOP\n")) == "550");
  BOOST_TEST(rig.closed());
  Open data(reject);
  data.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(codes(data.say("a\nb\r\n.\r\n")) == "550");
  BOOST_TEST(data.closed());
  BOOST_TEST(data.queue.stored.empty());
  Open chunk(reject);
  BOOST_TEST(codes(chunk.say(kMail + kRcpt + "BDAT 3 LAST\r\na\nb")) == "250 250 550");
  Rig excluded(reject);
  excluded.connect("127.0.0.1");
  BOOST_TEST(codes(excluded.say("EHLO x\n")) == "250");
  Open normal;
  BOOST_TEST(codes(normal.say("NOOP\n")) == "250");
}

BOOST_AUTO_TEST_CASE(old_clients_may_end_a_message_with_bare_newlines_where_settings_say_so) {
  const std::string message = "Subject: x\n\nline\n.\n";
  for (const auto* settings :
       {"smtpd_forbid_bare_newline = no\n", "smtpd_forbid_bare_newline_exclusions = 192.0.2.0/24\n",
        "smtpd_forbid_bare_newline = reject\n"
        "smtpd_forbid_bare_newline_exclusions = 192.0.2.0/24\n"}) {
    Open rig(settings);
    rig.say(kMail + kRcpt + "DATA\r\n");
    BOOST_TEST(codes(rig.say(message)) == "250", settings);
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    BOOST_TEST(rig.queue.stored[0].content.ends_with("\r\n\r\nline\r\n"));
  }
  for (const auto* settings :
       {"", "mynetworks = 192.0.2.0/24\n", "smtpd_forbid_bare_newline_exclusions = 127.0.0.0/8\n"}) {
    Open rig(settings);
    rig.say(kMail + kRcpt + "DATA\r\n");
    BOOST_TEST(codes(rig.say(message)) == "", settings);
    BOOST_TEST(codes(rig.say("\r\n.\r\n")) == "250", settings);
  }
}

BOOST_AUTO_TEST_CASE(commands_to_pass_over_and_to_hang_up_on_are_found_in_tables_too) {
  Open rig(
      "smtpd_noop_commands = inline:{ xnothing = ok }, later\n"
      "smtpd_forbidden_commands = get, inline:{ host: = bogus }\n");
  BOOST_TEST(codes(rig.say("XNOTHING a b\r\nLater\r\nOTHER\r\n")) == "250 250 500");
  BOOST_TEST(codes(rig.say("Host: mx.example\r\n")) == "221");
  BOOST_TEST(rig.closed());
}

BOOST_AUTO_TEST_CASE(chunks_are_counted_to_the_octet) {
  for (std::size_t piece : {1u, 2u, 7u, 1000u}) {
    Open rig;
    const std::string input = kMail + kRcpt + "BDAT 10\r\nS: x\r\n\r\nab" + "BDAT 5\r\n.\r\nQU" + "BDAT 0\r\n" +
                              "BDAT 4 LAST\r\nIT\r\n" + "NOOP\r\n";
    BOOST_TEST(codes(rig.say_in_pieces(input, piece)) == "250 250 250 250 250 250 250");
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    BOOST_TEST(rig.queue.stored[0].content.ends_with("S: x\r\n\r\nab.\r\nQUIT\r\n"));
  }
  Open lost;  // the octets of a refused chunk are read and dropped
  BOOST_TEST(codes(lost.say("BDAT 6\r\nQUIT\r\nNOOP\r\n")) == "503 250");
  lost.say("RSET\r\n");
  BOOST_TEST(codes(lost.say(kMail + kRcpt + "BDAT 3\r\nabcRSET\r\n" + kRcpt)) == "250 250 250 250 503");
  BOOST_TEST(lost.queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(a_chunk_is_no_command_where_bdat_is_refused_before_anything_else) {
  const std::string chunk = "BDAT 6\r\nQUIT\r\nNOOP\r\n";
  Open never("smtpd_discard_ehlo_keywords = chunking\n");
  BOOST_TEST(codes(never.say(kMail + kRcpt + chunk)) == "250 250 502 250");
  BOOST_TEST(codes(never.say("BDAT x\r\nNOOP\r\n")) == "502 421");
  BOOST_TEST(never.closed());
  Open late("smtpd_tls_security_level = encrypt\n");
  BOOST_TEST(codes(late.say(chunk)) == "530 250");
  Rig denied("smtpd_delay_reject = no\nsmtpd_client_restrictions = reject\n");
  denied.connect();
  BOOST_TEST(codes(denied.say("BDAT 6\r\nQUIT\r\n")) == "503");
  BOOST_TEST(!denied.closed());
}

BOOST_AUTO_TEST_CASE(the_size_limit_holds_for_data_and_chunks) {
  const std::string limit = "message_size_limit = 1000\n";
  Open rig(limit);
  rig.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(codes(rig.say(std::string(998, 'x') + "\r\n.\r\n")) == "250");
  rig.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(codes(rig.say(std::string(999, 'x') + "\r\n.\r\nNOOP\r\n")) == "552 250");
  const std::string chunk = "BDAT 1000\r\n" + std::string(1000, 'x');
  BOOST_TEST(codes(rig.say(kMail + kRcpt + "BDAT 2001\r\n" + std::string(2001, 'x') + "BDAT 1\r\nxRSET\r\n")) ==
             "250 250 552 503 250");
  BOOST_TEST(codes(rig.say(kMail + kRcpt + chunk + chunk + chunk + "BDAT 1\r\nxRSET\r\n")) ==
             "250 250 250 250 552 503 250");
  // the declared size is too small
  BOOST_TEST(codes(rig.say("MAIL FROM:<a@b> SIZE=10\r\n" + kRcpt + "DATA\r\n")) == "250 250 354");
  BOOST_TEST(codes(rig.say(std::string(500, 'x') + "\r\n.\r\n")) == "250");
}

BOOST_AUTO_TEST_CASE(a_large_body_goes_to_a_leased_file) {
  Open rig;
  rig.queue.limit = 1000;
  rig.say(kMail + kRcpt + "DATA\r\n");
  std::string body;
  Random random(7);
  while (body.size() < 700'000)
    body += std::string(random.below(70), static_cast<char>('a' + random.below(26))) + "\r\n";
  std::string replies = rig.say(body + ".\r\n");
  for (int i = 0; i < 1000 && replies.empty(); ++i) {
    rig.loop.run_once(milliseconds(10));
    replies = rig.settle();
  }
  BOOST_TEST(replies == "250 2.0.0 Ok: queued as Q1\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  const auto& stored = rig.queue.stored[0];
  BOOST_TEST(!stored.was_inline);
  BOOST_TEST(stored.content.ends_with(body));
  BOOST_TEST(stored.envelope.body.size == stored.content.size());
  BOOST_TEST(rig.queue.leases == 0);
}

BOOST_AUTO_TEST_CASE(what_the_queue_manager_says_becomes_the_reply) {
  Open rig;
  rig.queue.is_accepting = false;
  BOOST_TEST(rig.say(kMail) == "452 4.3.1 Insufficient system storage\r\n");
  rig.queue.is_accepting = true;
  const auto send = [&] {
    rig.say(kMail + kRcpt + "DATA\r\n");
    return codes(rig.say("x\r\n.\r\n"));
  };
  rig.queue.outcome = intake::Enqueued::no_space;
  BOOST_TEST(send() == "452");
  rig.queue.outcome = intake::Enqueued::unavailable;
  BOOST_TEST(send() == "451");
  rig.queue.outcome = intake::Enqueued::refused;
  BOOST_TEST(send() == "451");
  rig.queue.outcome = intake::Enqueued::ok;
  BOOST_TEST(send() == "250");
  BOOST_TEST(rig.queue.stored.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_looping_message_is_refused) {
  Open rig("hopcount_limit = 5\n");
  rig.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(rig.say("Received: a\r\nReceived: b\r\nReceived: c\r\nReceived: d\r\n\r\n.\r\n") ==
             "554 5.4.0 Error: too many hops\r\n");
  rig.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(codes(rig.say("Received: a\r\nReceived: b\r\nReceived: c\r\n\r\n.\r\n")) == "250");
}

BOOST_AUTO_TEST_CASE(a_message_with_more_header_fields_than_permitted_is_refused) {
  Open rig("header_field_limit = 100\n");
  const auto send = [&](int fields) {
    rig.say(kMail + kRcpt + "DATA\r\n");
    std::string text;
    for (int i = 0; i < fields; ++i) text += "X: y\r\n";
    return rig.say(text + "\r\n.\r\n");
  };
  BOOST_TEST(codes(send(100)) == "250");
  BOOST_TEST(send(101) == "552 5.3.4 Error: too many header fields\r\n");
  BOOST_TEST(rig.queue.stored.size() == 1u);
}

BOOST_AUTO_TEST_CASE(mail_for_aliases_without_end_is_put_off_for_it_is_our_table_s_fault) {
  Open rig;
  rig.resolver->aliases["a@example.org"] = std::vector<std::string>(6, "x@example.org");  // more than the queue takes
  rig.say(kMail + "RCPT TO:<a@example.org>\r\nDATA\r\n");
  BOOST_TEST(rig.say("x\r\n.\r\n") == "451 4.6.0 Alias expansion error\r\n");
  BOOST_TEST(rig.queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(a_dropped_connection_leaves_nothing_behind) {
  Open rig;
  rig.say(kMail + kRcpt + "DATA\r\n");
  rig.say("Subject: half\r\n\r\nno end\r\n.");
  rig.hang_up();
  BOOST_TEST(rig.closed());
  BOOST_TEST(rig.queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(recipients_beyond_the_limit_get_452_and_the_rest_deliver) {
  Open rig("smtpd_recipient_limit = 3\n");
  std::string all = kMail;
  for (int i = 0; i < 5; ++i) all += kRcpt;
  BOOST_TEST(codes(rig.say(all + "DATA\r\n")) == "250 250 250 250 452 452 354");
  BOOST_TEST(codes(rig.say("x\r\n.\r\n")) == "250");
  BOOST_TEST(rig.queue.stored.size() == 1u);
}

BOOST_AUTO_TEST_CASE(early_talkers_and_unauthorised_pipelining_are_refused) {
  Rig early;
  BOOST_TEST(early.connect("192.0.2.7", "EHLO x\r\n") == "554 5.5.0 Error: SMTP protocol synchronization\r\n");
  BOOST_TEST(early.closed());
  Rig hello;
  hello.connect();
  BOOST_TEST(codes(hello.say("EHLO x\r\nMAIL FROM:<a@b>\r\n")) == "554");
  BOOST_TEST(hello.closed());
  Open data;
  BOOST_TEST(codes(data.say(kMail + kRcpt + "DATA\r\nx\r\n.\r\n")) == "250 250 554");
  BOOST_TEST(data.closed());
  BOOST_TEST(data.queue.stored.empty());
  Open lenient("smtpd_forbid_unauth_pipelining = no\n");
  BOOST_TEST(codes(lenient.say(kMail + kRcpt + "DATA\r\nx\r\n.\r\n")) == "250 250 354 250");
  Open checked("smtpd_forbid_unauth_pipelining = no\nsmtpd_data_restrictions = reject_unauth_pipelining\n");
  BOOST_TEST(codes(checked.say(kMail + kRcpt + "DATA\r\nNOOP\r\n")) == "250 250 503 250");
}

BOOST_AUTO_TEST_CASE(too_many_errors_end_the_session) {
  Open rig("smtpd_hard_error_limit = 4\nsmtpd_soft_error_limit = 4\n");
  BOOST_TEST(codes(rig.say("A\r\nB\r\nC\r\n")) == "500 500 500");
  BOOST_TEST(codes(rig.say("D\r\nE\r\n")) == "500 421");
  BOOST_TEST(rig.closed());
  Open junk("smtpd_junk_command_limit = 3\nsmtpd_hard_error_limit = 3\n");
  for (int i = 0; i < 4; ++i) BOOST_TEST(codes(junk.say("NOOP\r\n")) == "250");
  BOOST_TEST(codes(junk.say("NOOP\r\n")) == "250 421");  // EHLO counted too
}

BOOST_AUTO_TEST_CASE(replies_slow_down_after_the_soft_limit) {
  Rig rig("smtpd_soft_error_limit = 2\nsmtpd_error_sleep_time = 3s\n");
  rig.connect();
  rig.say("EHLO x\r\n");
  BOOST_TEST(codes(rig.say("A\r\nB\r\nC\r\n")) == "500 500");
  rig.clock.advance(seconds(2));
  BOOST_TEST(rig.settle() == "");
  rig.clock.advance(seconds(2));
  BOOST_TEST(codes(rig.settle()) == "500");
}

BOOST_AUTO_TEST_CASE(idle_sessions_time_out_with_421) {
  Open rig;
  rig.clock.advance(seconds(299));
  BOOST_TEST(rig.settle() == "");
  rig.clock.advance(seconds(2));
  BOOST_TEST(rig.settle() == "421 4.4.2 mx.example.org Error: timeout exceeded\r\n");
  BOOST_TEST(rig.closed());
  Open data;
  data.say(kMail + kRcpt + "DATA\r\n");
  data.clock.advance(seconds(301));
  BOOST_TEST(codes(data.settle()) == "421");
}

BOOST_AUTO_TEST_CASE(whatever_is_refused_the_transaction_is_over_or_as_it_was) {
  // Postfix had these wrong until 20260724, 20260803 and 20260812: docs/faults-of-postfix.md.
  const std::string utf8 = "\xc3\xa9@example.org>\r\n", text = "Subject: x\r\n\r\nx\r\n.\r\n";
  const std::string whole = kMail + kRcpt + "DATA\r\n" + text, chunk = kMail + kRcpt + "BDAT 3 LAST\r\nx\r\n";
  const struct {
    std::string_view settings;
    std::string said;
    std::string_view codes;
    std::size_t stored = 0;
  } rows[] = {
      {"message_size_limit = 1000\n",
       kMail + kRcpt + "BDAT 1001 LAST\r\n" + std::string(1001, 'x') + kRcpt + "DATA\r\n", "250 250 552 503 503"},
      {"", kMail + "BDAT 1\r\nx" + kRcpt + "DATA\r\n" + text, "250 554 250 354 250", 1},
      {"", kMail + kRcpt + "BDAT 1\r\nxDATA\r\n" + kRcpt + "BDAT 1 LAST\r\nx", "250 250 250 503 503 250", 1},
      {"smtpd_end_of_data_restrictions = reject\n", whole + kRcpt + "DATA\r\n", "250 250 354 554 503 503"},
      {"smtpd_end_of_data_restrictions = reject\n", chunk + kRcpt + "DATA\r\n", "250 250 554 503 503"},
      {"smtpd_end_of_data_restrictions = reject\n", whole + "BDAT 0 LAST\r\n", "250 250 354 554 503"},
      {"smtpd_end_of_data_restrictions = defer\n", whole + kRcpt, "250 250 354 450 503"},
      {"smtpd_data_restrictions = reject\n", kMail + kRcpt + "DATA\r\n" + kMail, "250 250 554 503"},
      {"", "MAIL FROM:<" + utf8 + kRcpt + "DATA\r\n", "553 503 503"},
      {"", kMail + "RCPT TO:<" + utf8 + "DATA\r\n", "250 553 554"},
      {"", kMail + kRcpt + "VRFY " + "\xc3\xa9@example.org\r\n" + "DATA\r\n" + text, "250 250 553 354 250", 1},
      {"", kMail + kRcpt + "MAIL FROM:<" + utf8 + "DATA\r\n" + text, "250 250 503 354 250", 1},
  };
  for (const auto& row : rows) {
    Open rig(std::string(row.settings) + "smtpd_forbid_unauth_pipelining = no\nlocal_header_rewrite_clients =\n");
    const std::string got = codes(rig.say(row.said));
    BOOST_TEST(got == row.codes, row.settings << row.said.substr(0, 300) << ": " << got << ", not " << row.codes);
    BOOST_TEST(rig.queue.stored.size() == row.stored, row.said);
  }
}

BOOST_AUTO_TEST_CASE(tiny_chunks_leave_nothing_behind) {
  Open rig("notify_classes = protocol\n");
  (void)rig.say(kMail + kRcpt);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "BDAT 1\r\nx";
  (void)rig.say(many);
  const auto before = ::mallinfo2().uordblks;
  for (int i = 0; i < 100; ++i) BOOST_TEST(codes(rig.say(many)).size() == 3999u);
  BOOST_TEST(::mallinfo2().uordblks < before + (1U << 20));
}

BOOST_AUTO_TEST_CASE(chunks_that_would_be_skipped_for_ever_end_the_session_at_once) {
  for (const std::string count : {"2002", "900000000000", "18446744073709551615", "99999999999999999999"}) {
    for (const std::string& before : {std::string(), kMail, kMail + kRcpt}) {
      Open rig("message_size_limit = 1000\n");
      BOOST_TEST(codes(rig.say(before + "BDAT " + count + "\r\n")).ends_with(" 421"));
      BOOST_TEST(rig.closed());
    }
  }
  Open unlimited("message_size_limit = 0\n");
  BOOST_TEST(codes(unlimited.say(kMail + kRcpt + "BDAT 99999999999999999999\r\n")) == "250 250 552 421");
}

BOOST_AUTO_TEST_CASE(content_has_a_floor_for_its_rate) {
  for (const bool chunk : {false, true}) {
    const std::string begin = chunk ? "BDAT 200000\r\n" : "DATA\r\n";
    Open slow;
    slow.say(kMail + kRcpt + begin);
    slow.clock.advance(seconds(200));
    BOOST_TEST(slow.say("x") == "");
    slow.clock.advance(seconds(99));
    BOOST_TEST(slow.say("x") == "");
    slow.clock.advance(seconds(2));
    BOOST_TEST(codes(slow.settle()) == "421");
    BOOST_TEST(slow.closed());

    Open fast;
    fast.say(kMail + kRcpt + begin);
    for (int i = 0; i < 10; ++i) {
      fast.clock.advance(seconds(19));
      BOOST_TEST(fast.say(std::string(98, 'x') + "\r\n" + std::string(9898, 'y') + "\r\n") == "");
    }
    BOOST_TEST(!fast.closed());

    Open lax("smtpd_per_request_deadline = no\n");
    lax.say(kMail + kRcpt + begin);
    for (int i = 0; i < 10; ++i) {
      lax.clock.advance(seconds(299));
      BOOST_TEST(lax.say("x") == "");
    }
    BOOST_TEST(!lax.closed());
  }
  Open skipped;  // a refused chunk
  skipped.say("BDAT 100000\r\n");
  skipped.clock.advance(seconds(299));
  BOOST_TEST(skipped.say("x") == "");
  skipped.clock.advance(seconds(2));
  BOOST_TEST(codes(skipped.settle()) == "421");
  Open quick("smtpd_min_data_rate = 1000000\n");  // the data that came may not prolong it
  quick.say(kMail + kRcpt + "DATA\r\n");
  quick.clock.advance(seconds(290));
  BOOST_TEST(quick.say(std::string(10000, 'x')) == "");
  quick.clock.advance(seconds(11));
  BOOST_TEST(codes(quick.settle()) == "421");
}

BOOST_AUTO_TEST_CASE(replies_of_421_and_521_end_the_session) {
  for (const std::string code : {"421", "521"}) {
    const std::string table = "inline:{ {192.0.2.7 = " + code + " go away} {bad.example = " + code + " go} }";
    Rig rig("smtpd_client_restrictions = check_client_access " + table + "\n");
    rig.connect();
    rig.say("EHLO x\r\n");
    BOOST_TEST(codes(rig.say(kMail + kRcpt + kRcpt + "NOOP\r\n")) == "250 " + code);
    BOOST_TEST(rig.closed());
    Rig early("smtpd_delay_reject = no\nsmtpd_client_restrictions = check_client_access " + table + "\n");
    BOOST_TEST(codes(early.connect()) == code);
    BOOST_TEST(early.closed());
    Rig sender("smtpd_sender_restrictions = check_sender_access " + table + "\n");
    sender.connect();
    sender.say("EHLO x\r\n");
    BOOST_TEST(codes(sender.say("MAIL FROM:<a@bad.example>\r\n" + kRcpt + "QUIT\r\n")).ends_with("250 " + code));
    BOOST_TEST(sender.closed());
  }
}

BOOST_AUTO_TEST_CASE(recipients_of_all_sessions_together_take_bounded_memory) {
  Open rig("smtpd_recipient_limit = 10000\n");
  rig.intake.memory = intake::RecipientMemory(20'000);
  rig.say(kMail);
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += codes(rig.say("RCPT TO:<user@example.org> ORCPT=rfc822;" + std::string(400, 'x') + "\r\n")) + " ";
  BOOST_TEST(all.starts_with("250 250 "));
  BOOST_TEST(all.ends_with("452 452 "));
  BOOST_TEST(rig.intake.memory.used() > 20'000U);
  BOOST_TEST(rig.intake.memory.used() < 22'000U);
  // A client with few recipients is served beside it.
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const Fd other(fds[1]);
  rig.sessions.spawn("session", Session::serve(rig.server, async::Stream(rig.loop, Fd(fds[0])),
                                               async::SocketAddress::inet("192.0.2.8", 4711), {}));
  rig.settle();
  for (const std::string& text : {std::string("EHLO y\r\n"), kMail + kRcpt + kRcpt + "DATA\r\n"}) {
    BOOST_REQUIRE(::send(other.get(), text.data(), text.size(), 0) > 0);
    rig.settle();
  }
  std::string got(4096, '\0');
  got.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::recv(other.get(), got.data(), got.size(), 0))));
  BOOST_TEST(codes(got).ends_with("250 250 250 354"));
  rig.say("RSET\r\n");
  BOOST_TEST(rig.intake.memory.used() < 2'000U);
  BOOST_TEST(codes(rig.say(kMail + kRcpt)) == "250 250");
}

BOOST_AUTO_TEST_CASE(a_drain_says_421_in_any_waiting_state) {
  for (const std::string& state : {std::string(), kMail, kMail + kRcpt + "DATA\r\n", kMail + kRcpt + "BDAT 10\r\n"}) {
    Open rig;
    if (!state.empty()) rig.say(state);
    rig.server.stop();
    BOOST_TEST(codes(rig.settle()) == "421");
    BOOST_TEST(rig.closed());
  }
}

BOOST_AUTO_TEST_CASE(over_long_lines_are_refused_whole) {
  Open rig;
  BOOST_TEST(codes(rig.say("NOOP " + std::string(2100, 'x') + "\r\nNOOP\r\n")) == "500 250");
  Open path;
  BOOST_TEST(codes(path.say("MAIL FROM:<" + std::string(64, 'l') + "@" + std::string(60, 'd') + ".example>\r\n")) ==
             "250");
  Open domain;
  BOOST_TEST(codes(domain.say("MAIL FROM:<a@" + std::string(300, 'd') + ">\r\n")) == "501");
  Open text;
  text.say(kMail + kRcpt + "DATA\r\n");
  BOOST_TEST(codes(text.say(std::string(15000, 'x') + "\r\n.\r\n")) == "250");
}

BOOST_AUTO_TEST_CASE(dsn_parameters_are_carried_on) {
  Open rig;
  rig.say("MAIL FROM:<s@x> RET=HDRS ENVID=a+2Bb BODY=8BITMIME SMTPUTF8\r\n");
  rig.say("RCPT TO:<user@example.org> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;user+40x\r\nDATA\r\n");
  rig.say("x\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  const auto& e = rig.queue.stored[0].envelope;
  BOOST_TEST(e.envid == "a+b");
  BOOST_TEST((e.ret == mail::Ret::headers));
  BOOST_TEST((e.body_type == mail::BodyType::eight_bit_mime));
  BOOST_TEST(e.smtputf8);
  BOOST_TEST(e.recipients[0].notify == (mail::notify::kSuccess | mail::notify::kDelay));
  BOOST_TEST(e.recipients[0].orcpt == "rfc822;user+40x");
  BOOST_TEST(rig.queue.stored[0].content.find(" with UTF8SMTP id ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_force_mime_input_conversion_made_7_bit_is_not_declared_8_bit) {
  const auto stored_as = [](bool convert, const std::string& label) {
    Open rig;
    rig.intake.settings.seven_bit = convert;
    rig.say("MAIL FROM:<s@x> BODY=8BITMIME\r\n" + kRcpt + "DATA\r\n");
    rig.say("Content-Transfer-Encoding: " + label + "\r\n\r\n\xc3\xa4\r\n.\r\n");
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    return rig.queue.stored[0].envelope.body_type;
  };
  using enum mail::BodyType;
  BOOST_TEST((stored_as(true, "8bit") == seven_bit));
  BOOST_TEST((stored_as(true, "7bit") == eight_bit_mime));  // the client said 8BITMIME, so the content stayed as it was
  BOOST_TEST((stored_as(false, "8bit") == eight_bit_mime));
}

BOOST_AUTO_TEST_CASE(local_clients_get_missing_fields_and_remote_ones_do_not) {
  Rig rig("local_header_rewrite_clients = permit_mynetworks\n");
  rig.connect("127.0.0.1");
  rig.say("EHLO x\r\n");
  rig.say(kMail + kRcpt + "DATA\r\n");
  rig.say("Subject: x\r\n\r\nb\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
  const auto& content = rig.queue.stored[0].content;
  BOOST_TEST(content.find("\r\nSubject: x\r\nMessage-Id: <") != std::string::npos);
  BOOST_TEST(content.find("\r\nDate: ") != std::string::npos);
  BOOST_TEST(content.find("\r\nFrom: s@remote.example\r\n\r\nb\r\n") != std::string::npos);
  BOOST_TEST(rig.queue.stored[0].envelope.message_id.ends_with(".Q1@mx.example.org>"));
}

BOOST_AUTO_TEST_CASE(refusals_carry_the_footer) {
  Open rig("smtpd_reject_footer = see https://x/?c=$client_address&h=${helo_name}.\n");
  BOOST_TEST(rig.say("FOO\r\n") ==
             "500-5.5.2 Error: command not recognized\r\n"
             "500 5.5.2 see https://x/?c=192.0.2.7&h=client.example.\r\n");
  Open same("smtpd_reject_footer = \\c; call us\n");
  BOOST_TEST(same.say("FOO\r\n") == "500 5.5.2 Error: command not recognized; call us\r\n");
  Open two("smtpd_reject_footer = \\c. See\\nthe page of $server_name, $localtime\n");
  BOOST_TEST(
      two.say("FOO\r\n").starts_with("500-5.5.2 Error: command not recognized. See\r\n"
                                     "500 5.5.2 the page of mx.example.org, "));
  Open all("smtpd_reject_footer = call us\nsmtpd_hard_error_limit = 1\n");
  BOOST_TEST(all.say("FOO\r\n") ==
             "500-5.5.2 Error: command not recognized\r\n500 5.5.2 call us\r\n"
             "421-4.7.0 mx.example.org Error: too many errors\r\n421 4.7.0 call us\r\n");
  // The first recipient that was taken, without the quotes of a command.
  Open names("smtpd_reject_footer = $sender to $recipient\n");
  names.say("MAIL FROM:<\"a b\"@x.example>\r\n");
  BOOST_TEST(names.say("RCPT TO:<x@elsewhere.example>\r\n").contains("a b@x.example to \r\n"));
  names.say(kRcpt);
  BOOST_TEST(names.say("RCPT TO:<x@elsewhere.example>\r\n").contains("a b@x.example to user@example.org\r\n"));
  Open unknown("smtpd_reject_footer = see $nothing\n");
  BOOST_TEST(unknown.policy->warnings.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_footer_may_depend_on_the_reply_and_keeps_odd_characters_out) {
  Open rig(
      "smtpd_reject_footer = elsewhere\n"
      "smtpd_reject_footer_maps = pcre:{ {/^500 (\\S+)/ see $$1 $$$$helo_name} }\n"
      "smtpd_expansion_filter = abcdefghijklmnopqrstuvwxyz.\n");
  BOOST_TEST_REQUIRE(rig.problem == "");
  rig.say("EHLO Client-1.example\r\n");
  BOOST_TEST(rig.say("FOO\r\n") ==
             "500-5.5.2 Error: command not recognized\r\n500 5.5.2 see 5.5.2 _lient__.example\r\n");
  BOOST_TEST(rig.say("RCPT TO:<a@b>\r\n") == "503-5.5.1 Error: need MAIL command\r\n503 5.5.1 elsewhere\r\n");
}

BOOST_AUTO_TEST_CASE(recipient_checks_can_be_left_to_others) {
  Open rig("receive_override_options = no_unknown_recipient_checks\n");
  rig.say(kMail);
  BOOST_TEST(codes(rig.say("RCPT TO:<nobody@example.org>\r\n")) == "250");
}

BOOST_AUTO_TEST_CASE(xforward_tells_of_the_client_that_a_filter_speaks_for) {
  Open stranger;
  BOOST_TEST(stranger.say("XFORWARD NAME=a\r\n") == "550 5.7.0 Error: insufficient authorization\r\n");
  Open rig("smtpd_authorized_xforward_hosts = 192.0.2.7\n");
  BOOST_TEST(rig.say("EHLO filter.example\r\n")
                 .find("XFORWARD NAME ADDR PORT PROTO HELO IDENT "
                       "SOURCE\r\n") != std::string::npos);
  for (const auto& [wrong, said] : {std::pair{"XFORWARD", "Syntax: XFORWARD attribute=value..."},
                                    {"XFORWARD NAME", "Error: attribute=value expected"},
                                    {"XFORWARD ADDR=nonsense", "Bad ADDR syntax: nonsense"},
                                    {"XFORWARD Colour=red", "Bad XFORWARD attribute name: COLOUR"}})
    BOOST_TEST(rig.say(std::string(wrong) + "\r\n") == std::string("501 5.5.4 ") + said + "\r\n");
  const std::string told =
      "XFORWARD NAME=first.example ADDR=IPV6:2001:db8::9\r\n"
      "XFORWARD PORT=99 PROTO=ESMTPS HELO=h+20x IDENT=4bQ SOURCE=LOCAL\r\n";
  BOOST_TEST(codes(rig.say(told)) == "250 250");
  rig.say(kMail + kRcpt);
  BOOST_TEST(codes(rig.say("XFORWARD NAME=late\r\n")) == "503");
  rig.say("DATA\r\n");
  rig.say("Subject: x\r\n\r\nb\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1U);
  const auto& client = rig.queue.stored[0].envelope.client;
  BOOST_TEST(client.name == "first.example");
  BOOST_TEST(client.address == "2001:db8::9");
  BOOST_TEST(client.port == 99);
  BOOST_TEST(client.helo == "h x");
  BOOST_TEST(client.protocol == "ESMTPS");
  // Received: describes this hop; SOURCE=LOCAL has the header completed.
  BOOST_TEST(rig.queue.stored[0].content.starts_with("Received: from filter.example (client.example [192.0.2.7])\r\n"));
  BOOST_TEST(rig.queue.stored[0].content.find("\r\nDate: ") != std::string::npos);
  // XFORWARD counted for that message only.
  rig.say(kMail + kRcpt + "DATA\r\n");
  rig.say("Subject: x\r\n\r\nb\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 2U);
  BOOST_TEST(rig.queue.stored[1].envelope.client.address == "192.0.2.7");
  // A filter that does not know the client's address does not turn the mail into local submission.
  BOOST_TEST(codes(rig.say("XFORWARD NAME=[UNAVAILABLE] ADDR=[UNAVAILABLE]\r\n")) == "250");
  rig.say(kMail + kRcpt + "DATA\r\n");
  rig.say("Subject: x\r\n\r\nb\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 3U);
  BOOST_TEST(rig.queue.stored[2].envelope.client.address == "unknown");
}

BOOST_AUTO_TEST_CASE(xclient_makes_the_session_another_clients) {
  Open stranger;
  BOOST_TEST(codes(stranger.say("XCLIENT\r\n")) == "501");
  BOOST_TEST(codes(stranger.say("XCLIENT ADDR=127.0.0.1\r\n")) == "550");
  Open rig("smtpd_authorized_xclient_hosts = 192.0.2.7\n");
  const std::string far = "RCPT TO:<x@elsewhere.example>\r\n";
  rig.say(kMail);
  BOOST_TEST(codes(rig.say(far)) == "454");
  BOOST_TEST(codes(rig.say("XCLIENT ADDR=127.0.0.1\r\n")) == "503");
  rig.say("RSET\r\n");
  for (const char* bad : {"ADDR=x", "ADDR=[TEMPUNAVAIL]", "PORT=70000", "PROTO=UUCP", "COLOUR=red", "DESTADDR=x",
                          "DESTPORT=70000", "DESTPORT=x"})
    BOOST_TEST(codes(rig.say(std::string("XCLIENT ") + bad + "\r\n")) == "501", bad);
  BOOST_TEST(rig.say("XCLIENT NAME=own.example ADDR=127.0.0.1 DESTADDR=IPV6:2001:db8::1 "
                     "DESTPORT=25\r\n")
                 .starts_with("220 "));
  rig.say("EHLO x\r\n");
  rig.say(kMail);
  BOOST_TEST(codes(rig.say(far)) == "250");
  rig.say("RSET\r\n");
  // A proxy passes on what the client says: that client must not become another one.
  BOOST_TEST(codes(rig.say("XCLIENT NAME=[UNAVAILABLE] ADDR=198.51.100.1\r\n")) == "550");
  BOOST_TEST(codes(rig.say("XCLIENT LOGIN=boss\r\n")) == "550");
  BOOST_TEST(rig.say("EHLO x\r\n").find("XCLIENT") == std::string::npos);
  // A client without an address is in no list.
  rig.connect();
  BOOST_TEST(codes(rig.say("XCLIENT NAME=[UNAVAILABLE] ADDR=[UNAVAILABLE] PORT=[UNAVAILABLE] "
                           "DESTADDR=[UNAVAILABLE] DESTPORT=[UNAVAILABLE]\r\n")) == "220");
  rig.say("EHLO x\r\n");
  rig.say(kMail);
  BOOST_TEST(codes(rig.say(far)) == "454");
  rig.say(kRcpt + "DATA\r\n");
  rig.say("Subject: x\r\n\r\nb\r\n.\r\n");
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1U);
  BOOST_TEST(rig.queue.stored[0].content.starts_with("Received: from x (unknown [unknown])\r\n"));
}

BOOST_AUTO_TEST_CASE(a_name_by_xclient_is_the_reverse_name_too_unless_another_is_told) {
  const auto answer = [](const std::string& said) {
    Open rig(
        "smtpd_authorized_xclient_hosts = 192.0.2.7\n"
        "smtpd_delay_reject = no\n"
        "smtpd_client_restrictions = check_reverse_client_hostname_access "
        "inline:{ a.example=REJECT }\n");
    return codes(rig.say("XCLIENT ADDR=198.51.100.1 " + said + "\r\n"));
  };
  BOOST_TEST(answer("NAME=a.example") == "554");
  BOOST_TEST(answer("NAME=b.example") == "220");
  BOOST_TEST(answer("REVERSE_NAME=b.example NAME=a.example") == "220");
  BOOST_TEST(answer("NAME=b.example REVERSE_NAME=a.example") == "554");
  BOOST_TEST(answer("NAME=[UNAVAILABLE]") == "220");
}

BOOST_AUTO_TEST_CASE(a_listed_name_is_that_host_and_with_a_dot_in_front_all_below_it) {
  const auto told = [](const std::string& settings, const char* name) {
    Rig rig(settings);
    BOOST_TEST_REQUIRE(rig.problem == "");
    rig.names.client_name.name = name;
    rig.connect();
    const std::string first = codes(rig.say("XCLIENT PORT=1\r\n"));
    return first + " " + codes(rig.say("XFORWARD PORT=1\r\n"));
  };
  const auto hosts = [](const std::string& item) {
    return "smtpd_authorized_xclient_hosts = " + item + "\nsmtpd_authorized_xforward_hosts = " + item + "\n";
  };
  BOOST_TEST(told(hosts("proxy.example"), "proxy.example") == "220 250");
  BOOST_TEST(told(hosts("proxy.example"), "a.proxy.example") == "550 550");
  BOOST_TEST(told(hosts(".proxy.example"), "a.proxy.example") == "220 250");
  BOOST_TEST(told(hosts(".proxy.example"), "proxy.example") == "550 550");
  const std::string parents = "parent_domain_matches_subdomains = smtpd_authorized_xclient_hosts\n";
  BOOST_TEST(told(parents + hosts("proxy.example"), "a.proxy.example") == "220 550");
}

BOOST_AUTO_TEST_CASE(helo_can_be_required) {
  Rig rig("smtpd_helo_required = yes\n");
  rig.connect();
  BOOST_TEST(codes(rig.say(kMail)) == "503");
  Rig lax;
  lax.connect();
  BOOST_TEST(codes(lax.say(kMail)) == "250");
}

BOOST_AUTO_TEST_CASE(the_spool_file_is_leased_for_the_declared_size) {
  const std::string declared = "MAIL FROM:<s@remote.example> SIZE=9000000\r\n" + kRcpt;
  const std::string content(300'000, 'x');
  Open data;
  BOOST_TEST(codes(data.say(declared + "DATA\r\n")) == "250 250 354");
  BOOST_TEST(data.queue.asked.empty());
  data.say(content);
  BOOST_TEST(data.queue.asked == std::vector<std::uint64_t>{9'000'000});
  Open chunk;  // the larger size counts
  chunk.say(declared + "BDAT 9500000\r\n" + content);
  BOOST_TEST(chunk.queue.asked == std::vector<std::uint64_t>{9'500'000});
}

BOOST_AUTO_TEST_CASE(memory_for_what_is_declared_is_counted_and_little_where_it_is_scarce) {
  Open rig;
  intake::BodyMemory& memory = rig.intake.bodies;
  memory = intake::BodyMemory(100'000);
  const auto opened = [&] {
    const auto before = memory.used();
    BOOST_TEST(codes(rig.say("MAIL FROM:<s@remote.example> SIZE=10000000\r\n" + kRcpt + "DATA\r\n")) == "250 250 354");
    const auto taken = memory.used() - before;
    BOOST_TEST(codes(rig.say("\r\n.\r\n")) == "250");
    return taken;
  };
  BOOST_TEST(opened() >= rig.queue.limit);
  BOOST_TEST(opened() < 2 * rig.queue.limit);
  BOOST_TEST(memory.used() == 0U);
  intake::Body other(rig.pool, rig.queue, memory, {});
  other.make_room(200'000);
  BOOST_TEST(memory.scarce());
  const auto scarce = opened();
  BOOST_TEST(scarce > 0U);
  BOOST_TEST(scarce < 4'096U);
}

BOOST_AUTO_TEST_CASE(an_idle_session_holds_little_memory_and_frames_come_back) {
  const auto before = async::live_frames();
  {
    Open rig;
    BOOST_TEST(async::live_frames() - before <= 7u);  // welcome() has one, so that those of run() are small
  }
  BOOST_TEST(async::live_frames() == before);
}

BOOST_AUTO_TEST_SUITE_END()
