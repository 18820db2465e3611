#include "trivial-rewrite/transports.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::rewrite;

BOOST_AUTO_TEST_SUITE(transports)

namespace {

/// The transport of that name under these settings.
Transport transport(const std::string& main_cf, const std::string& name) {
  config::Surroundings surroundings;
  surroundings.hostname = "mx.example.org";
  const auto config = config::Config::parse({.directory = "/",
                                             .main_cf = main_cf,
                                             .master_cf = "smtp unix - - n - - smtp\nlmtp unix - - n - - lmtp\n",
                                             .overrides = {}},
                                            surroundings);
  auto transports = read_transports(config, {});
  BOOST_TEST_REQUIRE(transports.has_value());
  return transports->at(name);
}
HostOptions hosts(const std::string& main_cf, const std::string& name) { return transport(main_cf, name).hosts; }

}  // namespace

BOOST_AUTO_TEST_CASE(lmtp_has_its_own_settings_of_hosts) {
  const std::string smtp =
      "smtp_address_preference = ipv4\nsmtp_balance_inet_protocols = no\n"
      "smtp_randomize_addresses = no\nsmtp_mx_address_limit = 7\n"
      "smtp_fallback_relay = relay.example\nsmtp_host_lookup = native\n";
  const HostOptions usual = hosts(smtp, "lmtp");
  BOOST_TEST((usual.preference == Family::any));
  BOOST_TEST(usual.balance);
  BOOST_TEST(usual.randomize);
  BOOST_TEST(usual.address_limit == 5u);
  BOOST_TEST(usual.fallback_relay == "");
  BOOST_TEST((usual.lookup == net::HostLookup::dns));
  const HostOptions own = hosts(
      "lmtp_address_preference = ipv6\nlmtp_balance_inet_protocols = no\n"
      "lmtp_randomize_addresses = no\nlmtp_mx_address_limit = 3\n"
      "lmtp_fallback_relay = box.example:2424\nlmtp_host_lookup = native\n",
      "lmtp");
  BOOST_TEST((own.preference == Family::ipv6));
  BOOST_TEST(!own.balance);
  BOOST_TEST(!own.randomize);
  BOOST_TEST(own.address_limit == 3u);
  BOOST_TEST(own.fallback_relay == "box.example:2424");
  BOOST_TEST((own.lookup == net::HostLookup::native));
}

BOOST_AUTO_TEST_CASE(srv_services_are_those_of_smtp) {
  const std::string settings =
      "use_srv_lookup = Submission, smtp\nallow_srv_lookup_fallback = yes\n"
      "ignore_srv_lookup_error = yes\n";
  const HostOptions smtp = hosts(settings, "smtp");
  BOOST_TEST(smtp.srv_services == std::vector<std::string>({"submission", "smtp"}), boost::test_tools::per_element());
  BOOST_TEST(smtp.srv_fallback);
  BOOST_TEST(smtp.ignore_srv_error);
  BOOST_TEST(smtp.default_service == "smtp");
  BOOST_TEST(hosts(settings, "lmtp").srv_services.empty());
  BOOST_TEST(!hosts("", "smtp").srv_fallback);
  BOOST_TEST(!hosts("", "smtp").ignore_srv_error);
}

BOOST_AUTO_TEST_CASE(filters_and_resolver_options_are_of_each_program) {
  for (const std::string name : {"smtp", "lmtp"}) {
    const HostOptions plain = hosts("", name);
    BOOST_TEST(!plain.filter);
    BOOST_TEST(!plain.defnames);
    BOOST_TEST(!plain.dnsrch);
    BOOST_TEST(!plain.cname_names_host);
    BOOST_TEST(static_cast<bool>(hosts(name + "_dns_reply_filter = static:ignore\n", name).filter));
    BOOST_TEST(hosts(name + "_dns_resolver_options = res_defnames\n", name).defnames);
    BOOST_TEST(hosts(name + "_dns_resolver_options = res_dnsrch\n", name).dnsrch);
    BOOST_TEST(hosts(name + "_cname_overrides_servername = yes\n", name).cname_names_host);
  }
  // By their whole names: smtp_dns_reply_filter, lmtp_dns_reply_filter, smtp_dns_resolver_options,
  // lmtp_dns_resolver_options, smtp_cname_overrides_servername, lmtp_cname_overrides_servername.
  BOOST_TEST(!hosts("smtp_dns_reply_filter = static:ignore\n", "lmtp").filter);
}

BOOST_AUTO_TEST_CASE(best_mx_transport_is_of_smtp) {
  BOOST_TEST(!transport("", "smtp").best_mx.has_value());
  const auto best = transport("best_mx_transport = lmtp:box.example\n", "smtp").best_mx;
  BOOST_TEST_REQUIRE(best.has_value());
  BOOST_TEST(best->transport == "lmtp");
  BOOST_TEST(best->nexthop == "box.example");
}

BOOST_AUTO_TEST_CASE(what_tls_looks_up_is_said_for_each_protocol) {
  for (const std::string name : {"smtp", "lmtp"}) {
    BOOST_TEST(!transport("", name).tls.force_tlsa());
    BOOST_TEST(transport(name + "_tls_force_insecure_host_tlsa_lookup = yes\n", name).tls.force_tlsa());
    const auto problem_of = [&](const std::string& setting) {
      const std::string table = name +
                                "_tls_policy_maps = inline:{ { d.example = secure match=a.example policy_type=sts "
                                "mx_host_pattern=a.example } }\n";
      NextHop hop;
      hop.text = hop.host = "d.example";
      const std::vector<std::string> hosts = {"b.example"};
      return transport(table + setting, name).tls.decide(hop, hosts).front().problem;
    };
    BOOST_TEST(problem_of("").starts_with("host b.example is not one that"));
    BOOST_TEST(problem_of(name + "_tls_enforce_sts_mx_patterns = no\n") == "");
  }
  // By their whole names: smtp_tls_force_insecure_host_tlsa_lookup, lmtp_tls_force_insecure_host_tlsa_lookup,
  // smtp_tls_enforce_sts_mx_patterns, lmtp_tls_enforce_sts_mx_patterns.
  BOOST_TEST(!transport("smtp_tls_force_insecure_host_tlsa_lookup = yes\n", "lmtp").tls.force_tlsa());
}

BOOST_AUTO_TEST_SUITE_END()
