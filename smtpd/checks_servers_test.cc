// The hosts behind a name, in real sessions: check_*_{a,mx,ns}_access and permit_mx_backup.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(checks_servers)

namespace {

const std::string kOk = "250 2.1.5 Ok\r\n";

struct Open : Rig {
  explicit Open(std::string main_cf, std::string address = "192.0.2.7") : Rig(std::move(main_cf)) {
    BOOST_TEST_REQUIRE(problem == "");
    names.client_name = {NameState::missing, NameState::ok, "", "ptr.example", NameState::ok};
    names.client_name.verified = NameState::ok;
    names.client_name.name = "client.example";
    connect(std::move(address));
  }
  std::string rcpt(std::string_view to = "user@example.org", std::string_view from = "s@remote.example",
                   std::string_view helo = "helo.example") {
    say("EHLO " + std::string(helo) + "\r\n");
    say("MAIL FROM:<" + std::string(from) + ">\r\n");
    return say("RCPT TO:<" + std::string(to) + ">\r\n");
  }
};
/// Only 192.0.2.66, ns.bad.example and mx.bad.example are refused.
std::string one(const std::string& restriction) {
  return "smtpd_recipient_restrictions = " + restriction +
         " inline:{192.0.2.66=REJECT, ns.bad.example=REJECT, mx.bad.example=REJECT}\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_restriction_looks_at_the_servers_of_its_own_subject) {
  struct Row {
    std::string_view whose, domain, reply;
  };
  const Row rows[] = {
      {"client", "client.example", "<client.example[192.0.2.7]>: Client host"},
      {"reverse_client_hostname", "ptr.example", "<ptr.example>: Unverified Client host"},
      {"helo", "helo.example", "<helo.example>: Helo command"},
      {"sender", "remote.example", "<s@remote.example>: Sender address"},
      {"recipient", "example.org", "<user@example.org>: Recipient address"},
  };
  for (const auto& row : rows) {
    const std::string whose(row.whose), domain(row.domain),
        refused = "554 5.7.1 " + std::string(row.reply) + " rejected: Access denied\r\n";
    Open a(one("check_" + whose + "_a_access"));
    BOOST_TEST(a.policy->warnings.empty());
    BOOST_TEST(a.rcpt() == kOk, row.whose);
    a.names.hosts[domain] = {"192.0.2.1", "192.0.2.66"};
    BOOST_TEST(a.say("RCPT TO:<user@example.org>\r\n") == refused);

    Open mx(one("check_" + whose + "_mx_access"));
    mx.names.dns["MX " + domain] = {"10 mx.good.example", "20 mx.bad.example"};
    BOOST_TEST(mx.rcpt() == refused);
    mx.names.dns["MX " + domain] = {"10 mx.good.example"};
    BOOST_TEST(mx.say("RCPT TO:<user@example.org>\r\n") == kOk);
    mx.names.hosts["mx.good.example"] = {"192.0.2.66"};
    BOOST_TEST(mx.say("RCPT TO:<user@example.org>\r\n") == refused);

    Open ns(one("check_" + whose + "_ns_access"));
    ns.names.dns["NS " + domain] = {"ns.bad.example"};
    BOOST_TEST(ns.rcpt() == refused);
  }
}

BOOST_AUTO_TEST_CASE(a_name_without_mx_is_its_own_server_and_one_without_ns_has_those_of_its_parent) {
  Open mx(one("check_sender_mx_access"));
  mx.names.hosts["remote.example"] = {"192.0.2.66"};
  BOOST_TEST(mx.rcpt().starts_with("554 5.7.1 <s@remote.example>"));
  mx.names.dns["MX remote.example"] = {"0 "};  // null MX: no server, and nothing to say against it
  BOOST_TEST(mx.say("RCPT TO:<user@example.org>\r\n") == kOk);
  Open ns(one("check_sender_ns_access"));
  ns.names.dns["NS bad.example"] = {"ns.bad.example"};
  BOOST_TEST(ns.rcpt("user@example.org", "s@a.b.bad.example").starts_with("554 5.7.1 <s@a.b.bad.example>"));
  BOOST_TEST((ns.names.asked == std::vector<std::string>{"NS a.b.bad.example", "NS b.bad.example", "NS bad.example"}));
}

BOOST_AUTO_TEST_CASE(an_address_literal_is_its_own_server) {
  Open helo(one("check_helo_mx_access"));
  BOOST_TEST(helo.rcpt("user@example.org", "s@remote.example", "[192.0.2.66]").starts_with("554 5.7.1 <[192.0.2.66]>"));
  Open sender(one("check_sender_a_access"));
  BOOST_TEST(sender.rcpt("user@example.org", "s@[192.0.2.66]").starts_with("554 5.7.1 <s@[192.0.2.66]>"));
  Open ns(one("check_sender_ns_access"));
  BOOST_TEST(ns.rcpt("user@example.org", "s@[192.0.2.66]") == kOk);
  BOOST_TEST(ns.names.asked.empty());
}

BOOST_AUTO_TEST_CASE(unknown_clients_null_senders_and_failing_look_ups_say_nothing) {
  Open client(one("check_client_mx_access"));
  client.names.client_name = {};
  client.connect();
  BOOST_TEST(client.rcpt() == kOk);
  Open sender(one("check_sender_mx_access"));
  BOOST_TEST(sender.rcpt("user@example.org", "") == kOk);
  BOOST_TEST(sender.names.asked.empty());
  sender.say("RSET\r\n");
  sender.names.broken = {"remote.example"};
  BOOST_TEST(sender.rcpt() == kOk);
}

BOOST_AUTO_TEST_CASE(a_name_that_a_stranger_chose_permits_nothing) {
  for (const char* action : {"OK", "permit_inet_interfaces, permit"}) {
    Open rig("smtpd_relay_restrictions = check_sender_mx_access inline:{ {mx.good.example = " + std::string(action) +
             "} }, reject_unauth_destination\n");
    rig.names.dns["MX remote.example"] = {"10 mx.good.example"};
    BOOST_TEST(rig.rcpt("x@elsewhere.example") == "451 4.3.5 Server configuration error\r\n");
  }
  Open dunno(
      "smtpd_relay_restrictions = check_sender_mx_access inline:{mx.good.example=DUNNO, 192.0.2.66=REJECT}, "
      "reject_unauth_destination\n");
  dunno.names.dns["MX remote.example"] = {"10 mx.good.example"};
  dunno.names.hosts["mx.good.example"] = {"192.0.2.66"};
  BOOST_TEST(dunno.rcpt() == kOk);  // the first entry decides
}

BOOST_AUTO_TEST_CASE(a_domain_with_very_many_servers_has_no_more_than_a_hundred_looked_up) {
  Open rig(one("check_sender_mx_access"));
  auto& mx = rig.names.dns["MX remote.example"];
  for (int i = 0; i < 150; ++i) mx.push_back("10 h" + std::to_string(i) + ".example");
  BOOST_TEST(rig.rcpt() == kOk);
  BOOST_TEST(rig.names.hosts.size() == 100U);  // those that were asked for
  rig.names.dns["MX remote.example"] = {"10 many.example"};
  auto& many = rig.names.hosts["many.example"];
  for (int i = 0; i < 150; ++i) many.push_back("198.51.100." + std::to_string(i));
  many.push_back("192.0.2.66");
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
  std::string deep;
  for (int i = 0; i < 120; ++i) deep += "a.";
  rig.say("RSET\r\n");
  Open ns(one("check_sender_ns_access"));
  BOOST_TEST(ns.rcpt("user@example.org", "s@" + deep + "example") == kOk);
  BOOST_TEST(ns.names.asked.size() == 100U);
}

BOOST_AUTO_TEST_CASE(a_domain_whose_name_servers_are_silent_holds_up_its_own_session_for_half_a_minute) {
  Open rig(one("check_sender_mx_access"));
  async::Event gate(rig.loop);
  rig.names.gate = &gate;
  BOOST_TEST(rig.rcpt() == "");
  rig.clock.advance(seconds(29));
  BOOST_TEST(rig.settle() == "");
  rig.clock.advance(seconds(2));
  const std::string first = rig.settle();
  BOOST_TEST(first + rig.settle() == kOk);
  rig.names.gate = nullptr;
}

struct Backup : Open {
  explicit Backup(const std::string& main_cf = {})
      : Open("smtpd_relay_restrictions = permit_mx_backup, reject_unauth_destination\n" + main_cf) {
    resolver->settings.own_addresses = {"192.0.2.25", "2001:db8::25"};
    names.dns["MX customer.example"] = {"10 mx.customer.example", "20 backup.example"};
    names.hosts = {{"mx.customer.example", {"203.0.113.1"}}, {"backup.example", {"192.0.2.25"}}};
  }
  std::string customer() { return rcpt("x@customer.example"); }
};
const std::string kDenied = "554 5.7.1 <x@customer.example>: Relay access denied\r\n";

BOOST_AUTO_TEST_CASE(mail_is_taken_for_domains_whose_backup_we_are) {
  Backup rig;
  BOOST_TEST(rig.policy->warnings.size() == 1U);  // the restriction is on its way out
  BOOST_TEST(rig.customer() == kOk);
  BOOST_TEST(rig.say("RCPT TO:<x@other.example>\r\n") == "554 5.7.1 <x@other.example>: Relay access denied\r\n");
  BOOST_TEST(rig.say("RCPT TO:<\"x@elsewhere.example\"@customer.example>\r\n").starts_with("554 5.7.1 "));
  BOOST_TEST(rig.say("RCPT TO:<user@example.org>\r\n") == kOk);
}

BOOST_AUTO_TEST_CASE(not_where_we_are_the_primary_or_nothing) {
  Backup primary;
  primary.names.dns["MX customer.example"] = {"10 backup.example", "20 mx.customer.example"};
  BOOST_TEST(primary.customer() == kDenied);
  Backup both;  // the first of two, both ours
  both.names.dns["MX customer.example"] = {"10 backup.example", "20 second.example"};
  both.names.hosts["second.example"] = {"2001:db8::25"};
  BOOST_TEST(both.customer() == kDenied);
  Backup alone;
  alone.names.dns["MX customer.example"] = {"10 backup.example"};
  BOOST_TEST(alone.customer() == kDenied);
  Backup stranger;
  stranger.names.hosts["backup.example"] = {"203.0.113.2"};
  BOOST_TEST(stranger.customer() == kDenied);
  Backup named;  // by a name of mydestination
  named.names.hosts.erase("backup.example");
  named.resolver->local_domains.insert("backup.example");
  BOOST_TEST(named.customer() == kOk);
}

BOOST_AUTO_TEST_CASE(the_primary_hosts_must_be_in_the_networks_if_there_are_any) {
  Backup inside("permit_mx_backup_networks = 203.0.113.0/24\n");
  BOOST_TEST(inside.customer() == kOk);
  Backup outside("permit_mx_backup_networks = 203.0.113.0/24\n");
  outside.names.hosts["mx.customer.example"] = {"203.0.113.1", "198.51.100.1"};
  BOOST_TEST(outside.customer() == kDenied);
}

BOOST_AUTO_TEST_CASE(what_is_not_known_of_a_backup_is_asked_again_later) {
  Backup mx;
  mx.names.broken = {"customer.example"};
  BOOST_TEST(mx.customer() ==
             "450 4.4.4 <x@customer.example>: Recipient address rejected: Unable to look up mail exchanger "
             "information: Host not found, try again\r\n");
  Backup host;
  host.names.hosts.erase("backup.example");
  BOOST_TEST(host.customer().starts_with(
      "450 4.4.4 <x@customer.example>: Recipient address rejected: Unable to look up mail exchanger host "
      "backup.example"));
  Backup network("permit_mx_backup_networks = 203.0.113.0/24, texthash:/nonexistent/table\n");
  network.names.hosts["mx.customer.example"] = {"198.51.100.1"};
  BOOST_TEST(network.customer() ==
             "450 4.4.4 <x@customer.example>: Recipient address rejected: Unable to verify host mx.customer.example as "
             "mail exchanger\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
