#include "trivial-rewrite/hosts.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/testing/dns_server.h"
#include "lib/testing/scratch.h"
#include "trivial-rewrite/router.h"

using namespace pen;
using namespace pen::rewrite;
using async::testing::run;
using pen::testing::DnsServer;

namespace {

std::string shown(const std::vector<ipc::route::Level>& levels) {
  std::string out;
  for (const auto& level : levels) {
    if (!out.empty()) out += " | ";
    std::vector<std::string> sorted;
    for (const auto& d : level.destinations) sorted.push_back(d.shown());
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) out += (i == 0 ? "" : " ") + sorted[i];
  }
  return out;
}

struct Net {
  DnsServer server;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  map::Asker tables{loop};
  net::ResolverOptions resolver_options;
  Random random{4711};
  HostOptions options;
  pen::testing::ScratchDir scratch;
  std::unique_ptr<net::Resolver> dns;
  Net() {
    resolver_options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
    resolver_options.timeout = seconds(30);  // longer than a busy machine takes for an answer
    resolver_options.tries = 1;
    options.own_addresses = {"192.0.2.25"};
  }
  Found found(const std::string& nexthop) {
    dns = std::make_unique<net::Resolver>(loop, pool, resolver_options);
    HostFinder finder(loop, tables, *dns, random);
    return run(loop, finder.find(nexthop, options));
  }
  void srv(const std::string& name, unsigned priority, unsigned weight, unsigned port, const std::string& target) {
    std::string data;
    for (const unsigned number : {priority, weight, port}) {
      data += static_cast<char>(number >> 8);
      data += static_cast<char>(number & 0xff);
    }
    server.add({name, 33, 300, data + DnsServer::wire_name(target)});
  }
  void filter(const std::string& table) {
    auto opened = resolve::DnsFilter::open("smtp_dns_reply_filter", table, {});
    BOOST_TEST_REQUIRE(opened.has_value());
    options.filter = std::make_shared<const resolve::DnsFilter>(*std::move(opened));
  }
  std::string find(const std::string& nexthop) {
    const Found f = found(nexthop);
    if (!f.levels.empty()) return shown(f.levels);
    return (f.status.action == mail::Action::failed ? "failed " : "deferred ") + f.status.dsn + " " + f.status.text;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hosts, Net)

BOOST_AUTO_TEST_CASE(mx_hosts_come_in_levels_of_preference) {
  server.mx("d.example", 20, "b.example");
  server.mx("d.example", 10, "a1.example");
  server.mx("d.example", 10, "a2.example");
  server.a("a1.example", "198.51.100.1");
  server.a("a2.example", "198.51.100.2");
  server.aaaa("a2.example", "2001:db8::2");
  server.a("b.example", "198.51.100.3");
  BOOST_TEST(find("d.example") ==
             "a1.example[198.51.100.1]:25 a2.example[198.51.100.2]:25 a2.example[2001:db8::2]:25 | "
             "b.example[198.51.100.3]:25");
}
BOOST_AUTO_TEST_CASE(equal_preferences_are_shuffled) {
  server.mx("d.example", 10, "a1.example");
  server.mx("d.example", 10, "a2.example");
  server.a("a1.example", "198.51.100.1");
  server.a("a2.example", "198.51.100.2");
  int first = 0;
  for (int i = 0; i < 60; ++i) first += found("d.example").levels[0].destinations[0].host == "a1.example" ? 1 : 0;
  BOOST_TEST(first > 10);
  BOOST_TEST(first < 50);
}
BOOST_AUTO_TEST_CASE(without_mx_the_domain_itself_is_the_host_also_behind_an_alias) {
  server.a("d.example", "198.51.100.1");
  server.cname("alias.example", "d.example");
  BOOST_TEST(find("d.example") == "d.example[198.51.100.1]:25");
  BOOST_TEST(find("alias.example") == "alias.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(the_alias_of_a_domain_with_mx_leads_to_these) {
  server.cname("alias.example", "d.example");
  server.mx("d.example", 10, "a.example");
  server.a("a.example", "198.51.100.1");
  BOOST_TEST(find("alias.example") == "a.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(mx_hosts_without_address_do_not_fall_back_to_the_domain) {
  server.mx("d.example", 10, "gone.example");
  server.a("d.example", "198.51.100.1");
  BOOST_TEST(find("d.example")
                 .starts_with("failed 5.4.4 Host or domain name not found. Name service error for "
                              "name=gone.example type="));
  options.defer_if_no_mx_address = true;
  BOOST_TEST(find("d.example").starts_with("deferred 4.4.4"));
}
BOOST_AUTO_TEST_CASE(addresses_at_which_no_host_can_be_are_left_out) {
  server.mx("d.example", 10, "a.example");
  server.a("a.example", "198.51.100.1");
  server.a("a.example", "0.0.0.0");
  server.a("a.example", "224.0.0.1");
  for (const char* none : {"fe80::1", "::", "ff02::1"}) server.aaaa("a.example", none);
  server.aaaa("a.example", "2001:db8::1");
  BOOST_TEST(find("d.example") == "a.example[198.51.100.1]:25 a.example[2001:db8::1]:25");
  server.mx("none.example", 10, "b.example");
  server.aaaa("b.example", "fe80::1");
  BOOST_TEST(find("none.example") == "deferred 4.4.4 host b.example has no address but fe80::1");
  server.mx("some.example", 10, "b.example");
  server.mx("some.example", 20, "a.example");
  BOOST_TEST(find("some.example").starts_with("a.example[198.51.100.1]:25"));
}
BOOST_AUTO_TEST_CASE(null_mx_refuses_mail_only_when_it_stands_alone) {
  server.mx("null.example", 0, "");
  server.a("null.example", "198.51.100.1");
  BOOST_TEST(find("null.example") == "failed 5.1.10 Domain null.example does not accept mail (nullMX)");
  server.mx("both.example", 0, "");
  server.mx("both.example", 10, "a.example");
  server.a("a.example", "198.51.100.1");
  BOOST_TEST(find("both.example") == "a.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(this_host_in_the_list_drops_itself_and_what_is_not_better) {
  server.mx("d.example", 10, "better.example");
  server.mx("d.example", 20, "me.example");
  server.mx("d.example", 20, "peer.example");
  server.mx("d.example", 30, "worse.example");
  server.a("better.example", "198.51.100.1");
  server.a("me.example", "192.0.2.25");
  server.a("peer.example", "198.51.100.2");
  server.a("worse.example", "198.51.100.3");
  BOOST_TEST(find("d.example") == "better.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(an_mx_host_on_the_loopback_is_this_one_whatever_its_number) {
  server.mx("d.example", 10, "odd.example");
  for (const char* address : {"127.0.0.2", "127.53.0.1"}) {
    server.a("odd.example", address);
    BOOST_TEST(find("d.example") == "failed 5.4.6 mail for d.example loops back to myself");
    BOOST_TEST(find("[odd.example]").ends_with(":25"));  // the administrator named it
  }
  server.mx("d.example", 5, "better.example");
  server.a("better.example", "198.51.100.1");
  BOOST_TEST(find("d.example") == "better.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(this_host_as_the_best_one_is_a_loop) {
  server.mx("d.example", 10, "me.example");
  server.mx("d.example", 20, "worse.example");
  server.a("me.example", "192.0.2.25");
  server.a("worse.example", "198.51.100.3");
  BOOST_TEST(find("d.example") == "failed 5.4.6 mail for d.example loops back to myself");
  BOOST_TEST(find("[me.example]") == "failed 5.4.6 mail for me.example loops back to myself");
  BOOST_TEST(find("[192.0.2.25]").starts_with("failed 5.4.6"));
  options.fallback_relay = "[worse.example]";
  BOOST_TEST(find("d.example").starts_with("failed 5.4.6"));
}
BOOST_AUTO_TEST_CASE(another_port_of_this_host_is_no_loop) {
  BOOST_TEST(find("[192.0.2.25]:10025") == "192.0.2.25[192.0.2.25]:10025");
  BOOST_TEST(find("[192.0.2.25]:25").starts_with("failed 5.4.6"));
  server.mx("d.example", 10, "me.example");
  server.a("me.example", "192.0.2.25");
  options.default_port = 2525;
  BOOST_TEST(find("d.example") == "me.example[192.0.2.25]:2525");
  options.own_ports = {25, 2525};
  BOOST_TEST(find("d.example").starts_with("failed 5.4.6"));
  BOOST_TEST(find("[192.0.2.25]:2525") == "192.0.2.25[192.0.2.25]:2525");
  options.lmtp = true;
  BOOST_TEST(find("inet:192.0.2.25:25") == "192.0.2.25[192.0.2.25]:25");
}
// SRV records (use_srv_lookup, allow_srv_lookup_fallback, ignore_srv_lookup_error).
BOOST_AUTO_TEST_CASE(srv_records_name_hosts_and_ports_for_the_chosen_services) {
  options.srv_services = {"submission"};
  srv("_submission._tcp.d.example", 20, 0, 2525, "later.example");
  srv("_submission._tcp.d.example", 10, 0, 1587, "first.example");
  server.mx("d.example", 10, "mx.example");
  server.a("first.example", "198.51.100.1");
  server.a("later.example", "198.51.100.2");
  server.a("mx.example", "198.51.100.3");
  server.a("d.example", "198.51.100.4");
  BOOST_TEST(find("d.example:submission") == "first.example[198.51.100.1]:1587 | later.example[198.51.100.2]:2525");
  BOOST_TEST(find("d.example:smtp") == "mx.example[198.51.100.3]:25");  // not among the services
  BOOST_TEST(find("d.example") == "mx.example[198.51.100.3]:25");
  BOOST_TEST(find("[d.example]:submission") == "d.example[198.51.100.4]:587");
  options.srv_services = {"smtp"};
  options.default_service = "smtp";
  srv("_smtp._tcp.d.example", 1, 1, 2526, "later.example");
  BOOST_TEST(find("d.example") == "later.example[198.51.100.2]:2526");
}
BOOST_AUTO_TEST_CASE(srv_weights_share_a_priority) {
  options.srv_services = {"submission"};
  srv("_submission._tcp.d.example", 10, 30, 587, "heavy.example");
  srv("_submission._tcp.d.example", 10, 10, 587, "light.example");
  server.a("heavy.example", "198.51.100.1");
  server.a("light.example", "198.51.100.2");
  int heavy = 0;
  for (int i = 0; i < 200; ++i)
    heavy += found("d.example:submission").levels.at(0).destinations.at(0).host == "heavy.example" ? 1 : 0;
  BOOST_TEST(heavy > 120);  // 150 of 200 are due
  BOOST_TEST(heavy < 180);
}
BOOST_AUTO_TEST_CASE(without_srv_records_only_the_settings_permit_other_ways) {
  options.srv_services = {"submission"};
  server.mx("d.example", 10, "mx.example");
  server.a("mx.example", "198.51.100.3");
  const std::string name = "name=_submission._tcp.d.example type=SRV";
  BOOST_TEST(find("d.example:submission")
                 .starts_with("failed 5.4.4 Host or domain name not found. Name service error for " + name));
  options.ignore_srv_error = true;  // a missing record is no error
  BOOST_TEST(find("d.example:submission").starts_with("failed 5.4.4"));
  options.srv_fallback = true;
  BOOST_TEST(find("d.example:submission") == "mx.example[198.51.100.3]:587");
  options.srv_fallback = options.ignore_srv_error = false;
  server.rcode("_submission._tcp.d.example", 2);
  BOOST_TEST(find("d.example:submission").starts_with("deferred 4.4.3"));
  options.ignore_srv_error = true;
  BOOST_TEST(find("d.example:submission") == "mx.example[198.51.100.3]:587");
}
BOOST_AUTO_TEST_CASE(a_null_srv_record_says_that_there_is_no_such_service) {
  options.srv_services = {"submission"};
  options.srv_fallback = true;
  srv("_submission._tcp.d.example", 0, 0, 0, "");
  BOOST_TEST(find("d.example:submission") ==
             "failed 5.1.10 Service _submission._tcp.d.example is not available (null SRV)");
}
BOOST_AUTO_TEST_CASE(smtp_dns_reply_filter_leaves_records_out) {
  server.mx("d.example", 10, "a.example");
  server.mx("d.example", 20, "b.example");
  server.a("a.example", "198.51.100.1");
  server.aaaa("a.example", "2001:db8::1");
  server.a("b.example", "198.51.100.2");
  filter("regexp:" + scratch.write("f1", "/^a.example. [0-9]+ IN AAAA / IGNORE\n"));
  BOOST_TEST(find("d.example") == "a.example[198.51.100.1]:25 | b.example[198.51.100.2]:25");
  filter("regexp:" + scratch.write("f2", "/ IN MX 10 a.example.$/ IGNORE\n"));
  BOOST_TEST(find("d.example") == "b.example[198.51.100.2]:25");
  filter("regexp:" + scratch.write("f3", "/ IN MX / IGNORE\n"));
  BOOST_TEST(find("d.example").starts_with("deferred 4.4.3"));  // never to the domain's own address
}
BOOST_AUTO_TEST_CASE(smtp_dns_resolver_options_complete_names) {
  options.search = {"first.example", "second.example"};
  server.a("mail.first.example", "198.51.100.1");
  server.a("mail.second.example", "198.51.100.2");
  server.a("only.second.example", "198.51.100.3");
  server.a("a.b.second.example", "198.51.100.4");
  BOOST_TEST(find("[mail]").starts_with("failed 5.4.4"));
  options.defnames = true;
  BOOST_TEST(find("[mail]") == "mail[198.51.100.1]:25");
  BOOST_TEST(find("[only]").starts_with("failed 5.4.4"));
  BOOST_TEST(find("[a.b]").starts_with("failed 5.4.4"));
  options.dnsrch = true;
  BOOST_TEST(find("[only]") == "only[198.51.100.3]:25");
  BOOST_TEST(find("[a.b]") == "a.b[198.51.100.4]:25");
}
BOOST_AUTO_TEST_CASE(smtp_cname_overrides_servername_names_the_host_behind_the_alias) {
  server.cname("alias.example", "real.example");
  server.a("real.example", "198.51.100.1");
  server.mx("d.example", 10, "alias.example");
  BOOST_TEST(find("d.example") == "alias.example[198.51.100.1]:25");
  options.cname_names_host = true;
  BOOST_TEST(find("d.example") == "real.example[198.51.100.1]:25");
  BOOST_TEST(find("[alias.example]") == "real.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(lmtp_fallback_relay_is_tried_last) {
  options.lmtp = true;
  server.a("box.example", "198.51.100.1");
  server.a("relay.example", "198.51.100.2");
  options.fallback_relay = "relay.example:2424";
  BOOST_TEST(find("inet:box.example:24") == "box.example[198.51.100.1]:24 | relay.example[198.51.100.2]:2424");
  BOOST_TEST(find("inet:gone.example:24") == "relay.example[198.51.100.2]:2424");
}
BOOST_AUTO_TEST_CASE(server_failure_is_temporary_and_a_missing_name_permanent) {
  server.rcode("fail.example", 2);
  BOOST_TEST(find("fail.example")
                 .starts_with("deferred 4.4.3 Host or domain name not found. Name service error for "
                              "name=fail.example type=MX: "));
  BOOST_TEST(find("none.example")
                 .starts_with("failed 5.4.4 Host or domain name not found. Name service error for "
                              "name=none.example type=MX: Host not found"));
  resolver_options.timeout = milliseconds(100);
  server.on("silent.example", [](const DnsServer::Query&) { return std::vector<std::string>{}; });
  BOOST_TEST(find("silent.example").starts_with("deferred 4.4.3"));
  resolver_options.timeout = seconds(30);
  server.rcode("mxfail.example", 2);
  server.on("mxfail.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    if (q.type == 15) r.rcode = 2;
    if (q.type == 1) r.answers.push_back({"mxfail.example", 1, 300, DnsServer::a_data("198.51.100.1")});
    return std::vector{DnsServer::wire(q, r)};
  });
  BOOST_TEST(find("mxfail.example").starts_with("deferred 4.4.3"));
  options.ignore_mx_error = true;
  BOOST_TEST(find("mxfail.example") == "mxfail.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(one_unresolvable_mx_does_not_hide_the_others_but_trouble_stays_temporary) {
  server.mx("d.example", 10, "gone.example");
  server.mx("d.example", 20, "a.example");
  server.a("a.example", "198.51.100.1");
  BOOST_TEST(find("d.example") == "a.example[198.51.100.1]:25");
  server.mx("e.example", 10, "gone.example");
  server.mx("e.example", 20, "fail.example");
  server.rcode("fail.example", 2);
  BOOST_TEST(find("e.example").starts_with("deferred 4.4.3"));
}
BOOST_AUTO_TEST_CASE(trouble_with_a_host_better_than_this_one_is_not_a_loop) {
  server.mx("d.example", 10, "fail.example");
  server.mx("d.example", 20, "me.example");
  server.a("me.example", "192.0.2.25");
  server.rcode("fail.example", 2);
  BOOST_TEST(find("d.example").starts_with("deferred 4.4.3"));
}
BOOST_AUTO_TEST_CASE(address_families_follow_the_settings) {
  server.a("h.example", "198.51.100.1");
  server.aaaa("h.example", "2001:db8::1");
  options.preference = Family::ipv6;
  BOOST_TEST(find("[h.example]") == "h.example[2001:db8::1]:25 | h.example[198.51.100.1]:25");
  options.preference = Family::ipv4;
  BOOST_TEST(find("[h.example]") == "h.example[198.51.100.1]:25 | h.example[2001:db8::1]:25");
  options.ipv6 = false;
  BOOST_TEST(find("[h.example]") == "h.example[198.51.100.1]:25");
}
BOOST_AUTO_TEST_CASE(the_address_limit_keeps_both_families) {
  for (int i = 1; i <= 9; ++i) server.a("h.example", "198.51.100." + std::to_string(i));
  server.aaaa("h.example", "2001:db8::1");
  options.preference = Family::ipv4;
  options.randomize = false;
  options.address_limit = 2;
  BOOST_TEST(find("[h.example]") == "h.example[198.51.100.1]:25 | h.example[2001:db8::1]:25");
  options.balance = false;
  BOOST_TEST(find("[h.example]") == "h.example[198.51.100.1]:25 h.example[198.51.100.2]:25");
}
BOOST_AUTO_TEST_CASE(a_thousand_mx_hosts_do_not_cause_a_thousand_questions) {
  server.on("flood.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.truncated = !q.tcp;
    for (int i = 0; q.tcp && i < 900; ++i) {
      r.answers.push_back({"flood.example", 15, 300, DnsServer::mx_data(10, "m" + std::to_string(i) + ".example")});
    }
    return std::vector{DnsServer::wire(q, r)};
  });
  BOOST_TEST(find("flood.example").starts_with("failed 5.4.4"));
  BOOST_TEST(server.asked() < 120U);
}
BOOST_AUTO_TEST_CASE(next_hops_in_a_list_and_fallback_relays_come_as_later_levels) {
  server.a("one.example", "198.51.100.1");
  server.a("two.example", "198.51.100.2");
  server.a("back.example", "198.51.100.3");
  options.fallback_relay = "[back.example]:587";
  BOOST_TEST(find("[one.example], [two.example]:26") ==
             "one.example[198.51.100.1]:25 | two.example[198.51.100.2]:26 | "
             "back.example[198.51.100.3]:587");
  BOOST_TEST(find("none.example") == "back.example[198.51.100.3]:587");
  server.mx("null.example", 0, "");
  BOOST_TEST(find("null.example").starts_with("failed 5.1.10"));
}
BOOST_AUTO_TEST_CASE(lmtp_next_hops_are_sockets_or_hosts_and_never_mx) {
  options.lmtp = true;
  options.default_port = 24;
  BOOST_TEST(find("unix:private/dovecot-lmtp") == "private/dovecot-lmtp[private/dovecot-lmtp]");
  server.mx("h.example", 10, "other.example");
  server.a("h.example", "198.51.100.1");
  BOOST_TEST(find("inet:h.example") == "h.example[198.51.100.1]:24");
  BOOST_TEST(find("h.example:2424") == "h.example[198.51.100.1]:2424");
}
BOOST_AUTO_TEST_CASE(the_answer_holds_as_long_as_the_shortest_ttl) {
  server.mx("d.example", 10, "a.example", 500);
  server.a("a.example", "198.51.100.1", 37);
  BOOST_TEST(found("d.example").ttl.count() <= 37);
  BOOST_TEST(found("d.example").ttl.count() > 20);
}
BOOST_AUTO_TEST_CASE(next_hops_that_cannot_be_read_are_deferred) {
  for (const char* bad : {"[a", "[a]x", "a:", "[a]:", "a:99999", "a:no-such-service", "[]", "", "::1"}) {
    BOOST_TEST(find(bad).starts_with("deferred 4.3.5"), bad);
  }
}
BOOST_AUTO_TEST_CASE(ports_may_be_service_names_and_ipv6_needs_brackets) {
  BOOST_TEST(parse_nexthops("[::1]:smtp", false, 99)->front().port == 25);
  BOOST_TEST(parse_nexthops("[IPv6:::1]", false, 99)->front().host == "::1");
  BOOST_TEST(parse_nexthops("h.example:587", false, 25)->front().mx);
  BOOST_TEST(!parse_nexthops("[h.example]", false, 25)->front().mx);
}

BOOST_AUTO_TEST_SUITE_END()

namespace {
struct Routes : Net {
  resolve::Options settings;
  std::optional<resolve::Options> probe_settings;  // of address verification; none: as mail
  bool verification = false;
  std::map<std::string, Transport> transports;
  Routes() {
    settings.myorigin = settings.myhostname = "mx.example.org";
    settings.mydestination = "example.org";
    settings.local_transport = "local:mx.example.org";
    settings.recipient_delimiter = "+";
    transports["smtp"].program = Transport::Program::smtp;
    transports["lmtp"].program = Transport::Program::lmtp;
    transports["lmtp"].hosts.lmtp = true;
    transports["local"];
  }
  std::string route(const std::string& recipient, bool flushed = false) {
    auto opened = resolve::Resolve::open(settings);
    BOOST_REQUIRE(opened.has_value());
    dns = std::make_unique<net::Resolver>(loop, pool, resolver_options);
    Router router(
        loop, tables, *dns, *opened,
        [this](const std::string& name) {
          const auto t = transports.find(name);
          return t == transports.end() ? nullptr : &t->second;
        },
        1);
    if (probe_settings) {
      auto for_probes = resolve::Resolve::open(*probe_settings);
      BOOST_REQUIRE(for_probes.has_value());
      router.route_probes_by(*for_probes);
    }
    const Answer a =
        run(loop,
            router.route(
                {.sender = "s@example.org", .recipient = recipient, .flushed = flushed, .verification = verification}));
    if (const auto* u = std::get_if<ipc::route::Unroutable>(&a)) {
      return (u->status.action == mail::Action::failed ? "failed " : "deferred ") + u->status.dsn + " " +
             u->status.text;
    }
    const auto& r = std::get<ipc::route::Resolved>(a);
    return r.transport + ":" + r.nexthop + " <" + r.recipient + "> " + shown(r.levels) + " " +
           std::to_string(r.valid_for.count());
  }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(routes, Routes)

BOOST_AUTO_TEST_CASE(local_mail_has_one_destination) {
  BOOST_TEST(route("jo@Example.org") == "local:mx.example.org <jo@Example.org> local 3600");
}
BOOST_AUTO_TEST_CASE(probes_of_address_verification_may_have_routes_of_their_own) {
  verification = true;
  BOOST_TEST(route("jo@example.org").starts_with("local:mx.example.org "));
  probe_settings = settings;
  probe_settings->local_transport = "lmtp:[192.0.2.1]";
  BOOST_TEST(route("jo@example.org").starts_with("lmtp:[192.0.2.1] "));
  verification = false;
  BOOST_TEST(route("jo@example.org").starts_with("local:mx.example.org "));
}
BOOST_AUTO_TEST_CASE(remote_mail_has_hosts_and_a_bounded_validity) {
  server.a("far.example", "198.51.100.1", 1);
  BOOST_TEST(route("jo@far.example") == "smtp:far.example <jo@far.example> far.example[198.51.100.1]:25 5");
  BOOST_TEST(route("jo%far.example@example.org") == "smtp:far.example <jo@far.example> far.example[198.51.100.1]:25 5");
}
BOOST_AUTO_TEST_CASE(mail_for_a_deferred_transport_waits_before_a_host_can_be_missing) {
  transports["smtp"].deferred = true;
  BOOST_TEST(route("jo@nowhere.example") == "deferred 4.3.2 deferred transport");
  BOOST_TEST(route("jo@nowhere.example", true).starts_with("failed 5.4.4"));
  BOOST_TEST(route("jo@Example.org").starts_with("local:"));
}
BOOST_AUTO_TEST_CASE(best_mx_transport_takes_mail_whose_best_host_is_this_one) {
  transports["smtp"].hosts = options;
  server.mx("ours.example", 10, "me.example");
  server.a("me.example", "192.0.2.25");
  BOOST_TEST(route("jo@ours.example").starts_with("failed 5.4.6"));
  transports["smtp"].best_mx = resolve::parse_transport("local");
  BOOST_TEST(route("jo@ours.example") == "local:ours.example <jo@ours.example> local 3600");
  transports["smtp"].best_mx = resolve::parse_transport("lmtp:[192.0.2.1]:24");
  BOOST_TEST(route("jo@ours.example").starts_with("lmtp:[192.0.2.1]:24 <jo@ours.example> 192.0.2.1[192.0.2.1]:24"));
  transports["smtp"].best_mx = resolve::parse_transport("smtp:[me.example]");  // once, not in circles
  BOOST_TEST(route("jo@ours.example").starts_with("failed 5.4.6"));
}
BOOST_AUTO_TEST_CASE(error_and_retry_transports_have_their_text_and_code) {
  settings.transport_maps =
      "inline:{ { a.example = error:5.7.1 go away } { b.example = retry:4.2.1 later } { c.example "
      "= error:no code }"
      " d.example=gone: }";
  BOOST_TEST(route("u@a.example") == "failed 5.7.1 go away");
  BOOST_TEST(route("u@b.example") == "deferred 4.2.1 later");
  BOOST_TEST(route("u@c.example") == "failed 5.0.0 no code");
  BOOST_TEST(route("u@d.example").starts_with("deferred 4.3.5"));
  transports["error"];
  BOOST_TEST(route("u@a.example") == "error:5.7.1 go away <u@a.example> error 3600");
}
BOOST_AUTO_TEST_CASE(bad_addresses_fail_and_broken_tables_defer) {
  BOOST_TEST(route("u@-bad").starts_with("failed 5.1.3"));
  settings.transport_maps = "fail:x";
  BOOST_TEST(route("u@far.example").starts_with("deferred 4.3.0"));
}
BOOST_AUTO_TEST_CASE(blocking_tables_are_looked_up_on_the_pool) {
  settings.transport_maps = "unix:passwd.byname";
  server.a("far.example", "198.51.100.1");
  BOOST_TEST(route("u@far.example").starts_with("smtp:far.example"));
}
BOOST_AUTO_TEST_CASE(lmtp_over_a_socket_keeps_the_path) {
  settings.virtual_mailbox_domains = "box.example";
  settings.virtual_transport = "lmtp:unix:private/dovecot-lmtp";
  BOOST_TEST(route("jo@box.example") ==
             "lmtp:unix:private/dovecot-lmtp <jo@box.example> "
             "private/dovecot-lmtp[private/dovecot-lmtp] 3600");
}

BOOST_AUTO_TEST_SUITE_END()
