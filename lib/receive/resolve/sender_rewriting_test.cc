#include "lib/receive/resolve/sender_rewriting.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/text.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/trust/srs/secrets.h"

using namespace pen;
using namespace pen::resolve;

namespace {

struct Host {
  testing::ScratchDir dir;
  testing::ManualClock clock;
  Options options;

  Host() {
    options.myorigin = "origin.example";
    options.mydomain = "here.example";
    options.myhostname = "mx.here.example";
    options.mydestination = "here.example";
    options.virtual_alias_domains = "alias.example";
    options.virtual_alias_maps = "inline:{ jo@there.example=joe@elsewhere.example @here.example=all@here.example }";
    options.virtual_mailbox_domains = "box.example";
    options.relay_domains = "relay.example";
    options.local_recipient_maps = "inline:{ jo = x }";
    options.srs = {
        .domain = "Back.Example", .secrets_file = secrets("secret"), .exclude_domains = "kept.example, .kept.example"};
    options.clock = &clock;
  }
  std::string secrets(std::string_view content) const {
    const std::string path = dir.write("secrets", content);
    BOOST_REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return path;
  }
  std::shared_ptr<const Resolve> open() const {
    auto r = Resolve::open(options);
    BOOST_REQUIRE_MESSAGE(r.has_value(), (r ? "" : r.error().message()));
    return *r;
  }
  std::string refusal() const {
    const auto r = Resolve::open(options);
    return r ? "" : r.error().message();
  }
  std::string forwarded(std::string_view sender) const { return open()->forwarded_sender(sender).value(); }
  std::string fault(std::string_view recipient) const {
    const auto original = open()->original_sender(recipient);
    return original && !*original ? original->error().message() : "";
  }
  std::string expanded(std::string_view recipient) const {
    const auto out = open()->expand_virtual(recipient);
    BOOST_REQUIRE(out.has_value());
    return join(out->addresses);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sender_rewriting, Host)

BOOST_AUTO_TEST_CASE(only_senders_of_others_are_rewritten) {
  BOOST_TEST(forwarded("ada@far.example").starts_with("SRS0="));
  BOOST_TEST(forwarded("ada@far.example").ends_with("=far.example=ada@back.example"));
  // This host is no sender for the domains that it relays to.
  BOOST_TEST(forwarded("ada@relay.example").starts_with("SRS0="));
  for (const char* own : {"", "root", "ada@here.example", "ada@HERE.example", "ada@alias.example", "ada@box.example",
                          "ada@origin.example", "root@mx.here.example", "SRS0=x=y=z@back.example", "ada@kept.example",
                          "ada@sub.kept.example", "ada@[192.0.2.1]"})
    BOOST_TEST(forwarded(own) == "", own);
  options.srs = {};
  BOOST_TEST(forwarded("ada@far.example") == "");
}

BOOST_AUTO_TEST_CASE(a_rewritten_sender_is_a_recipient_that_is_somebody_else) {
  const std::string back = forwarded("ada@far.example");
  BOOST_TEST(expanded(back) == "ada@far.example");
  BOOST_TEST(expanded(to_lower(back)) == "ada@far.example");
  BOOST_TEST((open()->listed(back).value() == Listed::elsewhere));
  BOOST_TEST(fault(back) == "");
  BOOST_TEST(expanded(forwarded("jo@there.example")) == "joe@elsewhere.example");  // an alias like any other
}

BOOST_AUTO_TEST_CASE(what_was_not_made_here_is_unknown_whatever_tables_have) {
  options.virtual_alias_maps = "inline:{ @back.example=all@here.example }";
  const std::string forged = "SRS0=aaaa=AA=far.example=ada@back.example";
  BOOST_TEST(expanded(forged) == forged);
  BOOST_TEST((open()->listed(forged).value() == Listed::no));
  BOOST_TEST(fault(forged) == "not rewritten here");
  BOOST_TEST(expanded("info@back.example") == "all@here.example");
  BOOST_TEST(fault("info@back.example") == "");
  // Of another domain: none of ours.
  BOOST_TEST(fault("SRS0=aaaa=AA=far.example=ada@far.example") == "");
}

BOOST_AUTO_TEST_CASE(an_old_one_is_unknown) {
  const std::string back = forwarded("ada@far.example");
  clock.step_wall(std::chrono::days(21));
  BOOST_TEST(expanded(back) == "ada@far.example");
  clock.step_wall(std::chrono::days(1));
  BOOST_TEST(expanded(back) == back);
  BOOST_TEST(fault(back) == "too old");
  options.srs.max_age_days = 22;
  BOOST_TEST(expanded(back) == "ada@far.example");
}

BOOST_AUTO_TEST_CASE(srs_domain_needs_no_other_setting_to_be_a_domain_of_ours) {
  BOOST_TEST((open()->class_of("back.example").value() == AddressClass::virtual_alias));
  options.mydestination = "here.example, back.example";
  BOOST_TEST((open()->class_of("back.example").value() == AddressClass::local));
  options.mydestination = "here.example";
  options.srs = {};
  BOOST_TEST((open()->class_of("back.example").value() == AddressClass::other));
}

// RFC 5321 section 4.5.1
BOOST_AUTO_TEST_CASE(srs_domain_has_a_postmaster) {
  BOOST_TEST((open()->listed("Postmaster@back.example").value() == Listed::elsewhere));
  BOOST_TEST(expanded("Postmaster@Back.example") == "postmaster@origin.example");
  BOOST_TEST((open()->listed("jo@back.example").value() == Listed::no));
  options.virtual_alias_maps = "inline:{ postmaster@back.example=jo@here.example }";
  BOOST_TEST(expanded("postmaster@back.example") == "jo@here.example");
  options.virtual_alias_maps = "";
  options.mydestination = "here.example, back.example";
  BOOST_TEST(expanded("postmaster@back.example") == "postmaster@back.example");
}

BOOST_AUTO_TEST_CASE(a_local_part_with_signs_of_routing_is_no_route) {
  options.srs.domain = "here.example";
  for (const char* sender : {"a%b@far.example", "a!b@far.example", "\"a b\"@far.example"}) {
    const std::string back = forwarded(sender);
    const auto route = open()->route("", back);
    BOOST_TEST_REQUIRE(route.has_value());
    BOOST_TEST(!route->routed, back);
    BOOST_TEST((open()->listed(back).value() == Listed::elsewhere), back);
    BOOST_TEST(expanded(open()->rewrite(back)) == sender);
  }
}

BOOST_AUTO_TEST_CASE(a_secret_that_was_replaced_is_accepted_as_long_as_it_stands_in_the_file) {
  const std::string back = forwarded("ada@far.example");
  secrets("new\nsecret\n");
  BOOST_TEST(forwarded("ada@far.example") != back);
  BOOST_TEST(expanded(back) == "ada@far.example");
  secrets("new\n");
  BOOST_TEST(expanded(back) == back);
}

BOOST_AUTO_TEST_CASE(settings_that_cannot_be_are_named) {
  const auto with = [this](auto change) {
    const SrsOptions before = options.srs;
    change(options.srs);
    const std::string why = refusal();
    options.srs = before;
    return why;
  };
  BOOST_TEST(refusal() == "");
  BOOST_TEST(with([](SrsOptions& o) { o.secrets_file = ""; }).contains("srs_secrets_file is not"));
  BOOST_TEST(with([](SrsOptions& o) { o.secrets_file += ".none"; }).contains("srs_secrets_file: "));
  BOOST_TEST(with([](SrsOptions& o) { o.separator = "*"; }).contains("srs_separator"));
  BOOST_TEST(with([](SrsOptions& o) { o.domain = "-"; }).contains("srs_domain"));
  secrets("\n");
  BOOST_TEST(refusal().contains("no secret"));
}

BOOST_AUTO_TEST_SUITE_END()
