#include "trivial-rewrite/tls_policy.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::rewrite;

namespace {

struct Rules {
  TlsOptions options;
  bool lmtp = false;

  void table(const std::string& pairs) { options.policy_maps = "inline:{ " + pairs + " }"; }
  Decision decide(const std::string& nexthop, const std::string& host = "mx.example.net") {
    auto policies = TlsPolicies::open(options);
    BOOST_REQUIRE(policies);
    const auto hops = parse_nexthops(nexthop, lmtp, 25);
    BOOST_REQUIRE(hops);
    const auto all = policies->decide(hops->front(), std::vector<std::string>{host});
    BOOST_REQUIRE(all.size() == 1);
    return all.front();
  }
  /// "level match,match" or "! problem".
  std::string said(const std::string& nexthop, const std::string& host = "mx.example.net") {
    const Decision d = decide(nexthop, host);
    if (!d.problem.empty()) return "! " + d.problem;
    std::string out(level_name(d.policy.level));
    if (!d.policy.match.empty()) out += " " + join(d.policy.match, ",");
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tls_policy, Rules)

BOOST_AUTO_TEST_CASE(the_level_comes_from_the_new_setting_or_the_older_ones) {
  BOOST_TEST(said("example.org") == "none");
  options.use_tls = true;
  BOOST_TEST(said("example.org") == "may");
  options.enforce_tls = true;
  BOOST_TEST(said("example.org") == "verify mx.example.net");
  BOOST_TEST(decide("example.org").rule == "smtp_enforce_tls");
  options.enforce_peername = false;
  BOOST_TEST(said("example.org") == "encrypt");
  options.security_level = "none";
  BOOST_TEST(said("example.org") == "none");
  options.security_level = "Encrypt";
  BOOST_TEST(said("example.org") == "encrypt");
  BOOST_TEST(decide("example.org").rule == "smtp_tls_security_level");
  options.security_level = "most";
  BOOST_TEST(!TlsPolicies::open(options));
}

BOOST_AUTO_TEST_CASE(levels_that_cannot_be_kept_are_never_taken_for_weaker_ones) {
  for (const char* level : {"dane", "dane-only"}) {
    options.security_level = level;
    BOOST_TEST(said("example.org").ends_with("needs smtp_dns_support_level = dnssec"));
    options.security_level = "may";
    table("{ example.org = " + std::string(level) + " }");
    BOOST_TEST(said("example.org").ends_with("needs smtp_dns_support_level = dnssec"));
    BOOST_TEST(said("example.com") == "may");
    options.policy_maps.clear();
  }
}

BOOST_AUTO_TEST_CASE(the_table_is_asked_for_the_next_hop_as_written) {
  options.security_level = "may";
  table(
      "{ example.org = encrypt }, { [example.org] = none }, { [example.org]:587 = secure }, "
      "{ example.org:26 = fingerprint match=aa }");
  BOOST_TEST(said("example.org") == "encrypt");
  BOOST_TEST(said("EXAMPLE.org") == "encrypt");
  BOOST_TEST(said("[example.org]") == "none");
  BOOST_TEST(said("[example.org]:587") == "secure example.org,.example.org");
  BOOST_TEST(said("example.org:26") == "fingerprint AA");
  BOOST_TEST(said("[example.org]:588") == "may");
  BOOST_TEST(said("example.org:25") == "may");
  BOOST_TEST(decide("example.org").rule == "smtp_tls_policy_maps (example.org)");
  BOOST_TEST(decide("example.com").rule == "smtp_tls_security_level");
}

BOOST_AUTO_TEST_CASE(parents_have_a_dot_in_front_and_count_for_plain_names_only) {
  table("{ .example.org = encrypt }, { .org = none }, { b.example.org = verify }");
  options.security_level = "may";
  BOOST_TEST(said("a.example.org") == "encrypt");
  BOOST_TEST(said("x.a.example.org") == "encrypt");
  BOOST_TEST(said("b.example.org") == "verify mx.example.net");
  BOOST_TEST(said("example.org") == "none");
  BOOST_TEST(said("example.net") == "may");
  BOOST_TEST(said("[a.example.org]") == "may");
  BOOST_TEST(said("a.example.org:25") == "may");
  BOOST_TEST(decide("x.a.example.org").rule == "smtp_tls_policy_maps (.example.org)");
}

BOOST_AUTO_TEST_CASE(match_strategies_are_filled_in) {
  options.security_level = "verify";
  BOOST_TEST(said("example.org") == "verify mx.example.net");
  options.security_level = "secure";
  BOOST_TEST(said("example.org") == "secure example.org,.example.org");
  BOOST_TEST(said("[Relay.example.org]:587", "relay.example.org") == "secure relay.example.org,.relay.example.org");
  options.secure_match = "hostname, nexthop:Other.example .example.com";
  BOOST_TEST(said("example.org") == "secure mx.example.net,example.org,other.example,.example.com");
  table(
      "{ example.org = secure match=nexthop:.example.com match=hostname }, "
      "{ example.com = verify match=dot-nexthop }");
  BOOST_TEST(said("example.org") == "secure example.org,.example.com,mx.example.net");
  BOOST_TEST(said("example.com") == "verify .example.com");
  options.security_level = "verify";
  options.verify_match = "";
  BOOST_TEST(said("example.net").find("no name to match") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(fingerprints_are_told_apart_by_bars_and_brought_into_one_form) {
  table("{ example.org = fingerprint match=3D:95:34:51|aabbcc match=00 }");
  BOOST_TEST(said("example.org") == "fingerprint 3D:95:34:51,AA:BB:CC,00");
  options.security_level = "fingerprint";
  BOOST_TEST(said("example.net").find("no fingerprint to match") != std::string::npos);
  options.fingerprint_match = "01:02 03";
  BOOST_TEST(said("example.net") == "fingerprint 01:02,03");
  for (const char* bad : {"0", "0:1", "xy", "01:2", "sha256=01"}) {
    options.fingerprint_match = bad;
    BOOST_TEST_CONTEXT(bad)
    BOOST_TEST(said("example.net").find("is no fingerprint") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(attributes_become_part_of_the_policy) {
  options.servername = "hostname";
  table(
      "{ example.org = encrypt protocols=>=TLSv1.2 ciphers=high exclude=3DES:RC4 "
      "servername=sni.example }, { example.com = secure tafile=/etc/a.pem,tafile=/etc/b.pem }");
  auto d = decide("example.org");
  BOOST_TEST(d.policy.protocols == ">=TLSv1.2");
  BOOST_TEST(d.policy.ciphers == "high");
  BOOST_TEST(d.policy.exclude == "3DES:RC4");
  BOOST_TEST(d.policy.servername == "sni.example");
  d = decide("example.com");
  BOOST_TEST(join(d.policy.trust_anchors) == "/etc/a.pem /etc/b.pem");
  BOOST_TEST(d.policy.servername == "mx.example.net");
  options.servername = "nexthop";
  BOOST_TEST(decide("example.com").policy.servername == "example.com");
  options.security_level = "encrypt";
  BOOST_TEST(decide("[mx.example]:25").policy.servername == "mx.example");
  BOOST_TEST(decide("[127.0.0.1]:25", "127.0.0.1").policy.servername.empty());
}

BOOST_AUTO_TEST_CASE(an_entry_s_servername_hostname_and_nexthop_stand_for_those_names) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"hostname", "mx.example.net"}, {"HostName", "mx.example.net"}, {"nexthop", "example.org"},
      {"NEXTHOP", "example.org"},     {"sni.example", "sni.example"}, {"hostname.example", "hostname.example"},
  };
  for (const auto& [word, sent] : rows) {
    for (const std::string_view level : {"may", "encrypt", "verify", "secure"}) {
      options.servername = "other.example";
      table("{ example.org = " + std::string(level) + " servername=" + std::string(word) + " }");
      BOOST_TEST(decide("example.org").policy.servername == sent, level << " servername=" << word);
    }
  }
  table("{ [127.0.0.1] = encrypt servername=hostname }");
  BOOST_TEST(decide("[127.0.0.1]", "127.0.0.1").policy.servername == "");  // no name to send
}

BOOST_AUTO_TEST_CASE(what_an_entry_says_of_the_domain_s_policy_is_told_for_reports) {
  using ipc::tls_report::PolicyType;
  using ipc::tls_report::ResultType;
  const std::string said_of_it =
      "secure match=mx.example.net policy_type=sts policy_domain=Policy.example policy_ttl=604800 "
      "mx_host_pattern=MX.example.net { policy_string = version: STSv1 } { policy_string = mode: enforce }";
  NextHop hop;
  hop.host = hop.text = "Example.org";
  hop.mx = true;
  const auto told = [&](const std::string& entry) {
    options.policy_maps = "static:{" + entry + "}";
    const auto policies = TlsPolicies::open(options);
    BOOST_REQUIRE(policies.has_value());
    const std::vector<std::string> hosts{"mx.example.net", "mx.example.net"};
    const auto decisions = policies->decide(hop, hosts);
    BOOST_TEST(decisions.at(1).published.empty());
    return decisions.at(0).published;
  };
  const auto one = told(said_of_it);
  BOOST_REQUIRE(one.size() == 1U);
  BOOST_TEST(one[0].domain == "example.org");
  BOOST_TEST((one[0].policy == PolicyType::sts));
  BOOST_TEST(join(one[0].policy_strings, "|") == "version: STSv1|mode: enforce");
  BOOST_TEST(join(one[0].mx_patterns) == "mx.example.net");
  BOOST_TEST(one[0].policy_domain == "policy.example");
  BOOST_TEST(one[0].announced == 604800U);
  BOOST_TEST((one[0].result == ResultType::success));
  BOOST_TEST(told("dane policy_type=tlsa").at(0).announced == 86400U);
  BOOST_TEST(told("may policy_type=sts policy_ttl=1").at(0).announced == 7200U);
  // A policy that could not be had is a failure besides.
  const std::pair<std::string_view, ResultType> failures[] = {
      {"starttls-not-supported", ResultType::starttls_not_supported},
      {"certificate-host-mismatch", ResultType::certificate_host_mismatch},
      {"certificate-expired", ResultType::certificate_expired},
      {"certificate-not-trusted", ResultType::certificate_not_trusted},
      {"validation-failure", ResultType::validation_failure},
      {"tlsa-invalid", ResultType::tlsa_invalid},
      {"dnssec-invalid", ResultType::dnssec_invalid},
      {"dane-required", ResultType::dane_required},
      {"sts-policy-fetch-error", ResultType::sts_policy_fetch_error},
      {"sts-policy-invalid", ResultType::sts_policy_invalid},
      {"sts-webpki-invalid", ResultType::sts_webpki_invalid},
  };
  for (const auto& [word, result] : failures) {
    const auto two = told("may policy_type=sts policy_failure=" + std::string(word));
    BOOST_REQUIRE(two.size() == 2U);
    BOOST_TEST((two[1].result == result), word);
    BOOST_TEST(two[1].announced == 0U);
  }
  BOOST_TEST(told("may").empty());
  hop.mx = false;
  BOOST_TEST(told(said_of_it).empty());
}

BOOST_AUTO_TEST_CASE(a_bad_entry_makes_mail_wait_and_says_why) {
  options.security_level = "may";
  const std::pair<const char*, const char*> bad[] = {
      {"", "is empty"},
      {"best", "no such level \"best\""},
      {"encrypt colour=blue", "no such attribute \"colour\""},
      {"encrypt high", "\"high\" is not name=value"},
      {"encrypt ciphers=", "\"ciphers\" has no value"},
      {"encrypt ciphers=best", "no such cipher grade"},
      {"encrypt ciphers=high ciphers=medium", "given twice"},
      {"encrypt protocols=a protocols=b", "given twice"},
      {"encrypt exclude=a exclude=b", "given twice"},
      {"encrypt match=a.example", "means nothing at level \"encrypt\""},
      {"may match=a.example", "means nothing at level \"may\""},
      {"encrypt tafile=/x", "means nothing"},
      {"fingerprint tafile=/x match=aa", "means nothing"},
      {"encrypt servername=192.0.2.1", "is no host name"},
      {"encrypt servername=", "\"servername\" has no value"},
      {"may connection_reuse=perhaps", "yes or no"},
      // what tells of a published policy, where Postfix does not take it
      {"may policy_type=dane", "\"policy_type\" cannot be \"dane\""},
      {"may policy_type=sts policy_type=sts", "given twice"},
      {"may policy_type=sts policy_ttl=1h", "\"policy_ttl\" cannot be \"1h\""},
      {"may policy_type=sts policy_ttl=1 policy_ttl=1", "given twice"},
      {"may policy_type=sts policy_domain=a..example", "\"policy_domain\" cannot be"},
      {"may policy_type=sts policy_domain=a.example policy_domain=a.example", "given twice"},
      {"may policy_type=sts policy_failure=bad-luck", "\"policy_failure\" cannot be \"bad-luck\""},
      {"may policy_ttl=1", "\"policy_ttl\" needs policy_type"},
      {"may mx_host_pattern=mx.example.net", "\"mx_host_pattern\" needs policy_type"},
      {"may policy_string=x", "\"policy_string\" needs policy_type"},
      {"may policy_number=1", "no such attribute \"policy_number\""},
  };
  for (const auto& [entry, words] : bad) {
    BOOST_TEST_CONTEXT(entry) {
      options.policy_maps = *entry == '\0' ? "static:{ }" : "static:{" + std::string(entry) + "}";
      const std::string said_so = said("example.org");
      BOOST_TEST(said_so.starts_with("! client TLS configuration problem: smtp_tls_policy_maps"));
      BOOST_TEST_INFO(said_so);
      BOOST_TEST((said_so.find(words) != std::string::npos));
    }
  }
  options.policy_maps = "static:{none colour=blue}";  // no effect without TLS
  BOOST_TEST(said("example.org") == "none");
  options.policy_maps = "fail:out of order";
  BOOST_TEST(said("example.org").starts_with("! client TLS configuration problem"));
}

BOOST_AUTO_TEST_CASE(per_site_weighs_next_hop_and_host_as_postfix_does) {
  const auto site = [this](const std::string& hop, const std::string& host) {
    options.per_site = "inline:{ { example.org = " + hop + " }, { mx.example.net = " + host + " } }";
    return said("example.org");
  };
  options.security_level = "may";
  BOOST_TEST(site("NONE", "MAY") == "none");
  BOOST_TEST(site("MAY", "NONE") == "none");
  BOOST_TEST(site("NONE", "MUST") == "verify mx.example.net");
  BOOST_TEST(site("MUST", "NONE") == "verify mx.example.net");
  BOOST_TEST(site("must_nopeermatch", "NONE") == "encrypt");
  BOOST_TEST(site("MUST_NOPEERMATCH", "MUST") == "verify mx.example.net");
  BOOST_TEST(site("ALWAYS", "MUST").find("no such word") != std::string::npos);
  options.security_level = "encrypt";
  BOOST_TEST(site("MAY", "MAY") == "encrypt");
  BOOST_TEST(site("NONE", "MAY") == "none");
  BOOST_TEST(site("MUST", "MAY") == "verify mx.example.net");
  table("{ example.com = may }");  // only the newer table counts
  BOOST_TEST(said("example.org") == "encrypt");
}

BOOST_AUTO_TEST_CASE(wrapped_connections_need_a_level_that_insists) {
  options.wrapped = true;
  for (const char* level : {"", "none", "may"}) {
    options.security_level = level;
    BOOST_TEST(said("example.org").find("smtp_tls_wrappermode = yes needs") != std::string::npos);
  }
  options.security_level = "encrypt";
  BOOST_TEST(said("example.org") == "encrypt");
}

BOOST_AUTO_TEST_CASE(what_cannot_work_is_known_at_the_start) {
  const auto problems = [this] { return join(TlsPolicies::open(options)->problems(), "|"); };
  options.security_level = "secure";
  BOOST_TEST(problems().empty());
  options.security_level = "dane";
  BOOST_TEST(problems() ==
             "client TLS configuration problem: smtp_tls_security_level: level dane needs "
             "smtp_dns_support_level = dnssec: mail is deferred");
  options.security_level = "fingerprint";
  BOOST_TEST(problems().find("no fingerprint to match: mail is deferred") != std::string::npos);
  options.security_level = "may";
  options.policy_maps = "texthash:/nonexistent/tls_policy";
  BOOST_TEST(problems().find("/nonexistent/tls_policy") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(lmtp_goes_by_its_own_settings_and_sockets_by_their_path) {
  lmtp = true;
  options.program = "lmtp";
  options.security_level = "may";
  table("{ /run/lmtp = encrypt }");
  BOOST_TEST(said("unix:/run/lmtp", "/run/lmtp") == "encrypt");
  BOOST_TEST(decide("unix:/run/lmtp", "/run/lmtp").rule == "lmtp_tls_policy_maps (/run/lmtp)");
  BOOST_TEST(said("unix:/run/other", "/run/other") == "none");
  BOOST_TEST(said("inet:lmtp.example") == "may");
}

BOOST_AUTO_TEST_CASE(connections_are_shared_only_where_policies_agree) {
  const auto key = [this](const std::string& nexthop, const std::string& host) {
    ipc::Destination d;
    d.transport = "smtp";
    d.host = host;
    d.address = "192.0.2.1";
    d.port = 25;
    d.tls = decide(nexthop, host).policy;
    return d.key();
  };
  table(
      "{ a.example = may }, { b.example = encrypt }, { c.example = secure }, { d.example = may "
      "ciphers=high }, { e.example = encrypt }");
  BOOST_TEST(key("a.example", "mx1") == key("a.example", "mx2"));
  BOOST_TEST(key("a.example", "mx1") != key("b.example", "mx1"));
  BOOST_TEST(key("b.example", "mx1") == key("e.example", "mx1"));
  BOOST_TEST(key("b.example", "mx1") != key("b.example", "mx2"));
  BOOST_TEST(key("b.example", "mx1") != key("c.example", "mx1"));
  BOOST_TEST(key("a.example", "mx1") != key("d.example", "mx1"));
}

BOOST_AUTO_TEST_CASE(an_entry_that_tells_of_mta_sts_holds_its_hosts) {
  const std::string pattern = "policy_type=sts mx_host_pattern=*.example.net mx_host_pattern=other.example ";
  const std::string entry = "{ example.org = secure match=far.example " + pattern +
                            "policy_ttl=86400 policy_domain=example.org { policy_string = version: STSv1 } }";
  table(entry);
  BOOST_TEST(said("example.org") == "secure mx.example.net");  // not what match says
  BOOST_TEST(said("example.org", "other.example") == "secure other.example");
  BOOST_TEST(
      said("example.org", "mx.elsewhere.example") ==
      "! host mx.elsewhere.example is not one that the MTA-STS policy names (smtp_tls_policy_maps (example.org))");
  table("{ example.org = may " + pattern + "policy_domain=example.org { policy_string = mode: testing } }");
  BOOST_TEST(said("example.org", "mx.elsewhere.example") == "may");
  table(entry);
  options.sts_patterns = false;  // smtp_tls_enforce_sts_mx_patterns
  BOOST_TEST(said("example.org", "mx.elsewhere.example") == "secure far.example");
  options.sts_patterns = true;
  // As postfix-mta-sts-resolver and postfix-tlspol answer.
  table(
      "{ example.org = secure match=mx.example.net servername=hostname policy_type=sts policy_ttl=604800 "
      "policy_domain=example.org mx_host_pattern=mx.example.net { policy_string = version: STSv1 } "
      "{ policy_string = mode: enforce } {policy_string = mx: mx.example.net} }");
  BOOST_TEST(said("example.org") == "secure mx.example.net");
  BOOST_TEST(decide("example.org").policy.servername == "mx.example.net");
  for (const std::string_view failure : {"sts-policy-fetch-error", "sts-policy-invalid", "sts-webpki-invalid"}) {
    table("{ example.org = may policy_type=sts policy_failure=" + std::string(failure) + " }");
    BOOST_TEST(said("example.org") == "may");
  }
  table("{ .bücher.example = encrypt }");
  BOOST_TEST(said("mail.bücher.example") == "encrypt");
  BOOST_TEST(said("mail.xn--bcher-kva.example") == "encrypt");
  table("{ example.org = encrypt exclude= protocols= }");
  BOOST_TEST(said("example.org") == "encrypt");
  table("{ example.org = secure match=far.example policy_type=no-policy-found }");
  BOOST_TEST(said("example.org", "mx.elsewhere.example") == "secure far.example");
}

BOOST_AUTO_TEST_SUITE_END()
