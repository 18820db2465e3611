#include "lib/net/helper/server_address.h"

#include <boost/test/unit_test.hpp>

namespace pen::helper {

BOOST_AUTO_TEST_SUITE(server_address)

namespace {

constexpr ServerAddress::Form kTyped{.directory = "/queue"};

std::string read(std::string_view text, const ServerAddress::Form& form = kTyped) {
  const auto at = ServerAddress::parse(text, form);
  return at ? at->text() : "error: " + at.error();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_type_says_what_follows) {
  BOOST_TEST(read("unix:/run/x") == "unix:/run/x");
  BOOST_TEST(read("unix:private/x") == "unix:/queue/private/x");
  BOOST_TEST(read("inet:mx.example:25") == "inet:mx.example:25");
  BOOST_TEST(read("inet:localhost:smtp") == "inet:localhost:25");
  BOOST_TEST(read("inet:[2001:db8::1]:25") == "inet:[2001:db8::1]:25");
  BOOST_TEST(read("inet:2001:db8::1:25") == "inet:[2001:db8::1]:25");  // the last colon counts
  BOOST_TEST(read(" inet:192.0.2.1:25 ") == "inet:192.0.2.1:25");
}

BOOST_AUTO_TEST_CASE(what_may_be_left_out_the_form_says) {
  const ServerAddress::Form redis{.default_port = 6379, .bare = ServerAddress::Bare::host};
  BOOST_TEST(read("db.example", redis) == "inet:db.example:6379");
  BOOST_TEST(read("[::1]", redis) == "inet:[::1]:6379");
  BOOST_TEST(read("db.example:7", redis) == "inet:db.example:7");
  BOOST_TEST(read("/run/redis.sock", redis) == "unix:/run/redis.sock");
  const ServerAddress::Form proxy{.directory = "/queue", .default_host = "::1", .bare = ServerAddress::Bare::host};
  BOOST_TEST(read(":10025", proxy) == "inet:[::1]:10025");
  BOOST_TEST(read("10025", proxy) == "inet:[::1]:10025");
  BOOST_TEST(read("inet::10025", proxy) == "inet:[::1]:10025");
  const ServerAddress::Form dovecot{.directory = "/queue", .bare = ServerAddress::Bare::path};
  BOOST_TEST(read("private/auth", dovecot) == "unix:/queue/private/auth");
  BOOST_TEST(read("/run/auth", dovecot) == "unix:/run/auth");
  const ServerAddress::Form filter{.directory = "/queue", .local = true};
  BOOST_TEST(read("local:milter", filter) == "unix:/queue/milter");
}

BOOST_AUTO_TEST_CASE(what_is_no_address_is_told_with_its_reason) {
  BOOST_TEST(read("mx.example:25") == "error: neither inet:host:port nor unix:path");
  BOOST_TEST(read("local:x") == "error: neither inet:host:port nor unix:path");
  BOOST_TEST(read("") == "error: neither inet:host:port nor unix:path");
  BOOST_TEST(read("unix:") == "error: no path");
  BOOST_TEST(read("unix:x", {}) == "error: the path of a socket begins with /");
  BOOST_TEST(read("unix:/" + std::string(107, 'x')) == "error: longer than a socket's path can be");
  BOOST_TEST(read("inet:mx.example") == "error: no port; the form is inet:host:port");
  BOOST_TEST(read("inet::25") == "error: the host is neither a name nor an address");
  for (const char* host : {"inet:a b:25", "inet:a/b:25", "inet:[::x]:25", "inet:::25", "inet:"})
    BOOST_TEST(read(host) == "error: the host is neither a name nor an address", host);
  for (const char* port : {"inet:a:0", "inet:a:65536", "inet:a:no-such-port", "inet:a:"})
    BOOST_TEST(read(port) == "error: no such port", port);
  BOOST_TEST(read("inet:[::1:25") == "error: a ] is missing");
  BOOST_TEST(read("inet:[::1]25") == "error: only :port may follow ]");
  BOOST_TEST(read("inet:::1", {.default_port = 7}) ==
             "error: an IPv6 address must be in brackets: inet:[address]:port");
}

BOOST_AUTO_TEST_CASE(only_names_must_be_looked_up_and_localhost_is_both_loopback_addresses) {
  const auto ways = [](std::string_view text) {
    std::string out;
    for (const auto& way : ServerAddress::parse(text, kTyped).value().ways()) out += way.text() + " ";
    return out;
  };
  BOOST_TEST(ways("inet:192.0.2.1:25") == "[192.0.2.1]:25 ");
  BOOST_TEST(ways("inet:LocalHost:25") == "[127.0.0.1]:25 [::1]:25 ");
  BOOST_TEST(ways("unix:/run/x") == "/run/x ");
  BOOST_TEST(ways("inet:mx.example:25") == "");
  BOOST_TEST(ServerAddress::parse("inet:mx.example:25", kTyped)->has_name());
  BOOST_TEST(!ServerAddress::parse("inet:localhost:25", kTyped)->has_name());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::helper
