#include "lib/trust/mta_sts/policy.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::mta_sts;
using Fetch = Plan::Fetch;

namespace {

const std::string kGood = "version: STSv1\nmode: enforce\nmx: mail.example.com\nmx: *.example.net\nmax_age: 604800\n";

std::string record(std::string_view text) { return parse_record(text).value_or("none"); }
std::string records(std::vector<std::string> all) { return read_records(all).value_or("none"); }

/// "mode age mx …", or the error.
std::string policy(std::string_view text) {
  const auto p = parse_policy(text);
  if (!p) return p.error().context();
  std::string out = std::string(mode_name(p->mode)) + " " + std::to_string(p->max_age.count());
  for (const auto& mx : p->mx) out += " " + mx;
  return out;
}
bool names(std::vector<std::string> mx, std::string_view host) {
  Policy p;
  p.mx = std::move(mx);
  return p.names_host(host);
}

constexpr WallTime kNow{seconds(1'800'000'000)};

/// A domain with a policy, valid for a week, that was fetched so long ago.
Known known(seconds age, Mode mode = Mode::enforce) {
  Known k;
  k.policy = Policy{mode, seconds(604'800), {"mx.example"}};
  k.id = "one";
  k.fetched = k.used = kNow - age;
  return k;
}
Known failed(Known k, std::string id, seconds ago) {
  k.attempted_id = std::move(id);
  k.failed = kNow - ago;
  k.outcome = FetchOutcome::fetch_failed;
  return k;
}
Plan what(const Known& k, std::optional<std::string> id) { return plan(k, id, kNow, {}); }

}  // namespace

BOOST_AUTO_TEST_SUITE(record_of_the_domain)

BOOST_AUTO_TEST_CASE(the_id_is_what_counts) {
  BOOST_TEST(record("v=STSv1; id=20160831085700Z;") == "20160831085700Z");
  BOOST_TEST(record("v=STSv1;id=1") == "1");
  BOOST_TEST(record("v=STSv1 ; id=a ; ") == "a");
}

BOOST_AUTO_TEST_CASE(fields_that_nobody_knows_are_passed_over_in_any_order) {
  BOOST_TEST(record("v=STSv1; x-y.z_1=some:value!; id=a") == "a");
  BOOST_TEST(record("v=STSv1; id=a; more=b;") == "a");
}

BOOST_AUTO_TEST_CASE(of_a_repeated_field_the_first_counts) {
  BOOST_TEST(record("v=STSv1; id=a; id=b;") == "a");
  BOOST_TEST(record("v=STSv1; id=a-b; id=b;") == "none");  // the first is not a valid id
}

BOOST_AUTO_TEST_CASE(what_the_grammar_forbids_is_no_record) {
  for (const char* text :
       {"", "v=STSv1", "v=STSv1;", "v=STSv2; id=a;", "V=STSv1; id=a;", "id=a; v=STSv1;", " v=STSv1; id=a;",
        "v=STSv1; id=;", "v=STSv1; id;", "v=STSv1; id=a b;", "v=STSv1;; id=a;", "v=STSv1; id=a;;",
        "v=STSv1; id=a; b=c=d;", "v=STSv1; id=a; -b=c;", "v=STSv1; id=a; b=\x01;", "v=STSv1; id=a; b=\xc3\xa4;",
        "v=STSv1; id=a.b;", "v=STSv1 id=a;", "v=STSv1; id=123456789012345678901234567890123;"})
    BOOST_TEST(record(text) == "none", text);
  BOOST_TEST(record("v=STSv1; id=12345678901234567890123456789012;") == "12345678901234567890123456789012");
}

BOOST_AUTO_TEST_CASE(no_record_and_several_records_announce_nothing) {
  BOOST_TEST(records({}) == "none");
  BOOST_TEST(records({"v=STSv1; id=a;", "v=STSv1; id=b;"}) == "none");
  BOOST_TEST(records({"v=STSv1; id=a;", "v=STSv1; id=a;"}) == "none");
  // A malformed record of this kind counts too.
  BOOST_TEST(records({"v=STSv1; id=a;", "v=STSv1; nothing"}) == "none");
}

BOOST_AUTO_TEST_CASE(records_of_other_kinds_do_not_count) {
  BOOST_TEST(records({"v=spf1 -all", "v=STSv1; id=a;", "v=STSv11; id=b", ""}) == "a");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(policy_text)

BOOST_AUTO_TEST_CASE(fields_come_in_any_order_with_either_line_end) {
  const std::string good = "enforce 604800 mail.example.com *.example.net";
  BOOST_TEST(policy(kGood) == good);
  std::string crlf;
  for (const char c : kGood) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  BOOST_TEST(policy(crlf) == good);
  BOOST_TEST(policy("max_age:604800 \nmx:MAIL.example.com\nmx:\t*.example.net\t\nmode: "
                    "enforce\n\nversion: STSv1") == good);
}

BOOST_AUTO_TEST_CASE(of_a_repeated_field_the_first_counts_but_for_mx) {
  BOOST_TEST(policy("mode: testing\nmode: enforce\n" + kGood + "max_age: 1\nversion: x\n") ==
             "testing 604800 mail.example.com *.example.net");
}

BOOST_AUTO_TEST_CASE(unknown_fields_are_passed_over) {
  BOOST_TEST(policy(kGood + "x-more.1_2: gr\xc3\xbc\xc3\x9f dich: Gott\n") == policy(kGood));
}

BOOST_AUTO_TEST_CASE(a_field_that_is_missing_makes_it_invalid) {
  BOOST_TEST(policy("") == "it has no version");
  BOOST_TEST(policy("mode: none\nmax_age: 1") == "it has no version");
  BOOST_TEST(policy("version: STSv1\nmax_age: 1") == "it has no mode");
  BOOST_TEST(policy("version: STSv1\nmode: none\n") == "it has no max_age");
  BOOST_TEST(policy("version: STSv1\nmode: testing\nmax_age: 1") == "it names no mx");
}

BOOST_AUTO_TEST_CASE(with_mode_none_no_mx_is_needed) {
  BOOST_TEST(policy("version: STSv1\nmode: none\nmax_age: 86400\n") == "none 86400");
}

BOOST_AUTO_TEST_CASE(values_out_of_their_form_make_it_invalid) {
  const auto with = [](std::string line) { return policy(line + "\nversion: STSv1\nmode: none\nmax_age: 1\n"); };
  BOOST_TEST(with("version: STSv2") == "version \"STSv2\" is not STSv1");
  BOOST_TEST(with("mode: Enforce") == "mode \"Enforce\" is not enforce, testing or none");
  for (const char* age : {"-1", "1.5", "12345678901", "1 day", "0x10"})
    BOOST_TEST(with(std::string("max_age: ") + age).ends_with("is no number of seconds"), age);
  BOOST_TEST(with("mode: \x01") == "none 1");  // the one in its form counts
  BOOST_TEST(policy("version: STSv1\nmode: enforce\x7f\nmx: a.example\nmax_age: 1\n") == "it has no mode");
}

BOOST_AUTO_TEST_CASE(an_odd_line_names_no_host_and_voids_no_policy) {
  const std::string good = policy(kGood);
  for (const char* mx :
       {"*", "*.", "a.*.example", "*a.example", "a..example", ".example", "-a.example", "a-.example", "a_b.example",
        "[192.0.2.1]", "2001:db8::1", "b\xc3\xbc.example", "a.example b.example", ".", "# the first", "\x01", ""}) {
    BOOST_TEST(policy("mx: " + std::string(mx) + "\n" + kGood) == good, mx);
    BOOST_TEST(policy(kGood + "mx: " + std::string(mx) + "\n") == good, mx);
    BOOST_TEST(policy("version: STSv1\nmode: enforce\nmx: " + std::string(mx) + "\nmax_age: 1\n") == "it names no mx",
               mx);
  }
  for (const char* line : {"nothing", ": x", "a b: c", " mx: a.example", "# comment", "# a: comment",
                           "mx:", "x:", "x: \x01", "x: a\x7f", "<!-- -->"})
    BOOST_TEST(policy(std::string(line) + "\n" + kGood + line) == good, line);
  // Within RFC 5321's grammar of a domain, and no host's name: it holds, and mail waits.
  BOOST_TEST(policy("version: STSv1\nmode: enforce\nmx: 192.0.2.86\nmax_age: 1\n") == "enforce 1 192.0.2.86");
  BOOST_TEST(policy(kGood + "mx: mx.1.2\nmx: 192.0.2.86\n") == good + " mx.1.2 192.0.2.86");
  BOOST_TEST(policy(kGood + "mx: MX.h.example.\n") == good + " mx.h.example");
}

BOOST_AUTO_TEST_CASE(its_lines_are_its_text) {
  const auto parsed = parse_policy(kGood);
  std::string text;
  for (const auto& line : parsed.value().lines()) text += line + "\n";
  BOOST_TEST(text == kGood);
}

BOOST_AUTO_TEST_CASE(no_policy_lasts_longer_than_a_year) {
  BOOST_TEST(policy("version: STSv1\nmode: none\nmax_age: 31557600") == "none 31557600");
  BOOST_TEST(policy("version: STSv1\nmode: none\nmax_age: 9999999999") == "none 31557600");
}

BOOST_AUTO_TEST_CASE(it_has_at_most_64_kilobytes) {
  std::string text = kGood;
  while (text.size() < kMaxPolicy) text += "x: y\n";
  BOOST_TEST(policy(text) == "it is larger than 64 kilobytes");
  text.resize(kGood.size() + (kMaxPolicy - kGood.size()) / 5 * 5);
  BOOST_TEST(policy(text) == policy(kGood));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hosts_of_a_policy)

BOOST_AUTO_TEST_CASE(a_name_stands_for_itself_in_any_case) {
  BOOST_TEST(names({"mail.example.com"}, "MAIL.Example.com"));
  BOOST_TEST(names({"other.example", "mail.example.com"}, "mail.example.com."));
  BOOST_TEST(!names({"mail.example.com"}, "a.mail.example.com"));
  BOOST_TEST(!names({"mail.example.com"}, "example.com"));
  BOOST_TEST(!names({}, "mail.example.com"));
}

BOOST_AUTO_TEST_CASE(a_wildcard_stands_for_exactly_one_label) {
  BOOST_TEST(names({"*.example.com"}, "mail.example.com"));
  BOOST_TEST(!names({"*.example.com"}, "example.com"));
  BOOST_TEST(!names({"*.example.com"}, "foo.bar.example.com"));
  BOOST_TEST(!names({"*.example.com"}, ".example.com"));
  BOOST_TEST(!names({"*.example.com"}, "mailexample.com"));
  BOOST_TEST(!names({"*.com"}, "com"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(what_to_do)

BOOST_AUTO_TEST_CASE(nothing_known_and_nothing_announced_is_nothing_to_do) {
  BOOST_TEST((what({}, std::nullopt) == Plan{false, Fetch::no}));
}

BOOST_AUTO_TEST_CASE(the_first_mail_to_a_domain_with_a_record_waits_for_its_policy) {
  BOOST_TEST((what({}, "one") == Plan{false, Fetch::first}));
}

BOOST_AUTO_TEST_CASE(a_fresh_policy_is_used_without_asking) {
  BOOST_TEST((what(known(seconds(60)), "one") == Plan{true, Fetch::no}));
}

BOOST_AUTO_TEST_CASE(a_policy_counts_until_its_end_whatever_dns_says) {
  BOOST_TEST(what(known(seconds(604'799)), std::nullopt).use);
  BOOST_TEST(!what(known(seconds(604'800)), std::nullopt).use);
  BOOST_TEST(!what(known(seconds(604'800)), "one").use);
  BOOST_TEST((what(known(seconds(604'800)), "one").fetch == Fetch::first));
}

BOOST_AUTO_TEST_CASE(another_id_fetches_and_the_old_policy_counts_until_the_new_is_there) {
  BOOST_TEST((what(known(seconds(60)), "two") == Plan{true, Fetch::first}));
}

BOOST_AUTO_TEST_CASE(after_a_failure_the_same_id_is_left_alone_for_five_minutes) {
  BOOST_TEST((what(failed({}, "one", seconds(299)), "one").fetch == Fetch::no));
  BOOST_TEST((what(failed({}, "one", seconds(300)), "one").fetch == Fetch::first));
  BOOST_TEST((what(failed({}, "one", seconds(1)), "two").fetch == Fetch::first));
  const Known k = known(seconds(60));
  BOOST_TEST((what(failed(k, "two", seconds(299)), "two") == Plan{true, Fetch::no}));
  BOOST_TEST((what(failed(k, "two", seconds(300)), "two") == Plan{true, Fetch::first}));
}

BOOST_AUTO_TEST_CASE(a_policy_in_use_is_refreshed_daily_record_or_none) {
  const Known k = known(seconds(86'400));
  BOOST_TEST((what(k, "one") == Plan{true, Fetch::behind}));
  BOOST_TEST((what(k, std::nullopt) == Plan{true, Fetch::behind}));
  BOOST_TEST((what(known(seconds(86'399)), "one").fetch == Fetch::no));
}

BOOST_AUTO_TEST_CASE(a_short_lived_policy_is_refreshed_at_half_its_life) {
  Known k = known(seconds(30));
  k.policy->max_age = seconds(60);
  BOOST_TEST((what(k, "one") == Plan{true, Fetch::behind}));
}

BOOST_AUTO_TEST_CASE(a_refresh_that_failed_waits_an_hour) {
  const Known k = known(seconds(86'400));
  BOOST_TEST((what(failed(k, "one", seconds(3599)), "one").fetch == Fetch::no));
  BOOST_TEST((what(failed(k, "one", seconds(3600)), "one").fetch == Fetch::behind));
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_neither_ends_nor_hurries_a_policy) {
  BOOST_TEST((what(known(-seconds(10'000)), "one") == Plan{true, Fetch::no}));
}

BOOST_AUTO_TEST_CASE(what_nobody_writes_to_is_refreshed_in_the_second_half_of_its_life) {
  const seconds month(30 * 86'400), half(302'400);
  BOOST_TEST(!wants_refresh(known(half - seconds(1)), kNow, {}, month));
  BOOST_TEST(wants_refresh(known(half), kNow, {}, month));
  BOOST_TEST(!wants_refresh(known(half, Mode::none), kNow, {}, month));
  BOOST_TEST(!wants_refresh(known(seconds(604'800)), kNow, {}, month));
  BOOST_TEST(!wants_refresh(failed(known(half), "one", seconds(60)), kNow, {}, month));
  Known unused = known(half);
  unused.used = kNow - month;
  BOOST_TEST(!wants_refresh(unused, kNow, {}, month));
}

BOOST_AUTO_TEST_CASE(what_has_ended_and_holds_back_no_fetch_is_garbage) {
  BOOST_TEST(!is_garbage(known(seconds(60)), kNow, {}));
  BOOST_TEST(is_garbage(known(seconds(604'800)), kNow, {}));
  BOOST_TEST(!is_garbage(failed({}, "one", seconds(60)), kNow, {}));
  BOOST_TEST(is_garbage(failed({}, "one", seconds(300)), kNow, {}));
}

BOOST_AUTO_TEST_SUITE_END()
