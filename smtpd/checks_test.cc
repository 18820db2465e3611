// Restriction lists in real sessions: the answer of each restriction, and when it comes.
#include <boost/test/unit_test.hpp>

#include "lib/mail/expanded.h"
#include "smtpd/access.h"
#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(checks)

namespace {

const std::string kRelay = "smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination\n";

struct Open : Rig {
  explicit Open(std::string main_cf = {}, std::string address = "192.0.2.7") : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    connect(std::move(address));
    say("EHLO client.example\r\n");
  }
  /// The reply to RCPT after MAIL.
  std::string rcpt(std::string_view to, std::string_view from = "s@remote.example") {
    say("RSET\r\n");
    if (auto mail = say("MAIL FROM:<" + std::string(from) + ">\r\n"); !mail.starts_with("250")) return mail;
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
};
const std::string kOk = "250 2.1.5 Ok\r\n";

}  // namespace

BOOST_AUTO_TEST_CASE(by_default_strangers_reach_only_our_domains_and_trusted_clients_all) {
  Open stranger;
  BOOST_TEST(stranger.rcpt("x@elsewhere.example") == "454 4.7.1 <x@elsewhere.example>: Relay access denied\r\n");
  BOOST_TEST(stranger.rcpt("user@example.org") == kOk);
  Open trusted("", "127.0.0.1");
  BOOST_TEST(trusted.rcpt("x@elsewhere.example") == kOk);
  Open relay(kRelay);
  BOOST_TEST(relay.rcpt("x@elsewhere.example") == "554 5.7.1 <x@elsewhere.example>: Relay access denied\r\n");
  relay.resolver->relay_domains.insert("customer.example");
  BOOST_TEST(relay.rcpt("anyone@customer.example") == kOk);
  for (const char* setting : {"resolve_dequoted_address = yes\n", "resolve_dequoted_address = no\n"}) {
    Open quoted(kRelay + setting);  // the next host may look into the quotes
    quoted.resolver->relay_domains.insert("customer.example");
    for (const char* address : {"\"x@elsewhere.example\"@customer.example", "\"x%elsewhere.example\"@customer.example"})
      BOOST_TEST(quoted.rcpt(address).starts_with("554 5.7.1 "), address);
  }
}

BOOST_AUTO_TEST_CASE(an_open_relay_is_refused_at_start) {
  const std::string classes =
      "smtpd_restriction_classes = ours, open, round\nours = permit_mynetworks, reject_unauth_destination\n"
      "open = permit_mynetworks\nround = round\n";
  struct Row {
    const char* relay;
    bool starts;
  };
  for (const Row& row : {Row{"permit_mynetworks, reject_unauth_destination", true},
                         Row{"permit_mynetworks, Defer_Unauth_Destination", true},
                         Row{"permit_mynetworks, permit, reject_unauth_destination", false},
                         Row{"permit_mynetworks, warn_if_reject reject_unauth_destination", false},
                         Row{"permit_mynetworks, warn_if_reject reject_unauth_destination, reject", true},
                         Row{"ours", true}, Row{"open", false}, Row{"open, ours", true}, Row{"round", false},
                         Row{"warn_if_reject ours", false}, Row{"check_client_access static:ours", false}})
    BOOST_CHECK_MESSAGE(Rig(classes + "smtpd_relay_restrictions = " + row.relay + "\n").problem.empty() == row.starts,
                        row.relay);
  BOOST_TEST(Rig("smtpd_relay_restrictions = permit_mynetworks\n").problem.find("reject_unauth_destination") !=
             std::string::npos);
  BOOST_TEST(Rig("smtpd_relay_restrictions =\n").problem != "");
  BOOST_TEST(Rig("smtpd_relay_restrictions =\nsmtpd_recipient_restrictions = permit_mynetworks, "
                 "reject_unauth_destination\n")
                 .problem == "");
}

BOOST_AUTO_TEST_CASE(only_clients_that_reach_a_network_that_cannot_be_read_get_an_error) {
  const std::string networks = "mynetworks = 127.0.0.0/8 [2001:db8::1]/64 192.0.2.1/24\n";
  Open before(kRelay + networks, "127.0.0.1");
  BOOST_TEST(before.rcpt("x@elsewhere.example") == kOk);
  Open at(kRelay + networks, "198.51.100.1");
  BOOST_TEST(at.rcpt("user@example.org").starts_with("451 4.3.0 "));
  Open other(kRelay + "mynetworks = 127.0.0.0/8 [2001:db8::1]/64\n", "198.51.100.1");
  BOOST_TEST(other.rcpt("user@example.org") == kOk);
}

BOOST_AUTO_TEST_CASE(unknown_users_are_refused_at_rcpt_unless_told_otherwise) {
  Open rig;
  BOOST_TEST(rig.rcpt("nobody@example.org") ==
             "550 5.1.1 <nobody@example.org>: Recipient address rejected: User unknown in local "
             "recipient table\r\n");
  Open brief("show_user_unknown_table_name = no\nunknown_local_recipient_reject_code = 450\n");
  BOOST_TEST(brief.rcpt("nobody@example.org") ==
             "450 4.1.1 <nobody@example.org>: Recipient address rejected: User unknown\r\n");
  Open lax("smtpd_reject_unlisted_recipient = no\n");
  BOOST_TEST(lax.rcpt("nobody@example.org") == kOk);
  Open deferred(
      "smtpd_client_restrictions = defer_if_permit\nsmtpd_helo_restrictions = check_helo_access static:DISCARD\n");
  BOOST_TEST(deferred.rcpt("user@example.org").starts_with("450 4.7.0 "));  // as in Postfix: there is a second try
  Open sender("smtpd_reject_unlisted_sender = yes\n");
  BOOST_TEST(
      sender.rcpt("user@example.org", "nobody@example.org").starts_with("550 5.1.0 <nobody@example.org>: Sender"));
  sender.say("RSET\r\n");
  BOOST_TEST(sender.say("MAIL FROM:<nobody@example.org>\r\n").starts_with("250"));  // smtpd_delay_reject
  Open at_once("smtpd_reject_unlisted_sender = yes\nsmtpd_delay_reject = no\n");
  BOOST_TEST(at_once.say("MAIL FROM:<nobody@example.org>\r\n").starts_with("550 5.1.0 "));
  Open aliases("smtpd_reject_unlisted_sender = yes\n");
  aliases.resolver->alias_domains.insert("alias.example");
  BOOST_TEST(
      aliases.rcpt("user@example.org", "nobody@alias.example").starts_with("550 5.1.7 <nobody@alias.example>: Sender"));
  rig.resolver->broken = true;
  BOOST_TEST(rig.rcpt("user@example.org").starts_with("451 4.3.0 "));
}

BOOST_AUTO_TEST_CASE(recipients_whose_route_is_error_are_refused_with_its_text) {
  Open rig("", "127.0.0.1");
  rig.resolver->answer.transport = "error";
  rig.resolver->answer.nexthop = "5.1.2 no such place";
  const std::string no = "550 5.1.2 <a@gone.example>: Recipient address rejected: no such place\r\n";
  BOOST_TEST(rig.rcpt("a@gone.example") == no);
  rig.resolver->aliases = {{"list@example.org", {"a@b"}}};
  BOOST_TEST(rig.rcpt("list@example.org") == kOk);  // goes elsewhere
  BOOST_TEST(rig.rcpt("user@example.org").starts_with("550 5.1.2 "));
  rig.resolver->answer.nexthop = "mailbox closed";
  BOOST_TEST(rig.rcpt("a@gone.example") ==
             "550 5.1.1 <a@gone.example>: Recipient address rejected: mailbox closed\r\n");
  rig.resolver->answer.nexthop = "4.2.2 full";  // the transport decides the class
  BOOST_TEST(rig.rcpt("a@gone.example") == "550 5.2.2 <a@gone.example>: Recipient address rejected: full\r\n");
  rig.resolver->answer.nexthop = "";
  BOOST_TEST(rig.rcpt("a@gone.example") ==
             "550 5.1.1 <a@gone.example>: Recipient address rejected: Address is undeliverable\r\n");
  rig.resolver->answer.nexthop = "mailbox closed";
  rig.resolver->answer.transport = "retry";
  BOOST_TEST(rig.rcpt("a@gone.example") ==
             "450 4.1.1 <a@gone.example>: Recipient address rejected: mailbox closed\r\n");
  rig.resolver->answer.nexthop = "4.2.1 mailbox moves";
  BOOST_TEST(rig.rcpt("a@gone.example") == "450 4.2.1 <a@gone.example>: Recipient address rejected: mailbox moves\r\n");
  rig.resolver->answer.nexthop = "5.2.1 mailbox moves";
  BOOST_TEST(rig.rcpt("a@gone.example") == "450 4.2.1 <a@gone.example>: Recipient address rejected: mailbox moves\r\n");
  Open lax("smtpd_reject_unlisted_recipient = no\n", "127.0.0.1");
  lax.resolver->answer.transport = "error";
  BOOST_TEST(lax.rcpt("a@gone.example") == kOk);
}

BOOST_AUTO_TEST_CASE(warn_if_reject_at_the_end_of_a_list_says_nothing_about_the_next_list) {
  for (const char* list : {"smtpd_client_restrictions = warn_if_reject\n",
                           "smtpd_restriction_classes = last\nlast = permit_inet_interfaces, "
                           "warn_if_reject\nsmtpd_sender_restrictions = last\n"}) {
    Open rig(list + std::string("smtpd_relay_restrictions = reject_unauth_destination\n"));
    BOOST_TEST(rig.rcpt("x@elsewhere.example").starts_with("554 5.7.1 "), list);
  }
}

BOOST_AUTO_TEST_CASE(a_restriction_is_known_in_any_case_and_by_its_older_names) {
  Open rig(
      "smtpd_relay_restrictions = Check_Relay_Domains\n"
      "smtpd_sender_restrictions = REJECT_NON_FQDN_SENDER\n"
      "smtpd_recipient_restrictions = check_recipient_maps\n");
  BOOST_TEST(rig.policy->warnings.empty());
  BOOST_TEST(rig.rcpt("x@elsewhere.example").starts_with("554 5.7.1 "));
  BOOST_TEST(rig.rcpt("user@example.org", "s@short").starts_with("504 5.5.2 "));
  BOOST_TEST(rig.rcpt("nobody@example.org").starts_with("550 5.1.1 "));
}

BOOST_AUTO_TEST_CASE(postmaster_without_a_domain_is_taken_from_anybody) {
  Open rig("smtpd_client_restrictions = reject\n");
  rig.resolver->myorigin = "elsewhere.example";
  BOOST_TEST(rig.rcpt("Postmaster") == kOk);
  BOOST_TEST(rig.rcpt("postmaster@elsewhere.example").starts_with("554 5.7.1 "));
  BOOST_TEST(rig.rcpt("user").starts_with("554 5.7.1 "));
}

BOOST_AUTO_TEST_CASE(users_of_relocated_maps_are_refused_with_where_they_are_now) {
  Open rig("relocated_maps = static:x\n");
  rig.resolver->gone = {{"user@example.org", "5.1.6 User has moved to jo@new.example"},
                        {"far@remote.example", "5.1.6 User has moved to Room 7"},
                        {"off@example.org", "5.2.1 Account is disabled"},
                        {"soon@example.org", "4.2.1 Come again"}};
  BOOST_TEST(rig.rcpt("user@example.org") ==
             "550 5.1.6 <user@example.org>: Recipient address rejected: User has moved to "
             "jo@new.example\r\n");
  BOOST_TEST(rig.rcpt("off@example.org") ==
             "550 5.2.1 <off@example.org>: Recipient address rejected: Account is disabled\r\n");
  BOOST_TEST(rig.rcpt("soon@example.org") ==
             "450 4.2.1 <soon@example.org>: Recipient address rejected: Come again\r\n");
  BOOST_TEST(rig.rcpt("root@example.org") == kOk);
  Open trusted("relocated_maps = static:x\nsmtpd_reject_unlisted_sender = yes\n", "127.0.0.1");
  trusted.resolver->gone = rig.resolver->gone;
  BOOST_TEST(trusted.rcpt("far@remote.example") ==
             "550 5.1.6 <far@remote.example>: Recipient address rejected: User has moved to Room "
             "7\r\n");
  BOOST_TEST(trusted.rcpt("root@example.org", "user@example.org") ==
             "550 5.1.0 <user@example.org>: Sender address rejected: User has moved to "
             "jo@new.example\r\n");
  Open lax("relocated_maps = static:x\nsmtpd_reject_unlisted_recipient = no\n");
  lax.resolver->gone = rig.resolver->gone;
  BOOST_TEST(lax.rcpt("user@example.org") == kOk);
}

BOOST_AUTO_TEST_CASE(each_restriction_has_its_reply) {
  struct Row {
    std::string_view setting, from, to, reply;
  };
  const std::string_view ok = "250 2.1.5 Ok";
  const Row rows[] = {
      {"smtpd_recipient_restrictions = permit", "s@x.example", "user@example.org", ok},
      {"smtpd_recipient_restrictions = reject", "s@x.example", "user@example.org",
       "554 5.7.1 <user@example.org>: Recipient address rejected: Access denied"},
      {"smtpd_client_restrictions = reject", "s@x.example", "user@example.org",
       "554 5.7.1 <client.example[192.0.2.7]>: Client host rejected: Access denied"},
      {"smtpd_helo_restrictions = reject", "s@x.example", "user@example.org",
       "554 5.7.1 <client.example>: Helo command rejected: Access denied"},
      {"smtpd_sender_restrictions = reject\nreject_code = 550", "s@x.example", "user@example.org",
       "550 5.7.1 <s@x.example>: Sender address rejected: Access denied"},
      {"smtpd_recipient_restrictions = defer", "s@x.example", "user@example.org",
       "450 4.3.2 <user@example.org>: Recipient address rejected: Try again later"},
      {"smtpd_recipient_restrictions = warn_if_reject reject", "s@x.example", "user@example.org", ok},
      {"smtpd_recipient_restrictions = warn_if_reject reject, reject", "s@x.example", "user@example.org",
       "554 5.7.1 <user@example.org>: Recipient address rejected: Access denied"},
      {"smtpd_recipient_restrictions = permit, reject", "s@x.example", "user@example.org", ok},
      {"smtpd_recipient_restrictions = defer_if_permit", "s@x.example", "user@example.org",
       "450 4.7.0 <user@example.org>: Recipient address rejected: defer_if_permit requested"},
      {"smtpd_recipient_restrictions = defer_if_reject, reject", "s@x.example", "user@example.org",
       "450 4.7.0 <user@example.org>: Recipient address rejected: defer_if_reject requested"},
      {"smtpd_recipient_restrictions = defer_if_reject, warn_if_reject reject, permit", "s@x.example",
       "user@example.org", ok},
      {"smtpd_recipient_restrictions = check_recipient_access inline:{ {example.org = DEFER_IF_REJECT 4.7.9 later} }, "
       "reject",
       "s@x.example", "user@example.org", "450 4.7.9 <user@example.org>: Recipient address rejected: later"},
      {"smtpd_sender_restrictions = reject_non_fqdn_sender", "s@short", "user@example.org",
       "504 5.5.2 <s@short>: Sender address rejected: need fully-qualified address"},
      {"smtpd_sender_restrictions = reject_non_fqdn_sender", "", "user@example.org", ok},
      {"smtpd_recipient_restrictions = reject_non_fqdn_recipient", "s@x.example", "user",
       "504 5.5.2 <user>: Recipient address rejected: need fully-qualified address"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain", "s@gone.example", "user@example.org",
       "450 4.1.8 <s@gone.example>: Sender address rejected: Domain not found"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain\nunknown_address_reject_code = "
       "550",
       "s@gone.example", "user@example.org", "550 5.1.8 <s@gone.example>: Sender address rejected: Domain not found"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain\nunknown_address_reject_code = "
       "550",
       "s@slow.example", "user@example.org", "450 4.1.8 <s@slow.example>: Sender address rejected: Domain not found"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain", "s@null.example", "user@example.org",
       "550 5.7.27 <s@null.example>: Sender address rejected: Domain null.example does not accept "
       "mail (nullMX)"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain", "s@good.example", "user@example.org", ok},
      {"smtpd_sender_restrictions = reject_unknown_address", "s@gone.example", "user@example.org",
       "450 4.1.8 <s@gone.example>: Sender address rejected: Domain not found"},
      {"smtpd_sender_restrictions = reject_unknown_sender_domain", "s@slow.example", "nobody@example.org",
       "550 5.1.1 <nobody@example.org>: Recipient address rejected: User unknown in local "
       "recipient table"},
      {"smtpd_relay_restrictions = reject_unknown_recipient_domain, defer", "s@x.example", "a@null.example",
       "556 5.1.10 <a@null.example>: Recipient address rejected: Domain null.example does not "
       "accept mail (nullMX)"},
      {"smtpd_relay_restrictions = reject_unknown_recipient_domain, defer", "s@x.example", "a@gone.example",
       "450 4.1.2 <a@gone.example>: Recipient address rejected: Domain not found"},
      {"smtpd_helo_restrictions = reject_unknown_helo_hostname", "s@x.example", "user@example.org", ok},
      {"smtpd_helo_restrictions = reject_non_fqdn_helo_hostname, reject_invalid_helo_hostname", "s@x.example",
       "user@example.org", ok},
      {"smtpd_recipient_restrictions = permit_auth_destination, reject", "s@x.example", "user@example.org", ok},
      {"smtpd_relay_restrictions = reject_unauth_destination\nsmtpd_recipient_restrictions = "
       "reject_unlisted_recipient, permit",
       "s@x.example", "nobody@example.org",
       "550 5.1.1 <nobody@example.org>: Recipient address rejected: User unknown in local "
       "recipient table"},
      {"smtpd_client_restrictions = reject_plaintext_session", "s@x.example", "user@example.org",
       "450 4.7.1 Session encryption is required"},
      {"smtpd_recipient_restrictions = permit_sasl_authenticated, reject", "s@x.example", "user@example.org",
       "554 5.7.1 <user@example.org>: Recipient address rejected: Access denied"},
      {"smtpd_recipient_restrictions = reject_maps_rbl, permit", "s@x.example", "user@example.org",
       "451 4.3.5 Server configuration error"},
      {"smtpd_recipient_restrictions = permit_naked_ip_address, permit", "s@x.example", "user@example.org",
       "451 4.3.5 Server configuration error"},
      {"smtpd_recipient_restrictions = reject_rbl_client zen.example=127.0.0.[9..2], permit", "s@x.example",
       "user@example.org", "451 4.3.5 Server configuration error"},
      {"smtpd_recipient_restrictions = sleep soon, permit", "s@x.example", "user@example.org",
       "451 4.3.5 Server configuration error"},
      {"smtpd_client_restrictions = check_reverse_client_hostname_access inline:{client.example=REJECT}", "s@x.example",
       "user@example.org", "554 5.7.1 <client.example>: Unverified Client host rejected: Access denied"},
      {"smtpd_client_restrictions = check_reverse_client_hostname_access inline:{192.0.2=REJECT}", "s@x.example",
       "user@example.org", "554 5.7.1 <client.example>: Unverified Client host rejected: Access denied"},
      {"smtpd_client_restrictions = check_reverse_client_hostname_access inline:{client.example=OK}", "s@x.example",
       "user@example.org", "451 4.3.5 Server configuration error"},
      {"smtpd_recipient_restrictions = reject_everyhting", "s@x.example", "user@example.org",
       "451 4.3.5 Server configuration error"},
      {"smtpd_restriction_classes = strict\nstrict = reject_non_fqdn_sender, reject\n"
       "smtpd_recipient_restrictions = strict",
       "s@x.example", "user@example.org", "554 5.7.1 <user@example.org>: Recipient address rejected: Access denied"},
      {"smtpd_restriction_classes = a, b\na = b\nb = a\nsmtpd_recipient_restrictions = a", "s@x.example",
       "user@example.org", "451 4.3.5 Server configuration error"},
      {"soft_bounce = yes\nsmtpd_recipient_restrictions = reject", "s@x.example", "user@example.org",
       "454 4.7.1 <user@example.org>: Recipient address rejected: Access denied"},
      // recipient restrictions do not open what relay restrictions close
      {"smtpd_recipient_restrictions = permit", "s@x.example", "x@elsewhere.example",
       "454 4.7.1 <x@elsewhere.example>: Relay access denied"},
  };
  for (const auto& row : rows) {
    Open rig(std::string(row.setting) + "\n");
    rig.names.domains = {{"gone.example", NameState::missing},
                         {"slow.example", NameState::temporary},
                         {"null.example", NameState::null_mx}};
    BOOST_TEST(rig.rcpt(row.to, row.from) == std::string(row.reply) + "\r\n", row.setting);
  }
}

BOOST_AUTO_TEST_CASE(a_status_code_about_an_address_becomes_that_of_what_is_refused) {
  struct Row {
    std::string_view code, of_host, of_sender, of_recipient;
  };
  const Row rows[] = {
      {"5.0.0", "5.0.0", "5.0.0", "5.0.0"},  {"5.1.0", "5.0.0", "5.1.0", "5.1.0"},
      {"5.1.1", "5.0.0", "5.1.7", "5.1.1"},  {"5.1.2", "5.0.0", "5.1.8", "5.1.2"},
      {"5.1.3", "5.0.0", "5.1.7", "5.1.3"},  {"5.1.4", "5.0.0", "5.1.7", "5.1.4"},
      {"5.1.5", "5.0.0", "5.1.0", "5.1.5"},  {"5.1.6", "5.0.0", "5.1.7", "5.1.6"},
      {"5.1.7", "5.0.0", "5.1.7", "5.1.3"},  {"5.1.8", "5.0.0", "5.1.8", "5.1.2"},
      {"5.1.9", "5.0.0", "5.1.0", "5.1.0"},  {"5.1.10", "5.0.0", "5.1.0", "5.1.0"},
      {"5.1.99", "5.0.0", "5.1.0", "5.1.0"}, {"5.2.1", "5.2.1", "5.2.1", "5.2.1"},
      {"5.7.1", "5.7.1", "5.7.1", "5.7.1"},
  };
  const auto said = [](std::string_view about, std::string_view code) {
    Open rig(std::string("smtpd_recipient_restrictions = check_") + std::string(about) + "_access static:{550 " +
             std::string(code) + " no}\n");
    return rig.rcpt("user@example.org").substr(0, 5 + code.size());
  };
  for (const Row& row : rows) {
    const auto begins = [&](std::string_view code) {
      return ("550 " + std::string(code) + " <").substr(0, 5 + row.code.size());
    };
    BOOST_TEST(said("client", row.code) == begins(row.of_host));
    BOOST_TEST(said("helo", row.code) == begins(row.of_host));
    BOOST_TEST(said("sender", row.code) == begins(row.of_sender));
    BOOST_TEST(said("recipient", row.code) == begins(row.of_recipient));
  }
}

BOOST_AUTO_TEST_CASE(domains_that_mail_only_passes_through_must_be_in_dns) {
  Open rig(
      "smtpd_sender_restrictions = reject_unknown_sender_domain\n"
      "smtpd_recipient_restrictions = reject_unknown_recipient_domain\n");
  rig.resolver->relay_domains.insert("relayed.example");
  rig.names.domains = {{"relayed.example", NameState::missing}, {"example.org", NameState::missing}};
  BOOST_TEST(rig.rcpt("a@relayed.example") ==
             "450 4.1.2 <a@relayed.example>: Recipient address rejected: Domain not found\r\n");
  BOOST_TEST(rig.rcpt("user@example.org", "s@relayed.example") ==
             "450 4.1.8 <s@relayed.example>: Sender address rejected: Domain not found\r\n");
  BOOST_TEST(rig.rcpt("user@example.org", "root@example.org") == kOk);  // mail ends here
}

BOOST_AUTO_TEST_CASE(client_names_are_believed_only_when_they_lead_back) {
  Rig rig("smtpd_client_restrictions = reject_unknown_client_hostname\n");
  rig.names.client_name = {NameState::missing, NameState::ok, "", "liar.example"};
  rig.connect();
  rig.say("EHLO x\r\n");
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<user@example.org>\r\n")
                 .ends_with("450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.7]\r\n"));
}

BOOST_AUTO_TEST_CASE(a_reverse_name_must_have_an_address_though_perhaps_another) {
  struct Row {
    NameState forward;
    std::string_view reply;
  };
  for (const auto& row : {Row{NameState::ok, "250 2.1.5"}, Row{NameState::missing, "550 5.7.25"},
                          Row{NameState::temporary, "450 4.7.25"}}) {
    Rig rig("smtpd_client_restrictions = reject_unknown_forward_client_hostname\nunknown_client_reject_code = 550\n");
    rig.names.client_name = {NameState::missing, NameState::ok, "", "liar.example", row.forward};
    rig.connect();
    rig.say("EHLO x\r\n");
    rig.say("MAIL FROM:<a@b.example>\r\n");
    BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n").starts_with(row.reply), row.reply);
  }
}

BOOST_AUTO_TEST_CASE(sleep_holds_up_its_own_session_and_no_longer_than_the_process_lives) {
  Open rig("smtpd_recipient_restrictions = sleep 5\n");
  BOOST_TEST(rig.policy->warnings.empty());
  BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<user@example.org>\r\n") == "250 2.1.0 Ok\r\n");
  rig.clock.advance(seconds(4));
  BOOST_TEST(rig.settle() == "");
  rig.clock.advance(seconds(2));
  BOOST_TEST(rig.settle() == kOk);
  // each command of a group is slowed down
  rig.say("RCPT TO:<user@example.org>\r\nRCPT TO:<user@example.org>\r\n");
  rig.clock.advance(seconds(6));
  BOOST_TEST(rig.settle() == kOk);
  rig.clock.advance(seconds(6));
  BOOST_TEST(rig.settle() == kOk);
  rig.say("RCPT TO:<user@example.org>\r\n");
  rig.server.stop();
  BOOST_TEST(rig.settle().starts_with(kOk + "421 4.3.2 "));
}

BOOST_AUTO_TEST_CASE(helo_names_are_judged) {
  const std::string lists = "smtpd_helo_restrictions = reject_invalid_helo_hostname, reject_non_fqdn_helo_hostname\n";
  struct Row {
    std::string_view helo, code;
  };
  for (const auto& row :
       {Row{"ok.example", "250"}, Row{"[192.0.2.1]", "250"}, Row{"[IPv6:::1]", "250"}, Row{"short", "504"},
        Row{"bad_.-x.example", "501"}, Row{"[999.1.1.1]", "501"}, Row{"a..b", "501"}, Row{"host.example.", "250"},
        Row{"host.example..", "501"}, Row{"host.example more", "501"}, Row{"host.example  \t more", "501"},
        Row{"h\xc3\xb6st.example", "501"}, Row{"xn--hst-sna.example", "250"}, Row{"[2001:db8::1]", "501"}}) {
    Rig rig(lists);
    rig.connect();
    rig.say("EHLO " + std::string(row.helo) + "\r\n");
    BOOST_TEST(rig.say("MAIL FROM:<a@b.example>\r\nRCPT TO:<user@example.org>\r\n")
                   .starts_with("250 2.1.0 Ok\r\n" + std::string(row.code)),
               row.helo);
  }
}

BOOST_AUTO_TEST_CASE(without_delay_reject_each_stage_answers_for_itself) {
  Rig client("smtpd_delay_reject = no\nsmtpd_client_restrictions = reject\n");
  BOOST_TEST(client.connect() == "554 5.7.1 <client.example[192.0.2.7]>: Client host rejected: Access denied\r\n");
  BOOST_TEST(client.say("EHLO x\r\n") == "503 5.7.0 Error: access denied for client.example[192.0.2.7]\r\n");
  BOOST_TEST(client.say("QUIT\r\n") == "221 2.0.0 Bye\r\n");
  Rig helo("smtpd_delay_reject = no\nsmtpd_helo_restrictions = reject_non_fqdn_helo_hostname\n");
  helo.connect();
  BOOST_TEST(helo.say("EHLO x\r\n").starts_with("504 5.5.2 <x>"));
  BOOST_TEST(helo.say("EHLO x.example\r\n").starts_with("250-"));
  Open sender("smtpd_delay_reject = no\nsmtpd_sender_restrictions = reject\n");
  BOOST_TEST(sender.say("MAIL FROM:<a@b.example>\r\n").starts_with("554 5.7.1 <a@b.example>"));
  BOOST_TEST(sender.say("RCPT TO:<user@example.org>\r\n").starts_with("503"));
}

BOOST_AUTO_TEST_CASE(access_tables_speak_for_clients_senders_and_recipients) {
  struct Row {
    std::string_view setting, reply;
  };
  const std::string_view ok = "250 2.1.5 Ok";
  const Row rows[] = {
      {"smtpd_sender_restrictions = check_sender_access inline:{s@remote.example=REJECT}",
       "554 5.7.1 <s@remote.example>: Sender address rejected: Access denied"},
      {"smtpd_sender_restrictions = check_sender_access inline:{ {remote.example = 550 5.7.9 go "
       "away} }",
       "550 5.7.9 <s@remote.example>: Sender address rejected: go away"},
      {"smtpd_sender_restrictions = check_sender_access inline:{s@=DEFER}",
       "450 4.7.1 <s@remote.example>: Sender address rejected: Access denied"},
      {"smtpd_sender_restrictions = check_sender_access inline:{remote.example=OK}, reject", ok},
      {"smtpd_sender_restrictions = check_sender_access inline:{remote.example=DUNNO}, reject",
       "554 5.7.1 <s@remote.example>: Sender address rejected: Access denied"},
      {"smtpd_sender_restrictions = check_sender_access inline:{other.example=REJECT}", ok},
      {"smtpd_recipient_restrictions = check_recipient_access inline:{ {user@example.org = "
       "DEFER_IF_PERMIT wait} }",
       "450 4.7.1 <user@example.org>: Recipient address rejected: wait"},
      {"smtpd_client_restrictions = check_client_access inline:{client.example=REJECT}",
       "554 5.7.1 <client.example[192.0.2.7]>: Client host rejected: Access denied"},
      {"smtpd_client_restrictions = check_client_access inline:{192.0.2=REJECT}",
       "554 5.7.1 <client.example[192.0.2.7]>: Client host rejected: Access denied"},
      {"smtpd_client_restrictions = inline:{192.0.2.7=REJECT}",
       "554 5.7.1 <client.example[192.0.2.7]>: Client host rejected: Access denied"},
      {"smtpd_helo_restrictions = check_helo_access inline:{example=REJECT}",
       "554 5.7.1 <client.example>: Helo command rejected: Access denied"},
      {"smtpd_sender_restrictions = check_sender_access inline:{ {remote.example = "
       "permit_mynetworks, reject} }",
       "554 5.7.1 <s@remote.example>: Sender address rejected: Access denied"},
      {"smtpd_sender_restrictions = check_sender_access inline:{ {remote.example = WARN hm} }", ok},
      {"smtpd_sender_restrictions = check_sender_access inline:{ {remote.example = PREPEND X} }", ok},
      {"access_map_defer_code = 454\nsmtpd_sender_restrictions = check_sender_access inline:{ {remote.example = "
       "DEFER_IF_PERMIT 4.7.9 wait} }",
       "454 4.7.9 <s@remote.example>: Sender address rejected: wait"},
      {"smtpd_sender_restrictions = check_sender_access inline:{ {remote.example = nonsense} }",
       "451 4.3.5 Server configuration error"},
      {"smtpd_restriction_classes = known\nknown = reject_unauth_destination, reject\n"
       "smtpd_sender_restrictions = check_sender_access inline:{remote.example=known}",
       "554 5.7.1 <s@remote.example>: Sender address rejected: Access denied"},
      {"smtpd_recipient_restrictions = warn_if_reject check_recipient_access "
       "inline:{example.org=REJECT}",
       ok},
      {"smtpd_sender_restrictions = check_sender_access texthash:/nonexistent/table",
       "451 4.3.5 <s@remote.example>: Sender address rejected: Server configuration error"},
  };
  for (const auto& row : rows) {
    Open rig(std::string(row.setting) + "\n");
    BOOST_TEST(rig.rcpt("user@example.org") == std::string(row.reply) + "\r\n", row.setting);
  }
  Open null("smtpd_sender_restrictions = check_sender_access inline:{<>=REJECT}\n");
  BOOST_TEST(null.rcpt("user@example.org", "").starts_with("554 5.7.1 <>: Sender"));
  // Nobody gets past a rule by leaving the domain out that the address will have.
  Open own("smtpd_sender_restrictions = check_sender_access inline:{example.org=REJECT}\n");
  BOOST_TEST(own.rcpt("user@example.org", "user").starts_with("554 5.7.1 <user>: Sender"));
  Open closed("smtpd_recipient_restrictions = check_recipient_access inline:{user@example.org=REJECT}\n");
  BOOST_TEST(closed.rcpt("user").starts_with("554 5.7.1 <user>: Recipient"));
  // Nor by hiding the address in one of ours.
  Open there("smtpd_sender_restrictions = check_sender_access inline:{there.example=REJECT}\n");
  BOOST_TEST(there.rcpt("user@example.org", "a%there.example@example.org").starts_with("554 5.7.1 <a%there.example@"));
  BOOST_TEST(there.rcpt("user@example.org", "a%there.example@remote.example") == std::string(ok) + "\r\n");
}

BOOST_AUTO_TEST_CASE(after_discard_no_list_is_asked_for_the_message) {
  Open rig(
      "smtpd_sender_restrictions = check_sender_access inline:{remote.example=DISCARD}\n"
      "smtpd_data_restrictions = reject\nsmtpd_recipient_restrictions = reject\n" +
      kRelay);
  BOOST_TEST(rig.rcpt("x@elsewhere.example") == kOk);
  BOOST_TEST(rig.say("DATA\r\n").starts_with("354"));
  rig.say(".\r\n");
  BOOST_TEST(rig.rcpt("x@elsewhere.example", "s@other.example").starts_with("554"));
}

BOOST_AUTO_TEST_CASE(discard_takes_the_message_and_drops_it) {
  Open rig("smtpd_sender_restrictions = check_sender_access inline:{remote.example=DISCARD}\n");
  rig.say("MAIL FROM:<s@remote.example>\r\nRCPT TO:<user@example.org>\r\nDATA\r\n");
  BOOST_TEST(rig.say("x\r\n.\r\n") == "250 2.0.0 Ok: queued as Q1\r\n");
  BOOST_TEST(rig.queue.stored.empty());
  BOOST_TEST(rig.rcpt("nobody@example.org", "s@remote.example") == kOk);
  Open sender("smtpd_reject_unlisted_sender = yes\nsmtpd_helo_restrictions = check_helo_access static:DISCARD\n");
  BOOST_TEST(sender.rcpt("nobody@example.org", "nobody@example.org") == kOk);
}

BOOST_AUTO_TEST_CASE(owners_of_senders_are_not_asked_where_nobody_can_log_in) {
  const std::string owned = "smtpd_sender_login_maps = inline:{a@x.example=anna}\nsmtpd_sender_restrictions = ";
  for (const std::string name : {"reject_sender_login_mismatch", "reject_unauthenticated_sender_login_mismatch",
                                 "reject_known_sender_login_mismatch"})
    BOOST_TEST(Open(owned + name + "\n").rcpt("user@example.org", "a@x.example") == kOk, name);
  // Which is said.
  const Open said(owned + "reject_sender_login_mismatch\n");
  BOOST_TEST(std::ranges::any_of(said.policy->warnings, [](const std::string& w) {
    return w.starts_with("reject_sender_login_mismatch is passed over");
  }));
  // A login that XCLIENT gives permits something, so it has to own what it says.
  Open told(owned + "reject_sender_login_mismatch\nsmtpd_authorized_xclient_hosts = 192.0.2.7\n");
  told.say("XCLIENT LOGIN=berta\r\n");
  told.say("EHLO c.example\r\n");
  const std::string reply = told.rcpt("user@example.org", "a@x.example");
  BOOST_TEST(reply.starts_with("553 5.7.1 "), reply);
}

BOOST_AUTO_TEST_CASE(a_restriction_about_owners_where_nobody_can_log_in_is_told_once) {
  Open idle(
      "smtpd_sender_login_maps = inline:{a@b.example=c}\nsmtpd_restriction_classes = mine\n"
      "mine = reject_sender_login_mismatch\nsmtpd_sender_restrictions = mine, reject_sender_login_mismatch\n"
      "smtpd_recipient_restrictions = reject_sender_login_mismatch\n");
  const auto& warnings = idle.policy->warnings;
  BOOST_TEST(std::ranges::count_if(warnings, [](const std::string& w) {
               return w.starts_with("reject_sender_login_mismatch is passed over");
             }) == 1);
}

BOOST_AUTO_TEST_CASE(data_and_end_of_data_have_their_lists) {
  Open data("smtpd_data_restrictions = reject_multi_recipient_bounce\n");
  data.say("MAIL FROM:<>\r\nRCPT TO:<user@example.org>\r\nRCPT TO:<root@example.org>\r\n");
  BOOST_TEST(data.say("DATA\r\n") == "550 5.5.3 <DATA>: Data command rejected: Multi-recipient bounce\r\n");
  Open rcpt("smtpd_recipient_restrictions = reject_multi_recipient_bounce\n");
  BOOST_TEST(rcpt.rcpt("user@example.org", "") == kOk);
  BOOST_TEST(rcpt.say("RCPT TO:<root@example.org>\r\n") ==
             "550 5.5.3 <root@example.org>: Recipient address rejected: Multi-recipient bounce\r\n");
  // Those that were accepted count, also where several come at once.
  Open group(
      "smtpd_recipient_restrictions = check_recipient_access inline:{root@example.org=OK}, "
      "reject_multi_recipient_bounce\n");
  BOOST_TEST(group.policy->counts_recipients_of_notices);
  Open together("smtpd_recipient_restrictions = reject_unknown_recipient_domain, reject_multi_recipient_bounce\n");
  BOOST_TEST(together.policy->rcpt_may_wait);
  BOOST_TEST(together.say("MAIL FROM:<>\r\nRCPT TO:<user@example.org>\r\nRCPT TO:<root@example.org>\r\n")
                 .ends_with("550 5.5.3 <root@example.org>: Recipient address rejected: Multi-recipient bounce\r\n"));
  Open one("smtpd_end_of_data_restrictions = reject_multi_recipient_bounce\n");
  BOOST_TEST(one.rcpt("user@example.org", "") == kOk);
  one.say("DATA\r\n");
  BOOST_TEST(one.say("x\r\n.\r\n").starts_with("250"));
  Open end("smtpd_end_of_data_restrictions = defer\n");
  end.say("MAIL FROM:<s@x.example>\r\nRCPT TO:<user@example.org>\r\nDATA\r\n");
  BOOST_TEST(end.say("x\r\n.\r\n") == "450 4.3.2 <END-OF-MESSAGE>: End-of-data rejected: Try again later\r\n");
  BOOST_TEST(end.queue.stored.empty());
}

BOOST_AUTO_TEST_CASE(lists_about_content_know_the_recipient_if_it_is_the_only_one) {
  for (const std::string stage : {"data", "end_of_data"}) {
    Open rig("smtpd_" + stage +
             "_restrictions = check_recipient_access inline:{ {user@example.org = 550 5.7.2 no} }\n");
    const auto last = [&](const std::string& recipients) {
      std::string said = rig.say("RSET\r\nMAIL FROM:<s@x.example>\r\n" + recipients + "DATA\r\n");
      if (stage == "end_of_data") said = rig.say("x\r\n.\r\n");
      return said.ends_with("550 5.7.2 <user@example.org>: Recipient address rejected: no\r\n");
    };
    const std::string user = "RCPT TO:<user@example.org>\r\n", root = "RCPT TO:<root@example.org>\r\n";
    BOOST_TEST(last(user), stage);
    BOOST_TEST(last("RCPT TO:<nobody@example.org>\r\n" + user), stage);  // of those that were accepted
    BOOST_TEST(!last(root), stage);
    if (stage == "data") rig.say("x\r\n.\r\n");
    BOOST_TEST(!last(root + user), stage);
  }
}

BOOST_AUTO_TEST_CASE(what_defers_refusals_holds_to_the_end_of_a_stage) {
  const std::string relay = "\nsmtpd_relay_restrictions = permit_auth_destination, reject_unauth_destination";
  const std::string relay_defers = "smtpd_relay_restrictions = defer_if_reject, permit_auth_destination, reject";
  struct Row {
    std::string settings;
    const char* to;
    const char* reply;
  };
  for (const Row& row : {
           Row{"smtpd_recipient_restrictions = defer_if_reject" + relay, "nobody@example.org",
               "450 4.7.0 <nobody@example.org>: Recipient address rejected: defer_if_reject requested"},
           Row{"smtpd_recipient_restrictions = defer_if_permit" + relay, "nobody@example.org",  // which is final anyway
               "550 5.1.1 <nobody@example.org>: Recipient address rejected: User unknown in local recipient table"},
           Row{relay_defers, "nobody@example.org",
               "450 4.7.0 <nobody@example.org>: Recipient address rejected: defer_if_reject requested"},
           Row{relay_defers + "\nsmtpd_recipient_restrictions = reject", "user@example.org",
               "450 4.7.0 <user@example.org>: Recipient address rejected: defer_if_reject requested"},
           Row{"smtpd_sender_restrictions = defer_if_reject" + relay, "nobody@example.org",  // a stage before
               "550 5.1.1 <nobody@example.org>: Recipient address rejected: User unknown in local recipient table"},
           Row{"smtpd_sender_restrictions = defer_if_reject\nsmtpd_reject_unlisted_sender = yes" + relay,
               "user@example.org",
               "450 4.7.0 <nobody@example.org>: Sender address rejected: defer_if_reject requested"},
       }) {
    Open rig(row.settings + "\n");
    BOOST_TEST(rig.rcpt(row.to, "nobody@example.org") == row.reply + std::string("\r\n"), row.settings);
  }
}

BOOST_AUTO_TEST_CASE(pipelined_recipients_are_looked_up_together_and_answered_in_order) {
  Open rig(
      "smtpd_relay_restrictions = reject_unknown_recipient_domain, permit_mynetworks, "
      "reject_unauth_destination\n",
      "127.0.0.1");
  async::Event gate(rig.loop);
  rig.names.gate = &gate;
  rig.names.domains = {{"d3.example", NameState::missing}};
  std::string group = "MAIL FROM:<s@x.example>\r\n";
  for (int i = 0; i < 8; ++i) group += "RCPT TO:<r@d" + std::to_string(i) + ".example>\r\n";
  group += "DATA\r\n";
  BOOST_TEST(rig.say(group) == "250 2.1.0 Ok\r\n");
  BOOST_TEST(rig.names.under_way == 8u);
  gate.set();
  std::string expected;
  for (int i = 0; i < 8; ++i)
    expected += i == 3 ? "450 4.1.2 <r@d3.example>: Recipient address rejected: Domain not found\r\n" : kOk;
  BOOST_TEST(rig.settle() == expected + "354 End data with <CR><LF>.<CR><LF>\r\n");
  BOOST_TEST(rig.say("x\r\n.\r\n").starts_with("250"));
  BOOST_TEST(rig.queue.stored.at(0).envelope.recipients.size() == 7u);
  BOOST_TEST(rig.queue.stored.at(0).envelope.recipients.at(3).address == "r@d4.example");
}

BOOST_AUTO_TEST_CASE(actions_of_tables_change_what_becomes_of_the_message) {
  Open rig(
      "smtpd_sender_restrictions = check_sender_access inline:{ { hold@x.example = HOLD for now }, "
      "{ gone@x.example = DISCARD }, { both@x.example = FILTER a:b } }\n"
      "smtpd_recipient_restrictions = check_recipient_access inline:{ "
      "{ user@example.org = PREPEND X-Seen: yes }, { root@example.org = FILTER scan:[::1]:25 }, "
      "{ bcc@x.example = BCC copy@example.org }, { other@x.example = REDIRECT user@example.org }, "
      "{ bad@x.example = FILTER nowhere } }\n"
      "smtpd_end_of_data_restrictions = check_sender_access "
      "inline:{ { late@x.example = PREPEND X-Late: yes } }\n",
      "127.0.0.1");
  const auto deliver = [&](const std::string& from, std::vector<std::string> to) {
    std::string last = rig.rcpt(to.front(), from);
    for (std::size_t i = 1; i < to.size(); ++i) last = rig.say("RCPT TO:<" + to[i] + ">\r\n");
    BOOST_TEST(last == kOk);
    rig.say("DATA\r\n");
    BOOST_TEST(rig.say("Subject: a\r\n\r\nb\r\n.\r\n").starts_with("250 2.0.0 Ok: queued as"));
  };
  deliver("hold@x.example", {"user@example.org"});
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1U);
  BOOST_TEST(rig.queue.stored[0].envelope.hold);
  BOOST_TEST(rig.queue.stored[0].content.starts_with("X-Seen: yes\r\nReceived: from "));
  deliver("gone@x.example", {"user@example.org"});
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1U);
  // The sender's list is evaluated for each recipient: the last filter counts, and copies are made once.
  deliver("both@x.example", {"bcc@x.example", "bcc@x.example", "root@example.org"});
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 2U);
  {
    const auto& e = rig.queue.stored[1].envelope;
    BOOST_TEST(!e.hold);
    BOOST_TEST(e.filter == "scan:[::1]:25");
    BOOST_TEST_REQUIRE(e.recipients.size() == 3U);  // one of the two identical recipients
    BOOST_TEST(e.recipients[2].address == "copy@example.org");
    BOOST_TEST(e.recipients[2].notify == (mail::notify::kNever | mail::notify::kCopy));
  }
  deliver("s@x.example", {"root@example.org", "other@x.example"});
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 3U);
  {
    const auto& e = rig.queue.stored[2].envelope;
    BOOST_TEST(e.filter == "");
    BOOST_TEST_REQUIRE(e.recipients.size() == 1U);
    BOOST_TEST(e.recipients[0].address == "user@example.org");
    BOOST_TEST(e.recipients[0].original == "root@example.org");
  }
  deliver("late@x.example", {"root@example.org"});
  BOOST_TEST_REQUIRE(rig.queue.stored.size() == 4U);
  BOOST_TEST(rig.queue.stored[3].content.find("X-Late") == std::string::npos);
  // A row that says what it cannot do changes nothing.
  BOOST_TEST(rig.rcpt("bad@x.example") == kOk);
}

BOOST_AUTO_TEST_CASE(what_a_table_says_of_a_refused_recipient_counts_for_the_message) {
  Open rig(
      "smtpd_recipient_restrictions = check_recipient_access inline:{ { no@x.example = PREPEND X-Once: yes }, "
      "{ held@x.example = HOLD }, { copied@x.example = BCC copy@example.org }, "
      "{ sent_on@x.example = REDIRECT other@x.example }, { filtered@x.example = FILTER scan:[::1]:25 } }, "
      "check_recipient_access inline:{ { user@example.org = OK }, { x.example = REJECT } }\n",
      "127.0.0.1");
  const auto beside = [&rig](const std::string& refused) {
    BOOST_TEST(rig.rcpt(refused).starts_with("554"));
    rig.say("RCPT TO:<" + refused + ">\r\n");
    BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
    rig.say("DATA\r\n");
    BOOST_TEST(rig.say("Subject: a\r\n\r\nb\r\n.\r\n").starts_with("250 2.0.0 Ok: queued as"));
    return rig.queue.stored.back();
  };
  BOOST_TEST(beside("no@x.example").content.starts_with("X-Once: yes\r\nReceived: "));
  BOOST_TEST(beside("held@x.example").envelope.hold);
  const auto copied = beside("copied@x.example").envelope.recipients;
  BOOST_TEST_REQUIRE(copied.size() == 2U);
  BOOST_TEST(copied[1].address == "copy@example.org");
  const auto sent_on = beside("sent_on@x.example").envelope.recipients;
  BOOST_TEST_REQUIRE(sent_on.size() == 1U);
  BOOST_TEST(sent_on[0].address == "other@x.example");
  BOOST_TEST(beside("filtered@x.example").envelope.filter == "scan:[::1]:25");
  BOOST_TEST(!beside("plain@x.example").envelope.hold);  // the next message is another one
}

BOOST_AUTO_TEST_CASE(a_status_code_alone_leaves_the_text_that_there_is_without_one) {
  Open rig(
      "smtpd_recipient_restrictions = check_recipient_access inline:{ { r@x.example = REJECT 5.7.2 }, "
      "{ c@x.example = 550 5.7.2 }, { d@x.example = DEFER 4.7.2 }, { p@x.example = DEFER_IF_PERMIT 4.7.2 } }, "
      "reject_rbl_client l.example\nrbl_reply_maps = inline:{ { l.example = 554 5.7.9 } }\n",
      "127.0.0.2");
  BOOST_TEST(rig.rcpt("r@x.example") == "554 5.7.2 <r@x.example>: Recipient address rejected: Access denied\r\n");
  BOOST_TEST(rig.rcpt("c@x.example") == "550 5.7.2 <c@x.example>: Recipient address rejected: Access denied\r\n");
  BOOST_TEST(rig.rcpt("d@x.example") == "450 4.7.2 <d@x.example>: Recipient address rejected: Access denied\r\n");
  BOOST_TEST(rig.rcpt("p@x.example") == "450 4.7.2 <p@x.example>: Recipient address rejected: Service unavailable\r\n");
  rig.names.dns["A 2.0.0.127.l.example"] = {"127.0.0.2"};
  BOOST_TEST(rig.rcpt("x@x.example") == "554 5.7.9 Service unavailable\r\n");
}

BOOST_AUTO_TEST_CASE(access_values_are_read_as_access_5_says) {
  using Kind = AccessAction::Kind;
  BOOST_TEST((parse_access("OK").kind == Kind::permit));
  BOOST_TEST((parse_access("1").kind == Kind::permit));
  BOOST_TEST(parse_access("ok").word == "OK");
  BOOST_TEST(parse_access("Relay").word == "RELAY");
  BOOST_TEST(parse_access("1").word == "1");
  BOOST_TEST((parse_access("reject  5.1.2  gone away").kind == Kind::reject));
  BOOST_TEST(parse_access("reject  5.1.2  gone away").dsn == "5.1.2");
  BOOST_TEST(parse_access("reject  5.1.2  gone away").text == "gone away");
  BOOST_TEST(parse_access("REJECT 5.1.2x gone").text == "5.1.2x gone");
  BOOST_TEST(parse_access("450 4.7.1 later").code == 450);
  for (const std::string_view number : {"450", "550", "200", "12345678"})
    BOOST_TEST((parse_access(number).kind == Kind::permit), number);
  BOOST_TEST((parse_access("250 fine").kind == Kind::restrictions));
  BOOST_TEST((parse_access("HOLD look at it").kind == Kind::hold));
  BOOST_TEST((parse_access("filter scan:[127.0.0.1]:10025").kind == Kind::filter));
  BOOST_TEST(parse_access("filter scan:[127.0.0.1]:10025").text == "scan:[127.0.0.1]:10025");
  BOOST_TEST((parse_access("REDIRECT a@b").kind == Kind::redirect));
  BOOST_TEST((parse_access("BCC a@b").kind == Kind::bcc));
  BOOST_TEST((parse_access("PREPEND X-A: b  c").kind == Kind::prepend));
  BOOST_TEST(parse_access("PREPEND X-A: b  c").text == "X-A: b  c");
  for (const char* lame : {"FILTER", "FILTER scan", "FILTER :x", "REDIRECT me", "BCC", "PREPEND no"})
    BOOST_TEST((parse_access(lame).kind == Kind::malformed));
  BOOST_TEST((parse_access("permit_mynetworks reject").kind == Kind::restrictions));
}

BOOST_AUTO_TEST_SUITE_END()
