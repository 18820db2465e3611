#include "lib/send/egress/file.h"

#include <boost/test/unit_test.hpp>

namespace pen::egress {
namespace {

File whole(std::string_view text) {
  auto p = parse(text);
  for (const Fault& f : p.faults) BOOST_ERROR("line " << f.line << ": " << f.text);
  return std::move(p.file);
}
/// The only fault, "LINE: text".
std::string fault(std::string_view text) {
  const auto p = parse(text);
  BOOST_REQUIRE_EQUAL(p.faults.size(), 1U);
  return std::to_string(p.faults[0].line) + ": " + p.faults[0].text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(egress_file)

BOOST_AUTO_TEST_CASE(the_example_of_the_manual_is_read) {
  const File f = whole(
      "# What we send from\n"
      "pool bulk  a*3 b far   # a pool may stand first\n"
      "source a   address=192.0.2.1 address6=2001:DB8::1 helo=a.example.org weight=50\n"
      "source b   address=192.0.2.2 warmup=yes\n"
      "source far address=198.51.100.7 proxy=socks5-bind://joe:s%3A%40cret@203.0.113.9:1080 warmup=2026-12-01\n"
      "source ha  address6=2001:db8::7 proxy=haproxy://[2001:db8::9]:25\r\n"
      "pool web ha\n");
  BOOST_REQUIRE_EQUAL(f.sources.size(), 4U);
  const Source& a = f.sources[0];
  BOOST_TEST(a.address6 == "2001:db8::1");
  BOOST_TEST(a.helo == "a.example.org");
  BOOST_TEST(!a.warmup);
  BOOST_TEST((a.reaches(false) && a.reaches(true)));
  BOOST_TEST((f.sources[1].reaches(false) && !f.sources[1].reaches(true)));
  BOOST_TEST((f.sources[1].warmup && f.sources[1].warmup_from == 0));
  const Source& far = f.sources[2];
  BOOST_TEST((far.proxy.kind == Proxy::Kind::socks5_bind));
  BOOST_TEST(far.proxy.user == "joe");
  BOOST_TEST(far.proxy.password == "s:@cret");
  BOOST_TEST(far.proxy.shown() == "socks5-bind://203.0.113.9:1080");
  BOOST_TEST(far.warmup_from == 20788);
  BOOST_TEST(f.sources[3].proxy.shown() == "haproxy://[2001:db8::9]:25");
  BOOST_REQUIRE(f.pool("bulk") != nullptr);
  BOOST_TEST((f.pool("bulk")->members == std::vector<Member>{{0, 3}, {1, 100}, {2, 100}}));
  BOOST_TEST(f.pool("mail") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_fault_names_its_line_and_the_word) {
  BOOST_TEST(fault("\nsorce a\n") == "2: a line begins with source or pool, not with \"sorce\"");
  BOOST_TEST(fault("source a adress=1.2.3.4") ==
             "1: unknown word \"adress\"; known are address, address6, helo, proxy, weight and warmup");
  BOOST_TEST(fault("source a address=1.2.3.400") == "1: address is not an IPv4 address: \"1.2.3.400\"");
  BOOST_TEST(fault("source a address=::1").starts_with("1: address is not"));
  BOOST_TEST(fault("source a address6=192.0.2.1").starts_with("1: address6 is not"));
  BOOST_TEST(fault("source a helo=x<y").starts_with("1: helo is not a host name"));
  BOOST_TEST(fault("source a weight=10001").starts_with("1: weight is not"));
  BOOST_TEST(fault("source a warmup=2026-02-30").starts_with("1: warmup is neither"));
  BOOST_TEST(fault("source a weight=1 weight=2") == "1: \"weight\" stands twice");
  BOOST_TEST(fault("source a\nsource a\n") == "2: source a stands in line 1 already");
  BOOST_TEST(fault("source a/b").starts_with("1: source needs a name"));
  BOOST_TEST(fault("pool p a b\nsource a\n") == "1: unknown source \"b\"");
  BOOST_TEST(fault("source a\npool p a a\n") == "2: source a stands twice in pool p");
  BOOST_TEST(fault("source a\npool p a*0\n") == "2: no source of pool p has a weight");
  BOOST_TEST(fault("source a\npool p\n") == "2: pool p has no source");
  BOOST_TEST(fault("source a\npool none a\n").starts_with("2: a pool cannot be called none"));
  BOOST_TEST(fault("source a\npool p a\npool p a\n") == "3: pool p stands twice");
}

BOOST_AUTO_TEST_CASE(a_fault_of_a_proxy_does_not_tell_its_password) {
  for (const char* url :
       {"socks4://u:hidden@1.2.3.4:1", "socks5://u:hidden@1.2.3.4", "socks5://u:hidden@proxy:1080",
        "socks5://u:hidden%zz@1.2.3.4:1", "socks5://u:hidden@1.2.3.4:0", "haproxy://u:hidden@1.2.3.4:1"}) {
    const std::string text = fault("source a address=192.0.2.1 proxy=" + std::string(url));
    BOOST_TEST_CONTEXT(url) {
      BOOST_TEST(text.find("hidden") == std::string::npos);
      BOOST_TEST(text.find("proxy") != std::string::npos);
    }
  }
  BOOST_TEST(fault("source a proxy=haproxy://1.2.3.4:25").find("address or address6 is missing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_has_no_fault_stays_beside_one_that_has) {
  const auto p = parse("source a\nsource b weight=x\npool p a\npool q b\n");
  BOOST_TEST(p.faults.size() == 2U);
  BOOST_TEST((p.file.source("a") != nullptr && p.file.pool("p") != nullptr));
  BOOST_TEST((p.file.source("b") == nullptr && p.file.pool("q") == nullptr));
}

BOOST_AUTO_TEST_CASE(a_file_is_bounded) {
  std::string text;
  for (std::size_t i = 0; i <= kMaxSources; ++i) text += "source s" + std::to_string(i) + "\n";
  BOOST_TEST(fault(text) == "1001: there are more than 1000 sources");
  BOOST_TEST(fault(std::string(kMaxFile + 1, '#')) == "1: the file is larger than 1 MiB");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::egress
