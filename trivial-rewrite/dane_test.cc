#include "trivial-rewrite/dane.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/base/text.h"
#include "lib/testing/dns_server.h"
#include "trivial-rewrite/router.h"

using namespace pen;
using namespace pen::rewrite;
using async::testing::run;
using pen::testing::DnsServer;

namespace {

const std::string kHash(64, 'a');                 // of SHA-256, in hex
const std::string kEndEntity = "3 1 1 " + kHash;  // the record that most hosts publish

/// From MX records to a TLS policy, with a name server that decides what is secure.
struct Dane {
  DnsServer server;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  std::map<std::string, Transport> transports;
  TlsOptions tls;

  Dane() {
    tls.security_level = "dane";
    tls.dnssec = true;
    tls.insecure_mx = "dane";
  }
  void secure(std::initializer_list<const char*> names) {
    for (const char* name : names) server.secure(name);
  }
  /// Sets up d.example with one host, all of it secure.
  void usual() {
    server.mx("d.example", 10, "mx.example");
    server.a("mx.example", "198.51.100.1");
    server.tlsa("_25._tcp.mx.example", kEndEntity);
    secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  }
  mail::RequireTls wish = mail::RequireTls::unspecified;
  milliseconds patience = seconds(30);  // longer than a busy machine takes for an answer
  /// "host level records [names]" of each destination, or "deferred code text".
  std::string policy(const std::string& domain = "d.example") {
    Transport smtp;
    smtp.program = Transport::Program::smtp;
    smtp.hosts.dnssec = tls.dnssec;
    auto policies = TlsPolicies::open(tls);
    BOOST_REQUIRE(policies.has_value());
    smtp.tls = *std::move(policies);
    transports["smtp"] = std::move(smtp);
    auto resolve = resolve::Resolve::open({});
    BOOST_REQUIRE(resolve.has_value());
    net::ResolverOptions options;
    options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
    options.timeout = patience;
    options.tries = 1;
    options.dnssec = true;
    net::Resolver dns(loop, pool, options);
    map::Asker tables(loop);
    Router router(
        loop, tables, dns, *resolve,
        [this](const std::string& name) {
          const auto t = transports.find(name);
          return t == transports.end() ? nullptr : &t->second;
        },
        1);
    const Answer a = run(loop, router.route({.sender = "s@example.org", .recipient = "user@" + domain, .wish = wish}));
    if (const auto* u = std::get_if<ipc::route::Unroutable>(&a))
      return (u->status.action == mail::Action::failed ? "failed " : "deferred ") + u->status.dsn + " " +
             u->status.text;
    std::vector<std::string> all;
    for (const auto& level : std::get<ipc::route::Resolved>(a).levels) {
      for (const auto& d : level.destinations) {
        std::string one = d.host + " " + std::string(level_name(d.tls.level));
        for (const auto& record : d.tls.tlsa) one += " {" + record.substr(0, 5) + "}";
        if (d.requiretls) one += " REQUIRETLS";
        if (!d.tls.match.empty()) one += " [" + join(d.tls.match, " ") + "]";
        all.push_back(one);
      }
    }
    std::ranges::sort(all);
    return join(all, "; ");
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(dane, Dane)

BOOST_AUTO_TEST_CASE(secure_records_of_a_secure_host_decide) {
  usual();
  for (const char* level : {"dane", "dane-only"}) {
    tls.security_level = level;
    BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
  }
}

BOOST_AUTO_TEST_CASE(requiretls_is_for_hosts_that_dns_vouches_for) {
  usual();
  wish = mail::RequireTls::yes;
  tls.security_level = "dane";
  BOOST_TEST(policy() == "mx.example dane {3 1 1} REQUIRETLS [mx.example d.example]");
  tls.security_level = "may";  // the name from secure MX records, checked with the usual authorities
  BOOST_TEST(policy() == "mx.example secure REQUIRETLS [mx.example]");
}

BOOST_AUTO_TEST_CASE(requiretls_does_not_go_where_insecure_mx_records_lead) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  secure({"mx.example"});
  wish = mail::RequireTls::yes;
  tls.security_level = "may";
  BOOST_TEST(policy() ==
             "failed 5.7.10 REQUIRETLS asks for a verified server, but the MX records of d.example "
             "are not secure in DNS and it has no policy (DANE, MTA-STS)");
}

BOOST_AUTO_TEST_CASE(who_does_without_tls_is_not_held_by_dane) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  tls.security_level = "dane-only";
  wish = mail::RequireTls::no;
  BOOST_TEST(policy() == "mx.example may");
  usual();
  BOOST_TEST(policy() == "mx.example may");
}

BOOST_AUTO_TEST_CASE(without_secure_records_dane_is_may_and_dane_only_waits) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example may");
  tls.security_level = "dane-only";
  BOOST_TEST(policy() ==
             "deferred 4.7.4 TLS is required at level dane-only (smtp_tls_security_level), but host "
             "mx.example has no secure TLSA records");
}

BOOST_AUTO_TEST_CASE(insecure_records_are_as_none) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "mx.example"});
  BOOST_TEST(policy() == "mx.example may");
}

BOOST_AUTO_TEST_CASE(a_host_with_insecure_addresses_is_not_asked_for_records) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example may");
  BOOST_TEST(server.asked("_25._tcp.mx.example") == 0U);
}

BOOST_AUTO_TEST_CASE(one_insecure_family_makes_a_host_insecure) {
  usual();
  server.on("mx.example", [](const DnsServer::Query& q) {
    DnsServer::Reply reply;
    reply.authenticated = q.type == 1;
    reply.answers.push_back(
        {"mx.example", q.type, 300, q.type == 1 ? DnsServer::a_data("198.51.100.1") : std::string(16, 1)});
    return std::vector{DnsServer::wire(q, reply)};
  });
  BOOST_TEST(policy() == "mx.example may; mx.example may");
}

BOOST_AUTO_TEST_CASE(a_look_up_that_fails_makes_the_host_unusable_at_both_levels) {
  usual();
  server.mx("d.example", 20, "second.example");
  server.a("second.example", "198.51.100.2");
  secure({"second.example", "_25._tcp.second.example"});
  server.rcode("_25._tcp.mx.example", 2);  // a validating resolver's answer to a bogus record
  BOOST_TEST(policy() == "second.example may");
  server.rcode("_25._tcp.second.example", 2);
  for (const char* level : {"dane", "dane-only"}) {
    tls.security_level = level;
    BOOST_TEST(policy().starts_with("deferred 4.7.4 TLSA look-up error for "));
  }
}

BOOST_AUTO_TEST_CASE(records_that_smtp_cannot_use_demand_encryption_alone) {
  usual();
  server.mx("e.example", 10, "other.example");
  server.a("other.example", "198.51.100.2");
  secure({"e.example", "other.example", "_25._tcp.other.example"});
  for (const std::string& text : {"0 0 1 " + kHash, "1 1 1 " + kHash, "3 2 1 " + kHash, "3 1 3 " + kHash,
                                  "3 1 1 " + kHash.substr(2), std::string("3 1 2 aa")})
    server.tlsa("_25._tcp.other.example", text);
  BOOST_TEST(policy("e.example") == "other.example encrypt");
  tls.security_level = "dane-only";
  BOOST_TEST(policy("e.example").ends_with("the TLSA records of host other.example cannot be used"));
  tls.security_level = "dane";
  server.tlsa("_25._tcp.other.example", "2 0 1 " + kHash);
  BOOST_TEST(policy("e.example") == "other.example dane {2 0 1} [other.example e.example]");
}

BOOST_AUTO_TEST_CASE(insecure_mx_records_count_as_the_setting_says) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"mx.example", "_25._tcp.mx.example"});
  // Then the domain's name proves nothing.
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example]");
  tls.insecure_mx = "encrypt";
  BOOST_TEST(policy() == "mx.example encrypt");
  tls.insecure_mx = "may";
  BOOST_TEST(policy() == "mx.example may");
  tls.insecure_mx = "dane";
  tls.security_level = "dane-only";
  BOOST_TEST(policy().ends_with("the MX records of d.example are not secure in DNS"));
  tls.insecure_mx = "none";
  BOOST_TEST(!TlsPolicies::open(tls));
}

BOOST_AUTO_TEST_CASE(records_of_hosts_with_insecure_addresses_count_if_asked_for) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example may");
  tls.force_tlsa = true;  // smtp_tls_force_insecure_host_tlsa_lookup
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
}

BOOST_AUTO_TEST_CASE(insecure_records_never_count) {
  usual();
  server.tlsa("_25._tcp.other.example", kEndEntity);
  server.mx("e.example", 10, "other.example");
  server.a("other.example", "198.51.100.2");
  secure({"e.example"});
  tls.force_tlsa = true;
  BOOST_TEST(policy("e.example") == "other.example may");
}

BOOST_AUTO_TEST_CASE(a_domain_without_mx_records_is_its_own_host) {
  server.a("d.example", "198.51.100.1");
  server.tlsa("_25._tcp.d.example", kEndEntity);
  secure({"d.example", "_25._tcp.d.example"});
  tls.security_level = "dane-only";
  BOOST_TEST(policy() == "d.example dane {3 1 1} [d.example]");
}

BOOST_AUTO_TEST_CASE(records_are_looked_for_where_aliases_lead_and_then_at_the_hosts_own_name) {
  server.mx("d.example", 10, "mx.example");
  server.cname("mx.example", "real.example");
  server.a("real.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", "3 0 1 " + kHash);
  secure({"d.example", "mx.example", "real.example", "_25._tcp.mx.example", "_25._tcp.real.example"});
  BOOST_TEST(policy() == "mx.example dane {3 0 1} [mx.example d.example]");
  server.tlsa("_25._tcp.real.example", kEndEntity);
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [real.example d.example]");
}

BOOST_AUTO_TEST_CASE(an_alias_out_of_a_secure_zone_keeps_the_records_of_the_name_before_it) {
  server.mx("d.example", 10, "mx.example");
  server.cname("mx.example", "hosted.example");  // leads to an insecure zone
  server.a("hosted.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  server.tlsa("_25._tcp.hosted.example", "3 0 1 " + kHash);
  secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
}

BOOST_AUTO_TEST_CASE(an_alias_in_an_insecure_zone_proves_nothing) {
  server.mx("d.example", 10, "mx.example");
  server.cname("mx.example", "hosted.example");
  server.a("hosted.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "hosted.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example may");
}

BOOST_AUTO_TEST_CASE(an_alias_that_cannot_be_looked_at_makes_the_host_unusable) {
  // The addresses are insecure, and it is unknown whether the alias itself is secure and has records.
  server.mx("d.example", 10, "mx.example");
  server.cname("mx.example", "hosted.example");
  server.a("hosted.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  server.on("mx.example", [](const DnsServer::Query& q) {
    DnsServer::Reply reply;
    if (q.type == 5) {
      reply.rcode = 2;
    } else {
      reply.answers.push_back({"mx.example", 5, 300, DnsServer::wire_name("hosted.example")});
      if (q.type == 1) reply.answers.push_back({"hosted.example", 1, 300, DnsServer::a_data("198.51.100.1")});
    }
    return std::vector{DnsServer::wire(q, reply)};
  });
  BOOST_TEST(policy().starts_with("deferred 4.7.4 TLSA look-up error for mx.example:25"));
}

BOOST_AUTO_TEST_CASE(a_look_up_without_an_answer_makes_the_host_unusable) {
  usual();
  patience = milliseconds(100);
  server.on("_25._tcp.mx.example", [](const DnsServer::Query&) { return std::vector<std::string>(); });
  BOOST_TEST(policy().starts_with("deferred 4.7.4 TLSA look-up error for mx.example:25"));
}

BOOST_AUTO_TEST_CASE(mx_records_that_cannot_be_had_make_mail_wait) {
  usual();
  server.rcode("d.example", 2);  // bogus, or the server has failed
  for (const char* level : {"dane", "dane-only"}) {
    tls.security_level = level;
    BOOST_TEST(policy().starts_with("deferred 4.4.3 Host or domain name not found"));
  }
}

BOOST_AUTO_TEST_CASE(addresses_that_cannot_be_had_make_the_host_unusable) {
  usual();
  server.mx("d.example", 20, "second.example");
  server.a("second.example", "198.51.100.2");
  server.rcode("mx.example", 2);
  BOOST_TEST(policy() == "second.example may");
  server.rcode("second.example", 2);
  BOOST_TEST(policy().starts_with("deferred 4.4.3 Host or domain name not found"));
}

BOOST_AUTO_TEST_CASE(a_domain_that_takes_no_mail_is_told_so_at_every_level) {
  server.mx("d.example", 0, "");
  secure({"d.example"});
  for (const char* level : {"dane", "dane-only"}) {
    tls.security_level = level;
    BOOST_TEST(policy().starts_with("failed 5.1.10 "));
  }
}

BOOST_AUTO_TEST_CASE(each_host_of_a_domain_has_its_own_level) {
  usual();
  server.mx("d.example", 10, "insecure.example");
  server.a("insecure.example", "198.51.100.2");
  server.mx("d.example", 10, "odd.example");
  server.a("odd.example", "198.51.100.3");
  server.tlsa("_25._tcp.odd.example", "1 1 1 " + kHash);
  secure({"odd.example", "_25._tcp.odd.example"});
  BOOST_TEST(policy() == "insecure.example may; mx.example dane {3 1 1} [mx.example d.example]; odd.example encrypt");
}

BOOST_AUTO_TEST_CASE(of_mixed_records_the_usable_ones_count) {
  usual();
  for (const std::string& text : {"0 0 1 " + kHash, "1 1 1 " + kHash, std::string("3 1 2 aa")})
    server.tlsa("_25._tcp.mx.example", text);
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
}

BOOST_AUTO_TEST_CASE(a_host_named_by_the_administrator_may_be_an_alias) {
  // RFC 7672 section 3.2.2: no MX records led here, so the domain's own name counts beside that of the records.
  server.cname("d.example", "real.example");
  server.a("real.example", "198.51.100.1");
  server.tlsa("_25._tcp.real.example", "2 0 1 " + kHash);
  secure({"d.example", "real.example", "_25._tcp.real.example"});
  const auto smtp = [](const std::string& hop) {
    Decision decision;
    decision.policy.level = ipc::TlsLevel::dane;
    const NextHop next = parse_nexthops(hop, false, 25).value().front();
    HostFacts facts;
    facts.canonical = "real.example";
    facts.secure = true;
    TlsaSet set;
    set.kind = TlsaSet::Kind::usable;
    set.records = {"2 0 1 " + kHash};
    set.base = "real.example";
    apply_dane(decision, next, next.host, facts, set, ipc::TlsLevel::dane);
    return join(decision.policy.match, " ") + " SNI " + decision.policy.servername;
  };
  BOOST_TEST(smtp("[d.example]") == "real.example d.example SNI real.example");
  // The same through a route, for a domain without MX records.
  BOOST_TEST(policy() == "d.example dane {2 0 1} [real.example d.example]");
}

BOOST_AUTO_TEST_CASE(the_domain_that_a_domain_is_an_alias_of_counts_as_a_name_too) {
  server.cname("d.example", "e.example");
  server.mx("e.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.tlsa("_25._tcp.mx.example", kEndEntity);
  secure({"d.example", "e.example", "mx.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example e.example]");
}

BOOST_AUTO_TEST_CASE(the_records_may_be_an_alias_and_are_of_the_host_all_the_same) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.cname("_25._tcp.mx.example", "tlsa.example");
  server.tlsa("tlsa.example", kEndEntity);
  secure({"d.example", "mx.example", "_25._tcp.mx.example", "tlsa.example"});
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
}

BOOST_AUTO_TEST_CASE(records_that_an_alias_brings_from_an_insecure_zone_are_as_none) {
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.1");
  server.cname("_25._tcp.mx.example", "tlsa.example");
  server.tlsa("tlsa.example", kEndEntity);
  secure({"d.example", "mx.example", "_25._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example may");
}

BOOST_AUTO_TEST_CASE(records_are_of_the_port_that_is_connected_to) {
  usual();
  server.tlsa("_587._tcp.mx.example", "3 0 1 " + kHash);
  secure({"_587._tcp.mx.example"});
  BOOST_TEST(policy() == "mx.example dane {3 1 1} [mx.example d.example]");
  BOOST_TEST(server.asked("_587._tcp.mx.example") == 0U);
}

BOOST_AUTO_TEST_CASE(the_resolvers_word_counts_only_where_the_setting_says_so) {
  usual();
  tls.dnssec = false;
  BOOST_TEST(policy().ends_with("level dane needs smtp_dns_support_level = dnssec"));
}

BOOST_AUTO_TEST_CASE(records_are_read_strictly_and_bounded) {
  net::DnsAnswer answer;
  const auto add = [&](const std::string& text) {
    net::DnsRecord record;
    record.data = text;
    answer.records.push_back(record);
  };
  for (const std::string& text : {std::string(), std::string("3 1 1"), "3 1 1 " + kHash + " x",
                                  "3 1 0 " + std::string(40'000, 'a'), std::string("3 1 0 "),
                                  // complete, but neither key nor certificate
                                  std::string("3 1 0 00"), "3 0 0 " + kHash, std::string("2 0 0 3000"),
                                  "3 1 1 " + std::string(64, 'x'), "256 1 1 " + kHash})
    add(text);
  BOOST_TEST((read_tlsa(answer).kind == TlsaSet::Kind::unusable));
  for (int i = 0; i < 1000; ++i) add(kEndEntity);
  BOOST_TEST(read_tlsa(answer).records.size() == 100U);
}

BOOST_AUTO_TEST_SUITE_END()
