#include "lib/send/egress/socks5.h"

#include <boost/test/unit_test.hpp>

#include "lib/send/egress/proxy_v2.h"

namespace pen::egress {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}

struct Dialogue {
  explicit Dialogue(Proxy p, const char* target = "198.51.100.7")
      : socks(p, *parse_ip("192.0.2.1"), *parse_ip(target), 25) {}
  /// What the client says to these bytes, which come one by one.
  std::string to(const std::string& said) {
    pending += said;
    std::string out;
    for (std::size_t n = 1; n <= pending.size() && socks.state() == Socks5::State::talking; ++n) {
      const std::size_t used = socks.feed(std::string_view(pending).substr(0, n));
      if (used == 0) continue;
      pending.erase(0, used);
      n = 0;
      out += socks.take_output();
    }
    return out;
  }
  Socks5 socks;
  std::string pending;
};
const Proxy kOpen{Proxy::Kind::socks5, "192.0.2.9", 1080, {}, {}};
const Proxy kLogin{Proxy::Kind::socks5, "192.0.2.9", 1080, "joe", "pw"};
const Proxy kBinding{Proxy::Kind::socks5_bind, "192.0.2.9", 1080, {}, {}};
const std::string kConnectV4 = bytes({5, 1, 0, 1, 198, 51, 100, 7, 0, 25});
const std::string kDone = bytes({5, 0, 0, 1, 192, 0, 2, 5, 200, 1});

}  // namespace

BOOST_AUTO_TEST_SUITE(egress_socks5)

BOOST_AUTO_TEST_CASE(a_proxy_without_login_is_told_to_connect) {
  Dialogue d(kOpen);
  BOOST_TEST((d.socks.take_output() == bytes({5, 1, 0})));
  BOOST_TEST((d.to(bytes({5, 0})) == kConnectV4));
  BOOST_TEST(d.to(kDone + "220 mx").empty());
  BOOST_TEST((d.socks.state() == Socks5::State::done));
  BOOST_TEST(d.pending == "220 mx");  // the host's
}

BOOST_AUTO_TEST_CASE(user_and_password_are_the_only_method_where_there_are_some) {
  Dialogue d(kLogin, "2001:db8::7");
  BOOST_TEST((d.socks.take_output() == bytes({5, 1, 2})));
  BOOST_TEST((d.to(bytes({5, 2})) == bytes({1, 3}) + "joe" + bytes({2}) + "pw"));
  const std::string connect = d.to(bytes({1, 0}));
  BOOST_TEST((connect == bytes({5, 1, 0, 4, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 25})));
  d.to(bytes({5, 0, 0, 3, 5}) + "proxy" + bytes({0, 1}));  // its address may be a name
  BOOST_TEST((d.socks.state() == Socks5::State::done));
  Dialogue refused(kLogin);
  refused.to(bytes({5, 2}) + bytes({1, 1}));
  BOOST_TEST(refused.socks.why() == "the proxy refuses user and password");
  BOOST_TEST((refused.socks.fault() == Socks5::Fault::proxy));
}

BOOST_AUTO_TEST_CASE(the_address_is_bound_before_the_connection_where_the_proxy_takes_that) {
  Dialogue d(kBinding);
  BOOST_TEST((d.to(bytes({5, 0})).ends_with(bytes({5, 2, 0, 1, 192, 0, 2, 1, 0, 0}))));
  BOOST_TEST((d.to(bytes({5, 0, 0, 1, 192, 0, 2, 1, 0, 0})) == kConnectV4));
  d.to(kDone);
  BOOST_TEST((d.socks.state() == Socks5::State::done));
  Dialogue no(kBinding);
  no.to(bytes({5, 0}) + bytes({5, 4, 0, 1, 0, 0, 0, 0, 0, 0}));
  BOOST_TEST((no.socks.fault() == Socks5::Fault::proxy));  // whatever the code: no host was asked yet
  BOOST_TEST(no.socks.why() == "the proxy does not take the address 192.0.2.1 (code 4)");
}

BOOST_AUTO_TEST_CASE(what_the_host_did_is_told_from_what_the_proxy_did) {
  using Fault = Socks5::Fault;
  const std::pair<int, Fault> kinds[] = {{1, Fault::proxy},       {2, Fault::proxy},   {3, Fault::unreachable},
                                         {4, Fault::unreachable}, {5, Fault::refused}, {6, Fault::timed_out},
                                         {7, Fault::proxy},       {8, Fault::proxy},   {255, Fault::proxy}};
  for (const auto& [code, fault] : kinds) {
    Dialogue d(kOpen);
    d.to(bytes({5, 0}) + bytes({5, code, 0, 1, 0, 0, 0, 0, 0, 0}));
    BOOST_TEST_CONTEXT(code) {
      BOOST_TEST((d.socks.state() == Socks5::State::failed));
      BOOST_TEST((d.socks.fault() == fault));
      BOOST_TEST(!d.socks.why().empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(who_speaks_something_else_is_not_believed) {
  for (const std::string& said : {std::string("220 mx ESMTP\r\n"), bytes({4, 0}), bytes({5, 1}), bytes({5, 0xff}),
                                  bytes({5, 0, 5, 0, 0, 9, 0, 0, 0, 0, 0, 0}), bytes({5, 0, 4, 0})}) {
    Dialogue d(kOpen);
    d.to(said);
    BOOST_TEST((d.socks.state() == Socks5::State::failed));
    BOOST_TEST((d.socks.fault() == Socks5::Fault::proxy));
  }
}

BOOST_AUTO_TEST_CASE(a_proxy_header_has_both_addresses) {
  BOOST_TEST((proxy_v2(*parse_ip("192.0.2.1"), *parse_ip("198.51.100.7"), 25) ==
              "\r\n\r\n" + bytes({0}) + "\r\nQUIT\n" +
                  bytes({0x21, 0x11, 0, 12, 192, 0, 2, 1, 198, 51, 100, 7, 0, 0, 0, 25})));
  const std::string v6 = proxy_v2(*parse_ip("2001:db8::1"), *parse_ip("2001:db8::2"), 2525);
  BOOST_TEST(v6.size() == 52U);
  BOOST_TEST((v6.substr(12, 4) == bytes({0x21, 0x21, 0, 36})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::egress
