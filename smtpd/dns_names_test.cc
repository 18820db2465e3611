#include "smtpd/dns_names.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/testing/dns_server.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::smtpd;
using async::testing::run;

namespace {

struct World {
  pen::testing::DnsServer server;
  pen::testing::ScratchDir dir;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  net::Resolver resolver;
  DnsNames names;

  static net::ResolverOptions options(unsigned short port) {
    net::ResolverOptions o;
    o.servers = {async::SocketAddress::inet("127.0.0.1", port)};
    o.timeout = milliseconds(2000);
    o.tries = 1;
    return o;
  }
  World() : resolver(loop, pool, options(server.port())), names(resolver, pool, dir.file("hosts")) {}
  /// "ok 192.0.2.1 …", "missing", "temporary".
  std::string addresses(const std::string& name, Families families = {}) {
    const HostAddresses found = run(loop, names.addresses(name, families, {}));
    BOOST_TEST(found.why.empty() == (found.state == NameState::ok));
    BOOST_TEST(found.addresses.empty() == (found.state != NameState::ok));
    std::string out = found.state == NameState::ok ? "ok" : found.state == NameState::missing ? "missing" : "temporary";
    for (const auto& address : found.addresses) out += " " + address;
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(dns_names, World)

BOOST_AUTO_TEST_CASE(what_the_hosts_file_has_is_asked_nowhere_else) {
  server.a("scan.example", "192.0.2.99");
  dir.write("hosts", "2001:db8::1 scan.example\n192.0.2.1 scan.example\n192.0.2.2 scan.example\n");
  BOOST_TEST(addresses("scan.example") == "ok 192.0.2.1 192.0.2.2 2001:db8::1");
  BOOST_TEST(addresses("scan.example", {.ipv4 = false}) == "ok 2001:db8::1");
  BOOST_TEST(addresses("scan.example", {.ipv6 = false}) == "ok 192.0.2.1 192.0.2.2");
  BOOST_TEST(resolver.counts().asked == 0U);
  dir.write("hosts", "");  // read anew each time
  BOOST_TEST(addresses("scan.example") == "ok 192.0.2.99");
}

BOOST_AUTO_TEST_CASE(dns_has_the_rest_and_its_answers_are_kept) {
  server.a("both.example", "192.0.2.1");
  server.aaaa("both.example", "2001:db8::1");
  BOOST_TEST(addresses("both.example") == "ok 192.0.2.1 2001:db8::1");
  const auto sent = resolver.counts().sent;
  BOOST_TEST(addresses("both.example") == "ok 192.0.2.1 2001:db8::1");
  BOOST_TEST(addresses("both.example", {.ipv4 = false}) == "ok 2001:db8::1");
  BOOST_TEST(resolver.counts().sent == sent);
  BOOST_TEST(addresses("none.example") == "missing");
}

BOOST_AUTO_TEST_CASE(a_client_s_name_may_lead_elsewhere_or_nowhere) {
  const auto ptr = [&](const std::string& address, const std::string& name) {
    server.add({.name = address + ".in-addr.arpa", .type = 12, .data = pen::testing::DnsServer::wire_name(name)});
  };
  ptr("1.2.0.192", "good.example");
  ptr("2.2.0.192", "elsewhere.example");
  ptr("3.2.0.192", "nowhere.example");
  ptr("4.2.0.192", "bad.example");
  server.a("good.example", "192.0.2.1");
  server.a("elsewhere.example", "192.0.2.99");
  server.rcode("bad.example", 2);
  struct Row {
    const char* address;
    NameState verified, forward;
  };
  for (const Row& row :
       {Row{"192.0.2.1", NameState::ok, NameState::ok}, Row{"192.0.2.2", NameState::missing, NameState::ok},
        Row{"192.0.2.3", NameState::missing, NameState::missing},
        Row{"192.0.2.4", NameState::temporary, NameState::temporary},
        Row{"192.0.2.5", NameState::missing, NameState::missing}}) {
    const ClientName name = run(loop, names.client(row.address, {}));
    BOOST_TEST((name.verified == row.verified), row.address);
    BOOST_TEST((name.forward == row.forward), row.address);
  }
}

BOOST_AUTO_TEST_CASE(records_of_a_type_come_from_dns_alone) {
  server.mx("remote.example", 10, "mx.remote.example");
  dir.write("hosts", "192.0.2.1 remote.example\n");
  const auto mx = run(loop, names.records("remote.example", net::RecordType::mx, {}));
  BOOST_TEST_REQUIRE(mx.records.size() == 1U);
  BOOST_TEST(mx.records[0].data == "mx.remote.example");
  BOOST_TEST((run(loop, names.records("remote.example", net::RecordType::a, {})).outcome == net::DnsOutcome::no_data));
}

BOOST_AUTO_TEST_CASE(trouble_with_a_look_up_is_not_taken_for_a_missing_name) {
  server.rcode("bad.example", 2);
  BOOST_TEST(addresses("bad.example") == "temporary");
  DnsNames unreadable(resolver, pool, dir.path().string());
  const auto found = run(loop, unreadable.addresses("a.example", {}, {}));
  BOOST_TEST((found.state == NameState::temporary));
}

BOOST_AUTO_TEST_SUITE_END()
