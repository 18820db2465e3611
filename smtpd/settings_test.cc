// Settings of smtpd by name, each in a session that shows its effect.
#include <boost/test/unit_test.hpp>

#include "smtpd/session_fixture.h"

using namespace pen;
using namespace pen::smtpd;
using pen::smtpd::testing::Rig;

BOOST_AUTO_TEST_SUITE(settings_of_smtpd)

namespace {

/// The last reply to these commands, each of which is sent after the reply to the one before.
std::string last_reply(Rig& rig, std::string_view commands) {
  std::string out;
  while (!commands.empty()) {
    const auto end = commands.find('\n') + 1;
    if (std::string said = rig.say(commands.substr(0, end)); !said.empty()) out = std::move(said);
    commands.remove_prefix(end);
  }
  while (out.ends_with('\n') || out.ends_with('\r')) out.pop_back();
  const auto line = out.rfind('\n');
  return line == std::string::npos ? out : out.substr(line + 1);
}

const std::string kStart = "EHLO client.example\r\n";
const std::string kMail = "MAIL FROM:<s@remote.example>\r\n";
const std::string kRcpt = "RCPT TO:<user@example.org>\r\n";

void domains(Rig& rig) {
  rig.names.domains = {{"gone.example", NameState::missing}, {"slow.example", NameState::temporary}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_reply_code_is_the_settings) {
  struct Row {
    std::string setting, usual, list, commands;
  };
  const std::string to = kStart + kMail + kRcpt;
  const Row rows[] = {
      {"access_map_reject_code", "554", "smtpd_recipient_restrictions = check_recipient_access static:REJECT", to},
      {"access_map_defer_code", "450", "smtpd_recipient_restrictions = check_recipient_access static:DEFER", to},
      {"defer_code", "450", "smtpd_recipient_restrictions = defer", to},
      {"reject_code", "554", "smtpd_recipient_restrictions = reject", to},
      {"invalid_hostname_reject_code", "501", "smtpd_helo_restrictions = reject_invalid_helo_hostname",
       "EHLO a..b\r\n" + kMail + kRcpt},
      {"non_fqdn_reject_code", "504", "smtpd_sender_restrictions = reject_non_fqdn_sender",
       kStart + "MAIL FROM:<s@short>\r\n" + kRcpt},
      {"unknown_address_reject_code", "450", "smtpd_sender_restrictions = reject_unknown_sender_domain",
       kStart + "MAIL FROM:<s@gone.example>\r\n" + kRcpt},
      {"unknown_hostname_reject_code", "450", "smtpd_helo_restrictions = reject_unknown_helo_hostname",
       "EHLO gone.example\r\n" + kMail + kRcpt},
      {"relay_domains_reject_code", "554", "smtpd_relay_restrictions = reject_unauth_destination",
       kStart + kMail + "RCPT TO:<x@elsewhere.example>\r\n"},
      {"multi_recipient_bounce_reject_code", "550", "smtpd_data_restrictions = reject_multi_recipient_bounce",
       kStart + "MAIL FROM:<>\r\n" + kRcpt + "RCPT TO:<root@example.org>\r\nDATA\r\n"},
      {"plaintext_reject_code", "450", "smtpd_client_restrictions = reject_plaintext_session", to},
      {"unknown_local_recipient_reject_code", "550", "", kStart + kMail + "RCPT TO:<nobody@example.org>\r\n"},
  };
  for (const Row& row : rows) {
    const bool defers = row.setting.find("defer") != std::string::npos;
    for (const std::string& code : {row.usual, std::string(defers ? "421" : "571")}) {
      const bool own = code != row.usual;
      Rig rig(row.list + "\n" + (own ? row.setting + " = " + code + "\n" : ""));
      BOOST_TEST_REQUIRE(rig.problem == "");
      domains(rig);
      rig.connect();
      const std::string said = last_reply(rig, row.commands);
      BOOST_TEST(said.substr(0, 3) == code, row.setting << ": " << said);
    }
  }
  // A client with a name that does not lead back to its address.
  for (const std::string& code : {std::string("450"), std::string("553")}) {
    Rig rig(
        "smtpd_client_restrictions = reject_unknown_client_hostname\nunknown_client_reject_code "
        "= " +
        code + "\n");
    rig.names.client_name = {NameState::missing, NameState::ok, "", "liar.example"};
    rig.connect();
    BOOST_TEST(last_reply(rig, to).substr(0, 3) == code);
  }
  for (const std::string& code : {std::string("550"), std::string("521")}) {
    Rig rig("smtpd_forbid_bare_newline = reject\nsmtpd_forbid_bare_newline_reject_code = " + code + "\n");
    rig.connect();
    BOOST_TEST(last_reply(rig, "NOOP\n").substr(0, 3) == code);
  }
}

BOOST_AUTO_TEST_CASE(what_a_failed_look_up_does_is_the_settings) {
  struct Row {
    std::string setting, list, commands;
  };
  // With defer_if_permit a later refusal is final; with defer the deferral is the answer.
  const std::string refused = "RCPT TO:<nobody@example.org>\r\n";
  const Row rows[] = {
      {"unknown_address_tempfail_action", "smtpd_sender_restrictions = reject_unknown_sender_domain",
       kStart + "MAIL FROM:<s@slow.example>\r\n" + refused},
      {"unknown_helo_hostname_tempfail_action", "smtpd_helo_restrictions = reject_unknown_helo_hostname",
       "EHLO slow.example\r\n" + kMail + refused},
  };
  for (const Row& row : rows) {
    for (const std::string& name : {row.setting, std::string("reject_tempfail_action")}) {
      for (const auto& [action, code] :
           std::vector<std::pair<std::string, std::string>>{{"defer_if_permit", "550"}, {"defer", "450"}}) {
        Rig rig(row.list + "\n" + name + " = " + action + "\n");
        domains(rig);
        rig.connect();
        const std::string said = last_reply(rig, row.commands);
        BOOST_TEST(said.substr(0, 3) == code, name << " = " << action << ": " << said);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_null_sender_has_a_key_in_access_tables) {
  for (const auto& [key, code] : std::vector<std::pair<std::string, std::string>>{{"<>", "554"}, {"nobody", "250"}}) {
    Rig rig("smtpd_null_access_lookup_key = " + key +
            "\nsmtpd_sender_restrictions = check_sender_access inline:{ <>=REJECT }\n");
    rig.connect();
    BOOST_TEST(last_reply(rig, kStart + "MAIL FROM:<>\r\n" + kRcpt).substr(0, 3) == code, key);
  }
}

BOOST_AUTO_TEST_CASE(strict_envelopes_need_angle_brackets) {
  for (const auto& [strict, code] : std::vector<std::pair<std::string, std::string>>{{"no", "250"}, {"yes", "501"}}) {
    Rig rig("strict_rfc821_envelopes = " + strict + "\n");
    rig.connect();
    BOOST_TEST(last_reply(rig, kStart + "MAIL FROM: s@remote.example\r\n").substr(0, 3) == code);
  }
}

BOOST_AUTO_TEST_CASE(recipients_beyond_the_limit_become_errors_after_the_overshoot) {
  for (const auto& [overshoot, live] : std::vector<std::pair<std::string, bool>>{{"1000", true}, {"1", false}}) {
    Rig rig(
        "smtpd_recipient_limit = 1\nsmtpd_hard_error_limit = 3\nsmtpd_recipient_overshoot_limit "
        "= " +
        overshoot + "\n");
    rig.connect();
    last_reply(rig, kStart + kMail);
    for (int i = 0; i < 8 && !rig.closed(); ++i) rig.say(kRcpt);
    BOOST_TEST(rig.closed() != live, overshoot);
  }
}

BOOST_AUTO_TEST_CASE(the_clients_port_is_shown_where_it_is_wanted) {
  for (const auto& [shown, text] : std::vector<std::pair<std::string, std::string>>{
           {"no", "<client.example[192.0.2.7]>"}, {"yes", "<client.example[192.0.2.7]:4711>"}}) {
    Rig rig("smtpd_client_restrictions = reject\nsmtpd_client_port_logging = " + shown + "\n");
    rig.connect();
    BOOST_TEST(last_reply(rig, kStart + kMail + kRcpt).find(text) != std::string::npos, shown);
  }
}

BOOST_AUTO_TEST_CASE(tls_required_no_is_heard_only_where_it_is_enabled) {
  for (const auto& [enabled, heard] : std::vector<std::pair<std::string, bool>>{{"yes", true}, {"no", false}}) {
    Rig rig("tls_required_enable = " + enabled + "\n");
    rig.connect();
    last_reply(rig, kStart + kMail + kRcpt + "DATA\r\n");
    rig.say("TLS-Required: No\r\n\r\nx\r\n.\r\n");
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    BOOST_TEST((rig.queue.stored[0].envelope.requiretls == mail::RequireTls::no) == heard);
  }
}

BOOST_AUTO_TEST_CASE(smtpd_reject_filter_maps_changes_refusals_and_nothing_else) {
  const std::string map = "smtpd_reject_filter_maps = inline:{ { ";
  const std::string nobody = kStart + kMail + "RCPT TO:<nobody@example.org>\r\n";
  Rig plain;
  plain.connect();
  const std::string usual = last_reply(plain, nobody);
  BOOST_TEST(usual.starts_with("550 5.1.1 "));
  const auto filtered = [&](const std::string& from, const std::string& to, const std::string& commands,
                            const std::string& more = {}) {
    Rig rig(map + from + " = " + to + " } }\n" + more);
    BOOST_TEST_REQUIRE(rig.problem == "");
    rig.connect();
    return last_reply(rig, commands);
  };
  BOOST_TEST(filtered(usual, "450 4.1.1 Come back later", nobody) == "450 4.1.1 Come back later");
  BOOST_TEST(filtered("250 2.1.0 Ok", "550 5.7.1 no", kStart + kMail) == "250 2.1.0 Ok");
  // A refusal stays one, with a status code of its class.
  for (const char* bad : {"250 2.0.0 Fine", "no code", "550 4.1.1 mixed", "55 x"})
    BOOST_TEST(filtered(usual, bad, nobody) == usual, bad);
  // The footer is that of the new reply.
  BOOST_TEST(filtered(usual, "450 4.1.1 Later", nobody, "smtpd_reject_footer = \\c: $client_address\n") ==
             "450 4.1.1 Later: 192.0.2.7");
  // Also where the session ends at once.
  BOOST_TEST(filtered("421 4.7.0 mx.example.org Error: too many errors", "421 4.7.0 Enough", kStart + "X\r\nX\r\n",
                      "smtpd_hard_error_limit = 1\n") == "421 4.7.0 Enough");
}

BOOST_AUTO_TEST_CASE(smtpd_hide_client_session_says_nothing_of_the_client) {
  for (const bool hidden : {false, true}) {
    Rig rig(hidden ? "smtpd_hide_client_session = yes\n" : "");
    rig.connect();
    last_reply(rig, kStart + kMail + kRcpt + "DATA\r\n");
    BOOST_TEST(last_reply(rig, "Subject: x\r\n\r\n.\r\n").starts_with("250 2.0.0 Ok: queued as "));
    BOOST_TEST_REQUIRE(rig.queue.stored.size() == 1u);
    const std::string& content = rig.queue.stored[0].content;
    const std::string own = "Received: by mx.example.org (Penstock) id Q1\r\n\tfor <user@example.org>; ";
    BOOST_TEST(content.starts_with(own) == hidden);
    BOOST_TEST(content.contains("192.0.2.7") == !hidden);
    BOOST_TEST(content.contains("ESMTP") == !hidden);
  }
}

BOOST_AUTO_TEST_CASE(strict_smtputf8_asks_for_the_parameter) {
  const std::string address = "s\xc3\xa9@remote.example";
  for (const bool strict : {false, true}) {
    Rig rig(strict ? "strict_smtputf8 = yes\n" : "strict_smtputf8 = no\n");
    rig.connect();
    const std::string code = strict ? "553" : "250";
    BOOST_TEST(last_reply(rig, kStart + "MAIL FROM:<" + address + ">\r\n").substr(0, 3) == code);
    BOOST_TEST(last_reply(rig, "RSET\r\nMAIL FROM:<" + address + "> SMTPUTF8\r\n").starts_with("250"));
    BOOST_TEST(last_reply(rig, "RSET\r\nMAIL FROM:<s\xff@remote.example>\r\n").starts_with("501"));
  }
}

BOOST_AUTO_TEST_CASE(resolve_null_domain_permits_addresses_that_end_in_at) {
  for (const bool taken : {false, true}) {
    Rig rig(taken ? "resolve_null_domain = yes\n" : "");
    rig.connect();
    BOOST_TEST(last_reply(rig, kStart + "MAIL FROM:<s@>\r\n").starts_with(taken ? "250" : "501 5.1.7"));
  }
}

BOOST_AUTO_TEST_CASE(queue_minfree_refuses_mail_while_the_disk_is_full) {
  for (const bool full : {false, true}) {
    Rig rig(full ? "queue_minfree = 1099511627776\n" : "queue_minfree = 1\n");
    rig.server.queue_space.emplace(rig.clock, ".");
    rig.connect();
    BOOST_TEST(last_reply(rig, kStart + kMail).starts_with(full ? "452 4.3.1 Insufficient system storage" : "250"));
  }
}

BOOST_AUTO_TEST_CASE(allow_untrusted_routing_relays_what_names_another_host) {
  const std::string routed = kStart + kMail + "RCPT TO:<user%elsewhere.example@example.org>\r\n";
  const std::string lists =
      "smtpd_relay_restrictions = reject_unauth_destination\nsmtpd_reject_unlisted_recipient = no\n";
  for (const bool allowed : {false, true}) {
    Rig rig(lists + (allowed ? "allow_untrusted_routing = yes\n" : ""));
    rig.connect();
    BOOST_TEST(last_reply(rig, routed).starts_with(allowed ? "250" : "554 5.7.1"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
