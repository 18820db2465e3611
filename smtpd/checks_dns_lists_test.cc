// DNS lists in real sessions: what each restriction asks about, the replies, and when questions are asked.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "lib/meaning/smtpd/reply_text.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(checks_dns_lists)

namespace {

const std::string kOk = "250 2.1.5 Ok\r\n";

struct Open : Rig {
  explicit Open(std::string main_cf = {}, std::string address = "192.0.2.7") : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    names.client_name = {NameState::ok, NameState::ok, "mail.client.example", "mail.client.example", NameState::ok};
    connect(std::move(address));
  }
  std::string rcpt(std::string_view to = "user@example.org", std::string_view from = "s@remote.example") {
    say("EHLO helo.example\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
  bool was_asked(const std::string& question) const {
    return std::ranges::find(names.asked, question) != names.asked.end();
  }
};

std::string listed(std::string_view what, std::string_view kind, std::string_view more = "") {
  return "554 5.7.1 Service unavailable; " + std::string(kind) + " [" + std::string(what) +
         "] blocked using l.example" + std::string(more) + "\r\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_restriction_asks_about_its_own_subject) {
  struct Row {
    std::string_view restriction, question, reply;
  };
  const std::string client = listed("192.0.2.7", "Client host"), name = listed("mail.client.example", "Client host"),
                    reverse = listed("mail.client.example", "Unverified Client host"),
                    helo = listed("helo.example", "Helo command"),
                    sender = listed("s@remote.example", "Sender address"),
                    recipient = listed("user@example.org", "Recipient address");
  const Row rows[] = {
      {"reject_rbl_client", "7.2.0.192.l.example", client},
      {"reject_rbl", "7.2.0.192.l.example", client},
      {"reject_rhsbl_client", "mail.client.example.l.example", name},
      {"reject_rhsbl_reverse_client", "mail.client.example.l.example", reverse},
      {"reject_rhsbl_helo", "helo.example.l.example", helo},
      {"reject_rhsbl_sender", "remote.example.l.example", sender},
      {"reject_rhsbl_recipient", "example.org.l.example", recipient},
  };
  for (const auto& row : rows) {
    Open rig("smtpd_recipient_restrictions = " + std::string(row.restriction) + " l.example\n");
    BOOST_TEST(rig.policy->warnings.empty());
    BOOST_TEST(rig.rcpt() == kOk, row.restriction);
    BOOST_TEST(rig.was_asked("A " + std::string(row.question)), row.restriction);
    rig.names.dns["A " + std::string(row.question)] = {"127.0.0.2"};
    rig.say("RSET\r\n");
    BOOST_TEST(rig.rcpt() == row.reply, row.restriction);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_asked_about_what_is_not_known) {
  Open rig(
      "smtpd_recipient_restrictions = reject_rhsbl_client l.example, reject_rhsbl_reverse_client l.example, "
      "reject_rhsbl_sender l.example, reject_rhsbl_helo l.example\n");
  rig.names.client_name = {};
  rig.names.asked.clear();
  rig.connect();
  rig.say("EHLO [192.0.2.7]\r\n");
  rig.say("MAIL FROM:<>\r\n");
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
  BOOST_TEST(rig.names.asked.empty());
}

BOOST_AUTO_TEST_CASE(a_filter_says_which_answers_count) {
  Open rig("smtpd_client_restrictions = reject_rbl_client l.example=127.0.0.[2..4;10]\n");
  rig.names.dns["A 7.2.0.192.l.example"] = {"127.0.0.5"};
  BOOST_TEST(rig.rcpt() == kOk);
  rig.names.dns["A 7.2.0.192.l.example"] = {"127.0.0.5", "127.0.0.10"};
  rig.names.dns["TXT 7.2.0.192.l.example"] = {"https://l.example/ask?192.0.2.7", "or write"};
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") ==
             listed("192.0.2.7", "Client host", "; https://l.example/ask?192.0.2.7 / or write"));
}

BOOST_AUTO_TEST_CASE(a_list_that_fails_or_refuses_counts_as_not_listed) {
  Open rig("smtpd_client_restrictions = reject_rbl_client l.example, reject_rbl_client parked.example\n");
  rig.names.broken = {"7.2.0.192.l.example"};
  rig.names.dns["A 7.2.0.192.parked.example"] = {"198.51.100.80"};
  BOOST_TEST(rig.rcpt() == kOk);
  rig.names.broken.clear();
  rig.names.dns["A 7.2.0.192.l.example"] = {"127.255.255.254"};
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
}

BOOST_AUTO_TEST_CASE(replies_are_made_from_the_template_of_the_list_or_the_default) {
  const std::string list = "smtpd_client_restrictions = reject_rbl_client l.example=127.0.0.2\n";
  struct Row {
    std::string_view setting, reply;
  };
  const Row rows[] = {
      {"maps_rbl_reject_code = 521", "521 5.7.1 Service unavailable; Client host [192.0.2.7] blocked using l.example"},
      {"maps_rbl_reject_code = 450", "450 4.7.1 Service unavailable; Client host [192.0.2.7] blocked using l.example"},
      {"default_rbl_reply = 550 5.7.9 no, $rbl_code", "550 5.7.9 no, 554"},
      {"default_rbl_reply = 550 4.2.9 no", "550 5.2.9 no"},  // the status follows the code
      {"default_rbl_reply = 450 ", "450 4.7.1 Service unavailable"},
      {"default_rbl_reply = no code", "450 4.7.1 Service unavailable"},
      {"default_rbl_reply = 250 fine", "450 4.7.1 Service unavailable"},
      {"default_rbl_reply = 554 $client $client_address $client_name $reverse_client_name $helo_name",
       "554 5.7.1 mail.client.example[192.0.2.7] 192.0.2.7 mail.client.example mail.client.example helo.example"},
      {"default_rbl_reply = 554 $sender $sender_name $sender_domain $recipient $recipient_name $recipient_domain",
       "554 5.7.1 s@remote.example s remote.example user@example.org user example.org"},
      {"default_rbl_reply = 554 $rbl_class ${rbl_what} $(rbl_domain) ${rbl_txt:none} $$5 ${client?{a}:{b}}",
       "554 5.7.1 Client host 192.0.2.7 l.example none $5 a"},
      {"smtpd_expansion_filter = \\40.0123456789abcdefghijklmnopqrstuvwxyz",  // no capitals
       "554 5.7.1 Service unavailable; _lient host [192.0.2.7] blocked using l.example"},
      {"rbl_reply_maps = inline:{ {l.example = 550 plain} }", "550 5.7.1 plain"},
      {"rbl_reply_maps = pcre:{ {/^l.example=127.0.0.2$$/ 551 exact} {/./ 550 plain} }", "551 5.7.1 exact"},
      {"rbl_reply_maps = inline:{ {other.example = 550 no} }",
       "554 5.7.1 Service unavailable; Client host [192.0.2.7] blocked using l.example"},
      {"rbl_reply_maps = inline:{ {l.example = 550 $$nothing} }",  // a bad template is as none
       "554 5.7.1 Service unavailable; Client host [192.0.2.7] blocked using l.example"},
      {"rbl_reply_maps = texthash:/nonexistent/table", "451 4.3.5 Server configuration error"},
      {"soft_bounce = yes", "454 4.7.1 Service unavailable; Client host [192.0.2.7] blocked using l.example"},
  };
  for (const auto& row : rows) {
    Open rig(list + std::string(row.setting) + "\n");
    rig.names.dns["A 7.2.0.192.l.example"] = {"127.0.0.2"};
    BOOST_TEST(rig.rcpt() == std::string(row.reply) + "\r\n", row.setting);
  }
}

BOOST_AUTO_TEST_CASE(a_default_reply_that_cannot_be_expanded_is_refused_at_start) {
  for (const char* bad : {"554 $nothing", "554 ${rbl_what", "554 ${rbl_what?x:y}z $", "554 ${rbl_what?${nothing}}"})
    BOOST_TEST(
        Rig("default_rbl_reply = " + std::string(bad) + "\n").problem.find("default_rbl_reply") != std::string::npos,
        bad);
}

BOOST_AUTO_TEST_CASE(what_a_client_says_does_not_get_into_a_reply_unfiltered) {
  BOOST_TEST(expand_reply(
                 "<$helo_name>", [](std::string_view) { return "a$client\x7f\nb"; }, "ab$client")
                 .text == "<a$client__b>");
  BOOST_TEST(unescape("\\t\\40\\\\\\101\\x\\") == "\t \\Ax\\");
}

BOOST_AUTO_TEST_CASE(a_list_of_the_good_permits_but_opens_no_relay) {
  for (const std::string restriction : {"permit_dnswl_client", "permit_rhswl_client"}) {
    Open rig("smtpd_recipient_restrictions = " + restriction + " w.example, reject\n");
    BOOST_TEST(rig.rcpt() == "554 5.7.1 <user@example.org>: Recipient address rejected: Access denied\r\n");
    const std::string question = restriction == "permit_dnswl_client" ? "7.2.0.192" : "mail.client.example";
    rig.names.dns["A " + question + ".w.example"] = {"127.0.5.2"};
    BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
    Open relay("smtpd_relay_restrictions = " + restriction + " w.example, reject_unauth_destination\n");
    relay.names.dns = rig.names.dns;
    BOOST_TEST(relay.rcpt("x@elsewhere.example") == "554 5.7.1 <x@elsewhere.example>: Relay access denied\r\n");
  }
}

BOOST_AUTO_TEST_CASE(who_might_be_in_a_list_of_the_good_is_not_refused_for_good) {
  const std::string later = "450 4.7.1 <192.0.2.7>: Client host rejected: Service unavailable\r\n";
  Open rig("smtpd_recipient_restrictions = permit_dnswl_client w.example, reject\n");
  rig.names.broken = {"7.2.0.192.w.example"};
  BOOST_TEST(rig.rcpt() == later);
  rig.names.broken.clear();
  // dnswl.org, beyond its limit: neither in the list nor out of it
  rig.names.dns["A 7.2.0.192.w.example"] = {"127.0.0.255"};
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == later);
  Open fine("smtpd_recipient_restrictions = permit_dnswl_client w.example, permit\n");
  fine.names.broken = {"7.2.0.192.w.example"};
  BOOST_TEST(fine.rcpt() == kOk);
}

BOOST_AUTO_TEST_CASE(all_lists_are_asked_as_soon_as_their_name_is_known) {
  Open rig(
      "smtpd_restriction_classes = extra\nextra = reject_rbl_client c.example\n"
      "smtpd_recipient_restrictions = reject_rbl_client a.example=127.0.0.2, reject_rbl_client b.example, "
      "reject_rhsbl_client a.example, reject_rhsbl_helo h.example, reject_rhsbl_sender s.example, "
      "reject_rhsbl_sender t.example, reject_rhsbl_recipient r.example\n");
  using Asked = std::vector<std::string>;
  const auto asked = [&] { return std::exchange(rig.names.asked, {}); };
  rig.names.asked.clear();
  rig.connect();
  BOOST_TEST((asked() == Asked{"A 7.2.0.192.a.example", "A 7.2.0.192.b.example", "A 7.2.0.192.c.example",
                               "A mail.client.example.a.example"}));
  rig.say("EHLO helo.example\r\n");
  BOOST_TEST((asked() == Asked{"A helo.example.h.example"}));
  rig.say("MAIL FROM:<s@remote.example>\r\n");
  BOOST_TEST((asked() == Asked{"A remote.example.s.example", "A remote.example.t.example"}));
  rig.say("RCPT TO:<user@example.org>\r\n");
  BOOST_TEST(rig.was_asked("A example.org.r.example"));
}

BOOST_AUTO_TEST_CASE(trusted_clients_are_asked_about_only_when_a_restriction_wants_it) {
  const std::string lists =
      "smtpd_recipient_restrictions = permit_mynetworks, reject_rbl_client a.example, reject_rhsbl_sender s.example, "
      "reject_rhsbl_recipient r.example, reject_rhsbl_helo h.example\n";
  Open rig(lists, "127.0.0.1");
  BOOST_TEST(rig.rcpt() == kOk);
  BOOST_TEST(rig.names.asked.empty());
}

BOOST_AUTO_TEST_CASE(after_xclient_the_new_client_is_asked_about) {
  Open rig("smtpd_authorized_xclient_hosts = 127.0.0.1\nsmtpd_client_restrictions = reject_rbl_client l.example\n",
           "127.0.0.1");
  rig.names.dns["A 9.2.0.192.l.example"] = {"127.0.0.2"};
  rig.say("EHLO x\r\n");
  rig.say("XCLIENT ADDR=192.0.2.9 NAME=other.example\r\n");
  BOOST_TEST((rig.names.asked == std::vector<std::string>{"A 9.2.0.192.l.example"}));
  BOOST_TEST(rig.rcpt() == listed("192.0.2.9", "Client host"));
}

BOOST_AUTO_TEST_CASE(a_list_that_does_not_answer_holds_up_its_own_session_for_ten_seconds) {
  Open rig("smtpd_recipient_restrictions = reject_rbl_client l.example, reject_rbl_client m.example\n");
  async::Event gate(rig.loop);
  rig.names.gate = &gate;
  rig.connect();
  BOOST_TEST(rig.rcpt() == "");
  rig.clock.advance(seconds(9));
  BOOST_TEST(rig.settle() == "");
  rig.clock.advance(seconds(2));
  const std::string first = rig.settle();
  BOOST_TEST(first + rig.settle() == kOk);  // both lists were asked at once
  rig.names.gate = nullptr;
}

BOOST_AUTO_TEST_CASE(lists_that_an_access_table_names_are_asked_too) {
  Open rig("smtpd_client_restrictions = check_client_access inline:{ {192.0.2 = reject_rbl_client l.example} }\n");
  BOOST_TEST(rig.names.asked.empty());
  rig.names.dns["A 7.2.0.192.l.example"] = {"127.0.0.2"};
  BOOST_TEST(rig.rcpt() == listed("192.0.2.7", "Client host"));
}

BOOST_AUTO_TEST_SUITE_END()
