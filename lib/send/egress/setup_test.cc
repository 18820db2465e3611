#include "lib/send/egress/setup.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::egress {
BOOST_AUTO_TEST_SUITE(egress_setup)

namespace {

struct Fixture {
  testing::ScratchDir dir;
  config::Settings s;
  Fixture() {
    s.recipient_delimiter = "+";
    s.egress_sources_file = dir.file("sources");
    s.egress_warmup_schedule = {"10", "20"};
    s.default_egress_pool = "usual";
    s.egress_pool_maps = {
        "inline:{ {tenant:acme = for-acme}, {news@example.org = bulk}, {@example.net = bulk}, {<> = "
        "notices}, {transport:relay = none}, {transport:mass = bulk}, {lost@example.org = gone} }"};
  }
  SetupRead read(std::string_view text = "source a\npool usual a\npool bulk a\npool for-acme a\npool notices a\n") {
    return read_setup(s, std::string(text));
  }
};
std::string pool(const SetupRead& r, Mail mail) {
  const auto found = r.setup->pool_for(mail);
  BOOST_REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message()));
  return *found == nullptr ? "none" : (*found)->name;
}

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(the_pool_goes_by_transport_then_tenant_then_sender) {
  const auto r = read();
  BOOST_TEST(r.faults.empty());
  BOOST_TEST(r.setup->in_use());
  BOOST_TEST(pool(r, {"smtp", "", "joe@example.org"}) == "usual");
  BOOST_TEST(pool(r, {"smtp", "", "news@example.org"}) == "bulk");
  BOOST_TEST(pool(r, {"smtp", "", "news+7@example.org"}) == "bulk");
  BOOST_TEST(pool(r, {"smtp", "", "x@example.net"}) == "bulk");
  BOOST_TEST(pool(r, {"smtp", "acme", "news@example.org"}) == "for-acme");
  BOOST_TEST(pool(r, {"mass", "acme", "joe@example.org"}) == "bulk");
  BOOST_TEST(pool(r, {"relay", "acme", "joe@example.org"}) == "none");
  BOOST_TEST(pool(r, {"smtp", "", ""}) == "notices");
  const auto gone = r.setup->pool_for({"smtp", "", "lost@example.org"});
  BOOST_REQUIRE(!gone);
  BOOST_TEST(gone.error().message().find("there is no pool gone") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(without_pools_nothing_is_in_use) {
  s.egress_pool_maps.clear();
  s.default_egress_pool.clear();
  BOOST_TEST(!read().setup->in_use());
}

BOOST_AUTO_TEST_CASE(every_fault_is_told_with_its_place) {
  s.default_egress_pool = "nowhere";
  s.egress_pool_maps = {"mysql:/etc/pools.cf"};
  s.egress_warmup_schedule = {"20", "10"};
  const auto r = read("source a adress=1\n");
  std::string all;
  for (const auto& f : r.faults) all += f + "\n";
  BOOST_TEST(all.find(s.egress_sources_file + ", line 1: unknown word") != std::string::npos, all);
  BOOST_TEST(all.find("default_egress_pool: there is no pool nowhere") != std::string::npos, all);
  BOOST_TEST(all.find("egress_pool_maps: ") != std::string::npos, all);
  BOOST_TEST(all.find("egress_warmup_schedule: ") != std::string::npos, all);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_missing_is_named) {
  const auto text = read_sources_file(s);
  BOOST_REQUIRE(!text);
  const auto r = read_setup(s, text);
  BOOST_TEST(r.faults.front().find("egress_sources_file " + s.egress_sources_file) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_address_of_another_host_is_found_unless_a_proxy_has_it) {
  const auto r = read(
      "source here address=127.0.0.9 address6=::1\nsource there address=192.0.2.1\n"
      "source far address=192.0.2.2 proxy=socks5://127.0.0.1:1080\npool usual here\n");
  const auto strange = strange_addresses(s, r.setup->file);
  BOOST_REQUIRE_EQUAL(strange.size(), 1U);
  BOOST_TEST(strange.front() ==
             s.egress_sources_file +
                 ", line 2: source there cannot send: this host does not have the address 192.0.2.1");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::egress
