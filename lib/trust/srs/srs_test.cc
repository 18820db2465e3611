#include "lib/trust/srs/srs.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"

using namespace pen;
using namespace pen::srs;

namespace {

const WallTime kNow = WallTime(seconds(1795712657));  // day JP
constexpr auto kDay = seconds(86400);
const Srs kSrs({.secrets = {"tops3cr3t", "old"}});

std::string forward(const Srs& srs, std::string_view address, std::string_view domain, WallTime now = kNow) {
  const auto out = srs.forward(address, domain, now);
  return out ? *out : "!" + out.error().message();
}
std::string reverse(const Srs& srs, std::string_view address, WallTime now = kNow) {
  const auto out = srs.reverse(address, now);
  return out ? *out : "!" + out.error().message();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(srs)

// What Mail::SRS::Guarded 0.31 writes with the same secret at the same time.
BOOST_AUTO_TEST_CASE(the_addresses_of_mail_srs) {
  for (const char separator : {'=', '+', '-'}) {
    const Srs s({.secrets = {"tops3cr3t", "old"}, .separator = separator});
    const std::string tag(1, separator);
    const std::string first = "SRS0" + tag + "Zl20=JP=Example.COM=User.Name+ext@alias.example";
    BOOST_TEST(forward(s, "User.Name+ext@Example.COM", "alias.example") == first);
    BOOST_TEST(reverse(kSrs, first) == "User.Name+ext@Example.COM");
    const std::string of_another = "SRS0=a1b2=ZZ=other.example=joe=x@first.example";
    const std::string second = "SRS1" + tag + "He1v=first.example==a1b2=ZZ=other.example=joe=x@";
    BOOST_TEST(forward(s, of_another, "alias.example") == second + "alias.example");
    BOOST_TEST(reverse(kSrs, second + "alias.example") == of_another);
    BOOST_TEST(forward(s, second + "alias.example", "third.example") == second + "third.example");
  }
}

BOOST_AUTO_TEST_CASE(a_chain_of_hosts_does_not_grow_and_finds_back) {
  const Srs one({.secrets = {"1"}}), two({.secrets = {"2"}}), three({.secrets = {"3"}});
  const std::string a = forward(one, "jo@origin.example", "one.example");
  const std::string b = forward(two, a, "two.example");
  const std::string c = forward(three, b, "three.example");
  BOOST_TEST(c.size() <= b.size() + 2);
  BOOST_TEST(reverse(three, c) == a);
  BOOST_TEST(reverse(one, a) == "jo@origin.example");
}

BOOST_AUTO_TEST_CASE(case_and_alphabet_of_a_hash_may_change_on_the_way) {
  const std::string address = "SRS0=Zl20=JP=Example.COM=User.Name+ext@alias.example";
  BOOST_TEST(reverse(kSrs, to_lower(address)) == "user.name+ext@example.com");
  // An address with + or / in its hash, as postsrsd 2 writes it.
  bool seen = false;
  for (int i = 0; i < 200 && !seen; ++i) {
    const std::string user = "user" + std::to_string(i) + "@a.example";
    std::string out = forward(kSrs, user, "alias.example");
    const auto at = out.substr(0, 9).find_first_of("+/");
    if (at == std::string::npos) continue;
    out[at] = out[at] == '+' ? '-' : '_';
    BOOST_TEST(reverse(kSrs, out) == user);
    seen = true;
  }
  BOOST_TEST(seen);
}

BOOST_AUTO_TEST_CASE(a_hash_that_was_cut_is_refused_below_the_minimum) {
  const Srs shorter({.secrets = {"tops3cr3t"}, .hash_length = 6});
  const Srs strict({.secrets = {"tops3cr3t"}, .hash_length = 12, .hash_minimum = 12});
  const std::string address = forward(shorter, "jo@a.example", "alias.example");
  BOOST_TEST(reverse(kSrs, address) == "jo@a.example");
  BOOST_TEST(!strict.reverse(address, kNow).has_value());
  BOOST_TEST(reverse(strict, forward(strict, "jo@a.example", "alias.example")) == "jo@a.example");
  const Srs between({.secrets = {"tops3cr3t"}, .hash_length = 12, .hash_minimum = 6});
  BOOST_TEST(reverse(between, address) == "jo@a.example");
}

BOOST_AUTO_TEST_CASE(secrets_change_without_loss) {
  const Srs before({.secrets = {"old"}});
  const std::string address = forward(before, "jo@a.example", "alias.example");
  BOOST_TEST(reverse(kSrs, address) == "jo@a.example");
  BOOST_TEST(Srs({.secrets = {"new"}}).reverse(address, kNow).error().is(SrsError::forged));
}

BOOST_AUTO_TEST_CASE(an_address_is_valid_for_so_many_days_and_days_wrap) {
  for (const WallTime begin : {kNow, WallTime(seconds(86400) * (1024 * 20 - 3))}) {
    const std::string address = forward(kSrs, "jo@a.example", "alias.example", begin);
    BOOST_TEST(reverse(kSrs, address, begin + 21 * kDay) == "jo@a.example");
    BOOST_TEST(kSrs.reverse(address, begin + 22 * kDay).error().is(SrsError::expired));
    BOOST_TEST(kSrs.reverse(address, begin - kDay).error().is(SrsError::expired));
  }
}

BOOST_AUTO_TEST_CASE(what_was_not_made_here_is_told_apart) {
  const auto is = [](std::string_view address, SrsError error) {
    const auto out = kSrs.reverse(address, kNow);
    BOOST_TEST((!out && out.error().is(error)), address);
  };
  for (const char* address :
       {"jo@a.example", "SRS@a.example", "SRS0@a.example", "SRS2=x=y@a.example", "SRS0x=1@a.example"})
    is(address, SrsError::not_srs);
  for (const char* address : {"SRS0=@a.example", "SRS0=abcd@a.example", "SRS0=abcd=JP=host@a.example",
                              "SRS0=abcd=J1=host=jo@a.example", "SRS0==JP=host=jo@a.example",
                              "SRS1=abcd=host@a.example", "SRS1=abcd=host=x@a.example", "SRS0=abcd=JP=host=@a.example"})
    is(address, SrsError::syntax);
  for (const char* address :
       {"SRS0=Zl21=JP=Example.COM=User.Name+ext@a.example", "SRS0=Zl20=JQ=Example.COM=User.Name+ext@a.example",
        "SRS0=Zl2=JP=Example.COM=User.Name+ext@a.example", "SRS0=Zl20=JP=Example.ORG=User.Name+ext@a.example",
        "SRS1=He1v=second.example==a1b2=ZZ=other.example=joe=x@alias.example"})
    is(address, SrsError::forged);
}

BOOST_AUTO_TEST_CASE(addresses_without_a_domain_are_not_rewritten) {
  for (const char* address : {"", "postmaster", "jo@[192.0.2.1]", "jo@"})
    BOOST_TEST(kSrs.forward(address, "alias.example", kNow).error().is(SrsError::no_domain), address);
  BOOST_TEST(!kSrs.forward("jo@a.example", "", kNow));
}

BOOST_AUTO_TEST_CASE(quoted_and_odd_local_parts_come_back_as_they_were) {
  for (const char* address :
       {"\"a b\"@a.example", "\"a@b\"@a.example", "a=b=c@a.example", "SRS0@a.example", "SRS0=@a.example",
        "SRS1=abcd=host.==x@a.example", "srs1=x@a.example", "owner-list@a.example"})
    BOOST_TEST(reverse(kSrs, forward(kSrs, address, "alias.example")) == address, address);
}

BOOST_AUTO_TEST_SUITE_END()
