#include "lib/trust/dkim/peer_list.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::dkim;

namespace {

struct Client {
  const char *name, *address;
};

/// A letter for each client: y, it is in the list.
std::string in(const std::vector<std::string>& entries, bool patterns, const std::vector<Client>& clients) {
  const PeerList list = PeerList::of(entries, patterns);
  std::string out;
  for (const Client& c : clients) out += list.matches(c.name, c.address) ? 'y' : 'n';
  return out;
}

const std::vector<Client> kClients = {{"mail.example.com", "192.168.0.7"},
                                      {"example.com", "10.0.0.1"},
                                      {"unknown", "192.168.1.1"},
                                      {"a.b.example.com", "10.0.0.2"},
                                      {"localhost", "127.0.0.1"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_peer_list)

// What opendkim 2.11 answers for these lists: tests/integration/test_dkim.py asks it.
BOOST_AUTO_TEST_CASE(who_is_in_a_list_is_as_in_opendkim) {
  for (const bool patterns : {false, true}) {
    BOOST_TEST_CONTEXT(patterns) {
      BOOST_TEST(in({"*.example.com"}, patterns, kClients) == "nnnnn");
      BOOST_TEST(in({"192.168.0.1/24"}, patterns, kClients) == "nnnnn");
      BOOST_TEST(in({"192.168.0.0/24"}, patterns, kClients) == "ynnnn");
      BOOST_TEST(in({".example.com"}, patterns, kClients) == "ynnyn");
      BOOST_TEST(in({"!192.168.1.0/24", "192.168.1.1"}, patterns, kClients) == "nnynn");
      BOOST_TEST(in({"192.168.1.1", "!192.168.1.0/24"}, patterns, kClients) == "nnynn");
      BOOST_TEST(in({"192.168.*"}, patterns, kClients) == (patterns ? "ynynn" : "nnnnn"));
      BOOST_TEST(in({"*"}, patterns, kClients) == "nnnnn");
      BOOST_TEST(in({"[10.0.0.1]", "10.0.0.2/32"}, patterns, kClients) == "nnnyn");
      BOOST_TEST(in({"MAIL.Example.COM", "0.0.0.0/0"}, patterns, kClients) == "yyyyy");
      BOOST_TEST(in({"!mail.example.com", ".example.com"}, patterns, kClients) == "nnnyn");
      BOOST_TEST(in({"!mail.example.com", ".example.com", "192.168.0.7"}, patterns, kClients) == "ynnyn");
      BOOST_TEST(in({"localhost", "192.168.0.0/255.255.255.0"}, patterns, kClients) == "nnnny");
      BOOST_TEST(in({}, patterns, kClients) == "nnnnn");
      BOOST_TEST(in({"2001:db8::1", "2001:DB8:1::/48", "[2001:db8:2::1]", "2001:db8:3::1/48", "10.0.0.9"}, patterns,
                    {{"x", "2001:db8::1"},
                     {"x", "2001:db8:1::5"},
                     {"x", "2001:db8:2::1"},
                     {"x", "2001:db8:3::5"},
                     {"x", "10.0.0.9"},
                     {"x", ""}}) == "yyynyn");
    }
  }
}

BOOST_AUTO_TEST_CASE(what_matches_nobody_is_told) {
  const auto faults =
      PeerList::of({"192.168.0.1/24", "*.example.com", "a.example", "10.0.0.0/33", "!*.b.example"}, true).faults();
  BOOST_REQUIRE(faults.size() == 3U);
  BOOST_TEST(faults[0] ==
             "\"192.168.0.1/24\" matches no client: bits are set beyond the mask; the network is 192.168.0.0/24");
  BOOST_TEST(faults[1].contains(".example.org"));
  BOOST_TEST(faults[2].contains("not a network"));
  BOOST_TEST(PeerList::of({"192.168.*"}, false).faults().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
