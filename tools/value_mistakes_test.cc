#include "tools/value_mistakes.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/testing/scratch.h"
#include "tools/finding_place.h"

using namespace pen;
using namespace pen::tools;

namespace {

struct Site {
  pen::testing::ScratchDir scratch;
  config::Config config(const std::string& main, const std::string& master) const {
    return config::Config::parse({scratch.path(), "myhostname = mx.example\n" + main, kMaster + master, {}},
                                 {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  }
  /// "setting: what" of all, with the last one's place and advice kept.
  std::string found(const std::string& main, const std::string& master = "") const {
    std::string out;
    for (const ValueMistake& m : value_mistakes(config(main, master))) {
      BOOST_TEST(!m.advice.empty());
      out += (out.empty() ? "" : "; ") + m.problem.name + ": " + m.problem.text;
      file = m.problem.file;
      line = m.problem.line;
      advice = m.advice;
    }
    return out;
  }
  mutable std::string file, advice;
  mutable int line = 0;
  static constexpr const char* kMaster =
      "smtp inet n - n - - smtpd\nsmtp unix - - n - - smtp\nlmtp unix - - n - - lmtp\nvirtual unix - n n - - virtual\n"
      "local unix - n n - - local\n";
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(values_without_sense, Site)

BOOST_AUTO_TEST_CASE(names_of_ciphers_and_groups_that_nobody_knows_are_told) {
  BOOST_TEST(found("smtpd_tls_exclude_ciphers = aNULL, DES, PSD\n") ==
             "smtpd_tls_exclude_ciphers: \"PSD\" is no cipher and has no effect");
  BOOST_TEST(line == 2);
  for (const char* side : {"smtpd", "smtp", "lmtp"})
    for (const char* kind : {"exclude_ciphers", "mandatory_exclude_ciphers"})
      BOOST_TEST(found("", std::string("2525 inet n - n - - smtpd -o ") + side + "_tls_" + kind + "=RC5,anull\n")
                     .contains("\"anull\" is no cipher"));
  BOOST_TEST(found("tls_high_cipherlist = HIGH:!aNULL:!MD:@STRENGTH\n").contains("\"MD\" is no cipher"));
  BOOST_TEST(found("tls_medium_cipherlist = ECDHE-RSA-AES128-GCM-SHA256:EDH-RSA-DES-CBC3-SHA:!RC4\n") == "");
  BOOST_TEST(found("tls_high_cipherlist = HIGH:TLS_AES_128_GCM_SHA256\n").contains("suites of TLS 1.3"));
  BOOST_TEST(found("tls_eecdh_auto_curves = X25519 secp255r1\n").contains("\"secp255r1\" is no group"));
  BOOST_TEST(found("tls_eecdh_auto_curves = X25519MLKEM768, X25519, prime256v1\ntls_ffdhe_auto_groups =\n") == "");
}

BOOST_AUTO_TEST_CASE(notices_that_wait_longer_than_mail_are_told) {
  BOOST_TEST(found("maximal_queue_lifetime = 1d\n") ==
             "maximal_queue_lifetime: a notice that cannot be delivered waits longer (120 h) than other mail (24 h)");
  BOOST_TEST(found("bounce_queue_lifetime = 6d\n").starts_with("bounce_queue_lifetime: a notice"));
  BOOST_TEST(found("bounce_queue_lifetime = 1d\n") == "");
  BOOST_TEST(found("bounce_queue_lifetime = 0\nmaximal_queue_lifetime = 1d\n") == "");
}

BOOST_AUTO_TEST_CASE(a_word_that_a_list_does_not_know_is_told_with_the_nearest) {
  BOOST_TEST(found("masquerade_classes = envelope_sendr\n") ==
             "masquerade_classes: \"envelope_sendr\" is no word of this list and has no effect");
  BOOST_TEST(advice == "envelope_sender");
  BOOST_TEST(line == 2);
  for (const char* wrong : {"propagate_unmatched_extensions = cannonical", "internal_mail_filter_classes = bounc",
                            "smtp_host_lookup = dsn", "smtpd_discard_ehlo_keywords = chuncking",
                            "parent_domain_matches_subdomains = relay_domain", "mailbox_delivery_lock = dotlok",
                            "sender_canonical_classes = header_recipient", "allow_mail_to_files = alias, forwrad"})
    BOOST_TEST(found(std::string(wrong) + "\n").contains("is no word of this list"), wrong);
  BOOST_TEST(found("smtpd_discard_ehlo_keywords = silent-discard, DSN\nsmtp_host_lookup = dns, native\n"
                   "masquerade_classes = header_sender\nallow_mail_to_files = alias\n")
                 .empty());
  BOOST_TEST(found("", "2525 inet n - n - - smtpd -o smtpd_discard_ehlo_keywords=startls\n").contains("startls"));
  BOOST_TEST(line == 6);
  BOOST_TEST(advice == "starttls");
}

BOOST_AUTO_TEST_CASE(a_next_hop_is_a_host_and_perhaps_a_port) {
  struct Row {
    const char *hop, *why;
  };
  for (const Row& row :
       {Row{"a.example", ""}, Row{"[a.example]:587", ""}, Row{"a.example:submission", ""}, Row{"[192.0.2.1]", ""},
        Row{"[2001:db8::1]:25", ""}, Row{"[IPv6:2001:db8::1]", ""}, Row{"bücher.example", ""},
        Row{"[a.example", "[ has no ]"}, Row{"a.example:abc", "\"abc\" is no port"},
        Row{"smtp:a.example", "\"a.example\" is no port"}, Row{"[a.example]587", "what is behind ] is no port"},
        Row{"a_b c", "\"a_b c\" is no host"}, Row{"", "\"\" is no host"}})
    BOOST_TEST(fault_of_hop(row.hop) == row.why, row.hop);
  BOOST_TEST(found("relayhost = [a.example\n").contains("relayhost: \"[a.example\" is no next hop: [ has no ]"));
  BOOST_TEST(found("smtp_fallback_relay = a.example, b.example:x\n").contains("\"x\" is no port"));
  BOOST_TEST(found("relayhost = [a.example]:587\n").empty());
}

BOOST_AUTO_TEST_CASE(a_transport_that_master_cf_lacks_is_told_where_it_is_named) {
  BOOST_TEST(
      found("content_filter = amavis:[127.0.0.1]:10024\n").contains("content_filter: master.cf has no service amavis"));
  BOOST_TEST(found("content_filter = smtp:[127.0.0.1\n").contains("[ has no ]"));
  BOOST_TEST(found("default_transport = smtp:[127.0.0.1\n").contains("[ has no ]"));
  BOOST_TEST(found("default_transport = smpt\n").empty());
  BOOST_TEST(found("content_filter = smtp:[127.0.0.1]:10024\nmailbox_transport = lmtp:unix:private/box\n").empty());
  const auto routes = scratch.write("routes",
                                    "a.example smtp:[b.example]\nb.example smpt:c\n# x\nc.example smtp:c:x\n"
                                    "d.example :\ne.example local:$me\nf.example :[g.example]\n");
  BOOST_TEST(found("transport_maps = texthash:" + routes + "\n") ==
             "transport_maps: b.example: master.cf has no service smpt: such mail waits; "
             "transport_maps: c.example: \"c:x\" is no next hop: \"x\" is no port: such mail waits");
  BOOST_TEST(file == routes);
  BOOST_TEST(line == 4);
  BOOST_TEST(found("transport_maps = inline:{ {a.example = smpt:x}, b.example=smtp:y }\n") ==
             "transport_maps: a.example: master.cf has no service smpt: such mail waits");
  BOOST_TEST(line == 2);
  const auto hops = scratch.write("hops", "@a.example [b.example\n@b.example DUNNO\n");
  BOOST_TEST(found("sender_dependent_relayhost_maps = hash:" + hops + "\n").contains("@a.example: \"[b.example\""));
  BOOST_TEST(line == 1);
}

BOOST_AUTO_TEST_CASE(limits_that_limit_nothing_are_told_where_they_stand) {
  const auto limits = scratch.write("limits",
                                    "provider:big rate=20/s,5000/h connections=5\ntenant:a connections=3\n"
                                    "domain:b.example rate=20/s,300/m,400/m\ndomain:c.example rate=1/s,100/m\n"
                                    "tenant:d rate=0/h\n");
  BOOST_TEST(found("delivery_limit_maps = texthash:" + limits + "\n") ==
             "delivery_limit_maps: domain:b.example: \"rate=20/s,300/m,400/m\" has two rates by the minute: it limits "
             "nothing; delivery_limit_maps: domain:c.example: \"rate=1/s,100/m\" has 100/m, which holds nothing back "
             "beside 1/s: it limits nothing; delivery_limit_maps: tenant:d: \"rate=0/h\" is not a rate: N/s, N/m, N/h "
             "or N/d, or several with commas between them: it limits nothing");
  BOOST_TEST(file == limits);
  BOOST_TEST(line == 5);
  BOOST_TEST(found("delivery_limit_maps = inline:{ {provider:big = rate=20/s,5000/h}, {tenant:a = speed=3} }\n")
                 .starts_with("delivery_limit_maps: tenant:a: \"speed=3\" is not rate=N/s"));
  BOOST_TEST(line == 2);
}

BOOST_AUTO_TEST_CASE(values_of_access_tables_are_actions) {
  for (const char* known : {"OK", "reject", "REJECT go away", "554 no", "12345", "permit_mynetworks, reject",
                            "check_sender_access hash:/x", "DUNNO", "mine", "FILTER smtp:[a]"})
    BOOST_TEST(is_access_action(known, {"mine"}), known);
  for (const char* unknown : {"REJCT", "accept", "", "yours"})
    BOOST_TEST(!is_access_action(unknown, {"mine"}), unknown);
  const auto table = scratch.write("t", "a.example REJECT\nb.example REJCT\n");
  BOOST_TEST(found("smtpd_sender_restrictions = check_sender_access hash:" + table + "\n") ==
             "smtpd_sender_restrictions: b.example: \"REJCT\" is no action: mail that meets it gets 451 4.3.5");
  BOOST_TEST(line == 2);
  BOOST_TEST(found("smtpd_restriction_classes = mine\nmine = check_sender_access hash:" + table + "\n")
                 .contains("mine: b.example"));
  BOOST_TEST(found("smtpd_restriction_classes = mine, permit\n") ==
             "smtpd_restriction_classes: the class mine has no restrictions: it does nothing; "
             "smtpd_restriction_classes: permit is a restriction already: the class has no effect");
  BOOST_TEST(found("smtpd_sender_restrictions = reject_sender_login_mismatch\n").contains("smtpd_sender_login_maps"));
}

BOOST_AUTO_TEST_CASE(settings_that_need_others_are_told) {
  BOOST_TEST(found("smtp_sasl_auth_enable = yes\n").contains("smtp_sasl_password_maps is empty"));
  BOOST_TEST(found("smtp_sasl_auth_enable = yes\nsmtp_sasl_password_maps = inline:{a=b:c}\n").empty());
  BOOST_TEST(found("maximal_backoff_time = 10s\n").contains("is less than minimal_backoff_time"));
  BOOST_TEST(found("smtp_tls_security_level = dane\n").contains("needs smtp_dns_support_level = dnssec"));
  BOOST_TEST(found("smtp_tls_security_level = dane\nsmtp_dns_support_level = dnssec\n").empty());
  const std::string box = "virtual_mailbox_domains = v.example\n";
  const std::string whole = box +
                            "virtual_mailbox_maps = inline:{a@v.example=a/}\nvirtual_mailbox_base = /var/mail\n"
                            "virtual_gid_maps = static:5000\n";
  BOOST_TEST(found(whole + "virtual_uid_maps = static:5000\n").empty());
  BOOST_TEST(found(whole).contains("virtual_uid_maps is empty"));
  BOOST_TEST(found(whole + "virtual_uid_maps = static:vmail\n").contains("\"static:vmail\" is no number"));
  BOOST_TEST(found(box).contains("virtual_mailbox_maps is empty"));
  BOOST_TEST(found(box + "virtual_transport = lmtp:unix:private/box\n").empty());
  const auto policies = scratch.write("policies", "a.example secure match=x\nb.example secur\n");
  BOOST_TEST(found("smtp_tls_policy_maps = hash:" + policies + "\n") ==
             "smtp_tls_policy_maps: b.example: \"secur\" is no level of TLS: mail for it waits");
}

BOOST_AUTO_TEST_CASE(names_and_addresses_that_are_none_are_told) {
  BOOST_TEST(found("myhostname = my host\n").contains("myhostname: \"my host\" is no host name"));
  BOOST_TEST(found("myorigin =\n").contains("myorigin: empty"));
  BOOST_TEST(found("always_bcc = no at sign\n").contains("is not one address"));
  BOOST_TEST(found("always_bcc = archive\n").empty());
  BOOST_TEST(found("smtp_bind_address = 300.1.1.1\n").contains("is no address"));
  BOOST_TEST(found("smtp_bind_address = 192.0.2.1\nsmtp_bind_address6 = [2001:db8::1]\n").empty());
  for (const char* odd : {"x", "+5", "plus"})
    BOOST_TEST(found(std::string("recipient_delimiter = ") + odd + "\n").contains("letters and digits"), odd);
  for (const char* odd : {"@", "+ -", "\"+\"", "+,-"})
    BOOST_TEST(found(std::string("recipient_delimiter = ") + odd + "\n").contains("as they are"), odd);
  for (const char* usual : {"", "+", "+-", ".", "=", "_", "#"})
    BOOST_TEST(found(std::string("recipient_delimiter = ") + usual + "\n").empty(), usual);
  BOOST_TEST(found("mynetworks = localhost, 127.0.0.1, [::1], 10.0.0.0/8, !192.0.2.1\n") ==
             "mynetworks: \"localhost\" is no network: it matches nobody");
  BOOST_TEST(found("mailbox_command = /no/such/procmail -a\n").contains("/no/such/procmail cannot be run"));
}

BOOST_AUTO_TEST_CASE(a_value_that_can_be_read_and_cannot_be_meant_is_told) {
  struct Row {
    const char *main, *said;
  };
  for (const Row& row : {
           Row{"mydomain = example com", "mydomain: \"example com\" is no domain"},
           Row{"smtp_helo_name = my_host!", "smtp_helo_name: \"my_host!\" is no host name"},
           Row{"mydestination = a.example;b.example", "mydestination: \"a.example;b.example\" is no domain"},
           Row{"relay_domains = a@b.example", "relay_domains: \"a@b.example\" is no domain"},
           Row{"luser_relay = no such user", "luser_relay: \"no such user\" is not one address"},
           Row{"double_bounce_sender = two words", "double_bounce_sender: \"two words\" is not one address"},
           Row{"data_directory = lib", "data_directory: \"lib\" does not begin with /"},
           Row{"mail_spool_directory = mail", "mail_spool_directory: \"mail\" does not begin with /"},
           Row{"smtp_tls_CApath = /no/such/dir", "smtp_tls_CApath: /no/such/dir is not there"},
           Row{"home_mailbox = /Maildir/", "home_mailbox: \"/Maildir/\" is below the user's home"},
           Row{"forward_path = .forward", "forward_path: \".forward\" begins neither with / nor"},
           Row{"delay_warning_time = 10w", "delay_warning_time: mail is returned before it is warned of"},
           Row{"smtpd_soft_error_limit = 50", "smtpd_soft_error_limit: smtpd_soft_error_limit is more than"},
           Row{"default_privs = root", "default_privs: commands and files of aliases are not for root"},
           Row{"smtp_tls_verify_cert_match = hostnam", "smtp_tls_verify_cert_match: \"hostnam\" is no name"},
           Row{"smtp_sasl_mechanism_filter = plian", "smtp_sasl_mechanism_filter: \"plian\" is no mechanism"},
       }) {
    BOOST_TEST(found(std::string(row.main) + "\n").contains(row.said), row.main);
    BOOST_TEST(line == 2);
  }
  for (const char* right :
       {"mydestination = $myhostname, .a.example, [192.0.2.1], my_host, hash:/x, /file, b\xc3\xbc.example",
        "smtp_helo_name = [192.0.2.1]", "luser_relay = \"two words\"@a.example", "luser_relay = $user+x",
        "home_mailbox = Maildir/", "forward_path = $home/.forward${recipient_delimiter}, /var/forward/$user",
        "delay_warning_time = 4h", "smtpd_hard_error_limit = 100", "default_privs = nobody",
        "smtp_tls_secure_cert_match = nexthop, dot-nexthop, .example.org",
        "smtpd_sasl_mechanism_filter = !external, static:rest", "smtp_sasl_mechanism_filter = plain, LOGIN, XOAUTH2"})
    BOOST_TEST(found(std::string(right) + "\n") == "", right);
}

BOOST_AUTO_TEST_CASE(entries_of_tables_that_cannot_do_what_they_are_for_have_their_line) {
  const auto of = [&](const std::string& setting, const char* type, const std::string& text) {
    return found(setting + " = " + type + ":" + scratch.write("table", text) + "\n");
  };
  struct Row {
    const char *setting, *type, *text, *said;
  };
  for (const Row& row : {
           Row{"header_checks", "regexp", "/^a/ OK\n/^Subject: x/ REJEKT\n", "\"REJEKT\" is no action"},
           Row{"body_checks", "pcre", "/^a/ OK\n/b/ FILTER foo\n", "\"FILTER foo\" lacks transport:destination"},
           Row{"header_checks", "pcre", "/a/ OK\n/b/ BCC me\n", "\"BCC me\" lacks user@domain"},
           Row{"header_checks", "pcre", "/a/ OK\n/b/ PREPEND\n", "\"PREPEND\" lacks a text"},
           Row{"smtp_header_checks", "regexp", "/a/ IGNORE\n/b/ REJECT no\n",
               "can only be done while mail is received"},
           Row{"smtpd_client_restrictions = check_client_access x:y, check_client_access", "cidr",
               "192.0.2.0/24 OK\n10.0.0.0/8 REJEKT\n", "\"REJEKT\" is no action"},
           Row{"smtp_sasl_password_maps", "hash", "a.example u:p\nb.example user\n", "there is no colon"},
           Row{"alias_maps", "hash", "a: b\nc: \"|/no/such/prog -x\"\n", "/no/such/prog cannot be run"},
           Row{"alias_maps", "hash", "a: b\nc: d, :include:/no/such/list\n", "/no/such/list cannot be read"},
       }) {
    const std::string setting(row.setting);
    const std::string said = setting.contains('=')
                                 ? found(setting + " " + row.type + ":" + scratch.write("table", row.text) + "\n")
                                 : of(setting, row.type, row.text);
    BOOST_TEST(said.contains(row.said), row.setting << said);
    if (setting != "smtp_sasl_password_maps") BOOST_TEST(line == 2, row.setting);
  }
  BOOST_TEST(of("header_checks", "pcre", "/(a)/ REJECT $1\n/b/ REPLACE x: y\nif /c/\n/d/ dunno\nendif\n") == "");
  BOOST_TEST(of("transport_maps", "regexp", "/(.*)@x/ smtp:[$1]\n") == "");
  BOOST_TEST(of("alias_maps", "hash", "a: \"|/bin/sh -c x\", :include:/etc/passwd, |relative\n") == "");
  const std::string open = scratch.write("open", "a.example u:p\n");
  ::chmod(open.c_str(), 0644);
  BOOST_TEST(found("smtp_sasl_password_maps = texthash:" + open + "\n").contains("everybody can read"));
  ::chmod(open.c_str(), 0600);
  BOOST_TEST(found("smtp_sasl_password_maps = texthash:" + open + "\n") == "");
  const std::string box =
      "virtual_mailbox_domains = v.example\nvirtual_mailbox_maps = inline:{a@v.example=a/}\n"
      "virtual_mailbox_base = /var/mail\nvirtual_gid_maps = static:5000\nvirtual_uid_maps = texthash:";
  BOOST_TEST(found("virtual_mailbox_domains = v.example\nvirtual_mailbox_base = /no/such/base\n"
                   "virtual_mailbox_maps = inline:{a@v.example=../up}\n")
                 .contains("virtual_mailbox_maps: a@v.example: \"../up\" leads out of its directory"));
  BOOST_TEST(found("virtual_mailbox_base = /no/such/base\n").contains("/no/such/base is not there"));
  BOOST_TEST(
      found(box + scratch.write("ids", "a@v.example 5000\nb@v.example vmail\n") + "\n").contains("is no number"));
  BOOST_TEST(line == 2);
  BOOST_TEST(found(box + scratch.write("ids", "a@v.example 5000\nb@v.example 0\n") + "\n").contains("is less than"));
}

BOOST_AUTO_TEST_CASE(a_sentence_of_a_program_has_the_place_of_what_it_is_about) {
  const auto whole = config(
      "smtpd_milters = inet:nonsense\nsmtp_tls_CAfile = /no/file\n"
      "smtpd_client_restrictions = reject_rbl_client zen..example\n",
      "2525 inet n - n - - smtpd -o smtpd_milters=inet:other -o smtpd_tls_ciphers=hihg\n"
      "ext unix - n n - - pipe flags=Z user=nobody argv=/bin/true\n");
  const auto at = [&](std::string_view sentence) {
    const auto found = finding_place(whole, sentence);
    return found ? found->setting + " " + found->place.file.substr(found->place.file.rfind('/') + 1) + ":" +
                       std::to_string(found->place.line)
                 : std::string("nowhere");
  };
  BOOST_TEST(at("service smtp/inet will not start: smtpd_milters: inet:nonsense: no port") ==
             "smtpd_milters main.cf:2");
  BOOST_TEST(at("service 2525/inet will not start: smtpd_milters: inet:other: no port") == "smtpd_milters master.cf:6");
  BOOST_TEST(at("smtpd_tls_ciphers: cipher grade \"hihg\"") == "smtpd_tls_ciphers master.cf:6");
  BOOST_TEST(at("/no/file: cannot be read") == "smtp_tls_CAfile main.cf:3");
  BOOST_TEST(at("reject_rbl_client: zen..example: not a domain name") == "smtpd_client_restrictions main.cf:4");
  BOOST_TEST(at("service ext/unix would not start if mail came for it: flags=") == " master.cf:7");
  BOOST_TEST(at("a server needs a certificate") == "nowhere");
}

BOOST_AUTO_TEST_CASE(what_mail_by_http_needs_of_its_service_is_told) {
  const std::string main =
      "penapi_submission_service = handin\nsmtpd_sasl_token_file = /tokens\nsmtpd_discard_ehlo_keywords = chunking\n";
  BOOST_TEST(found(main) ==
             "penapi_submission_service: master.cf has no service handin of type unix: requests get 503");
  BOOST_TEST(found(main, "handin unix - - n - - lmtp\n") ==
             "penapi_submission_service: handin/unix is no private smtpd: "
             "requests get 503");
  const std::string whole =
      "handin unix - - n - - smtpd\n  -o smtpd_sasl_auth_enable=yes\n  -o smtpd_sasl_type=token\n"
      "  -o smtpd_upstream_proxy_protocol=haproxy\n  -o smtpd_discard_ehlo_keywords=\n";
  BOOST_TEST(found(main, whole) == "");
  BOOST_TEST(
      found("", "penapi unix n - n - - penapi\n  -o penapi_submission_service=handin\nhandin unix n - n - - smtpd\n") ==
      "penapi_submission_service: handin/unix is no private smtpd: requests get 503");
  struct Row {
    const char* line;
    const char* setting;
  };
  for (const Row& row : {Row{"smtpd_sasl_auth_enable=no", "smtpd_sasl_auth_enable"},
                         {"smtpd_sasl_type=dovecot", "smtpd_sasl_type"},
                         {"smtpd_sasl_token_file=", "smtpd_sasl_token_file"},
                         {"smtpd_upstream_proxy_protocol=", "smtpd_upstream_proxy_protocol"},
                         {"smtpd_tls_auth_only=yes", "smtpd_tls_auth_only"},
                         {"smtpd_tls_security_level=encrypt", "smtpd_tls_security_level"},
                         {"smtpd_tls_wrappermode=yes", "smtpd_tls_wrappermode"},
                         {"smtpd_discard_ehlo_keywords=CHUNKING", "smtpd_discard_ehlo_keywords"}}) {
    const std::string said = found(main, whole + "  -o " + row.line + "\n");
    BOOST_TEST(said.starts_with(std::string(row.setting) + ": "), said);
    BOOST_TEST(said.ends_with("requests get 503"), said);
    BOOST_TEST(advice.starts_with(std::string("  -o ") + row.setting + "="));
    BOOST_TEST(line == 6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
