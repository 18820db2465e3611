#include "lib/receive/resolve/resolve.h"

#include <boost/test/unit_test.hpp>

#include "lib/config/config.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/generic.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::resolve;

namespace {
struct Site {
  Options options;
  Site() {
    options.myorigin = "example.org";
    options.mydomain = "example.org";
    options.myhostname = "mx.example.org";
    options.mydestination = "example.org, mx.example.org localhost";
    options.own_addresses = {"192.0.2.25", "2001:db8::25"};
    options.recipient_delimiter = "+";
    options.virtual_alias_domains = "alias.example";
    options.virtual_alias_maps =
        "inline:{ { info@alias.example = jo, other@remote.example } { @catch.example = "
        "all@example.org }"
        " { @move.example = @moved.example } loop@example.org=loop2@example.org "
        "loop2@example.org=loop@example.org"
        " { self@example.org = self@example.org, copy@example.org } jo2=jo3 broken@example.org=@ }";
    options.virtual_mailbox_domains = "box.example";
    options.virtual_mailbox_maps = "inline:{ jo@box.example = x }";
    options.relay_domains = "relay.example";
    options.relay_recipient_maps = "inline:{ jo@relay.example = x }";
    options.local_recipient_maps = "inline:{ jo = x }";
  }
  std::shared_ptr<const Resolve> open() const {
    auto r = Resolve::open(options);
    BOOST_REQUIRE_MESSAGE(r.has_value(), (r ? "" : r.error().message()));
    return *r;
  }
  std::string rewritten(std::string_view a) const { return rewrite_address(options, a); }
  std::string routed(std::string_view recipient, std::string_view sender = "s@else.example") const {
    auto r = open()->route(sender, recipient);
    if (!r) return "error: " + r.error().message();
    return r->transport + ":" + r->nexthop + " " + r->recipient;
  }
  std::string expanded(std::string_view a) const {
    auto r = open()->expand_virtual(a);
    if (!r) return "error: " + r.error().message();
    if (!r->limit_passed.empty()) return "limit: " + r->limit_passed;
    std::string out;
    for (const auto& x : r->addresses) out += (out.empty() ? "" : " ") + x;
    return out;
  }
  /// A table in which every address has a longer one.
  std::string grows() const { return scratch.write("grows", "/^(.*)@alias.example$/ ${1}xxxxxxxx@alias.example\n"); }
  pen::testing::ScratchDir scratch;
  Listed listed(std::string_view a) const { return open()->listed(a).value(); }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(rewriting, Site)

BOOST_AUTO_TEST_CASE(empty_address_recipient_stands_for_the_null_recipient) {
  Site site;
  BOOST_TEST(site.routed("").ends_with(" MAILER-DAEMON@example.org"));
  site.options.empty_address_recipient = "nobody";
  BOOST_TEST(site.routed("").ends_with(" nobody@example.org"));
}

BOOST_AUTO_TEST_CASE(a_bare_user_gets_myorigin) {
  BOOST_TEST(rewritten("jo") == "jo@example.org");
  options.append_at_myorigin = false;
  BOOST_TEST(rewritten("jo") == "jo");
}
BOOST_AUTO_TEST_CASE(a_short_domain_gets_mydomain_only_when_asked) {
  BOOST_TEST(rewritten("jo@host") == "jo@host");
  options.append_dot_mydomain = true;
  BOOST_TEST(rewritten("jo@host") == "jo@host.example.org");
  BOOST_TEST(rewritten("jo@[::1]") == "jo@[::1]");
  options.myorigin = "host";  // as a mailname of one word makes it
  BOOST_TEST(rewritten("jo") == "jo@host.example.org");
  options.append_dot_mydomain = false;
  BOOST_TEST(rewritten("jo") == "jo@host");
}
BOOST_AUTO_TEST_CASE(bang_paths_percent_hack_routes_and_trailing_dots_are_undone) {
  BOOST_TEST(rewritten("site!jo") == "jo@site");
  BOOST_TEST(rewritten("a!b!jo") == "b!jo@a");
  BOOST_TEST(rewritten("jo%a.example") == "jo@a.example");
  BOOST_TEST(rewritten("\"jo%a\"") == "\"jo%a\"@example.org");
  BOOST_TEST(rewritten("@x,@y:jo@z.example") == "jo@z.example");
  BOOST_TEST(rewritten("jo@z.example.") == "jo@z.example");
  BOOST_TEST(rewritten("").empty());
  options.swap_bangpath = options.allow_percent_hack = false;
  BOOST_TEST(rewritten("site!jo") == "site!jo@example.org");
  BOOST_TEST(rewritten("jo%a") == "jo%a@example.org");
}
BOOST_AUTO_TEST_CASE(remote_mail_is_completed_with_the_remote_domain_or_not_at_all) {
  BOOST_TEST(rewrite_address(options, "jo", "invalid.example") == "jo@invalid.example");
  BOOST_TEST(rewrite_address(options, "jo", "") == "jo");
  BOOST_TEST(rewrite_address(options, "jo@host", "invalid.example") == "jo@host");
  options.append_dot_mydomain = true;
  BOOST_TEST(rewrite_address(options, "jo@host", "invalid.example") == "jo@host.invalid.example");
  BOOST_TEST(rewrite_address(options, "jo@host", "") == "jo@host");
  options.append_at_myorigin = false;
  BOOST_TEST(rewrite_address(options, "jo", "invalid.example") == "jo");
}

// As Postfix has it; what is routed is then returned as a bad address, or found.
BOOST_AUTO_TEST_CASE(a_value_that_is_no_address_is_taken_as_it_is_written) {
  struct Row {
    const char *value, *address, *routed;
  };
  for (const Row& row : {Row{"u@d+x", "u@d+x", "error:5.1.3 bad address syntax u@d+x"},
                         Row{"x@far..example", "x@far..example", "error:5.1.3 bad address syntax x@far..example"},
                         Row{"x@", "x@", "error:5.1.3 bad address syntax x@"},
                         Row{"x@[1.2.3", "x@[1.2.3", "error:5.1.3 bad address syntax x@[1.2.3"},
                         Row{"x@@far.example", "\"x@\"@far.example", "smtp:far.example \"x@\"@far.example"},
                         Row{"\"open@far.example", "open@far.example", "smtp:far.example open@far.example"},
                         Row{"Jo <u@d+x>", "u@d+x", "error:5.1.3 bad address syntax u@d+x"},
                         Row{"a..b@far.example", "\"a..b\"@far.example", "smtp:far.example \"a..b\"@far.example"}}) {
    options.virtual_alias_maps = "texthash:" + scratch.write("odd", "a@alias.example " + std::string(row.value) + "\n");
    BOOST_TEST(expanded("a@alias.example") == row.address);
    BOOST_TEST(routed(row.address) == row.routed);
  }
  options.virtual_alias_maps = "texthash:" + scratch.write("odd", "a@alias.example (nothing)\n");
  BOOST_TEST(expanded("a@alias.example").starts_with("error: "));
}

BOOST_AUTO_TEST_CASE(masquerading_hides_hosts_by_class_after_canonical_maps) {
  options.masquerade_domains = "!keep.example.org, example.org other.example";
  options.masquerade_exceptions = "root";
  options.canonical_maps = "inline:{ jo@a.example = jo@Host.Example.ORG }";
  auto r = open();
  const auto at = [&](std::string_view a, Place place = Place::header_sender) {
    return r->canonical(a, place).value();
  };
  BOOST_TEST(at("bo@a.b.example.org") == "bo@example.org");
  BOOST_TEST(at("bo@example.org") == "bo@example.org");
  BOOST_TEST(at("jo@a.example") == "jo@example.org");
  BOOST_TEST(at("bo@a.keep.example.org") == "bo@a.keep.example.org");
  BOOST_TEST(at("bo@keep.example.org") == "bo@keep.example.org");
  BOOST_TEST(at("bo@badexample.org") == "bo@badexample.org");
  BOOST_TEST(at("root@a.example.org") == "root@a.example.org");
  BOOST_TEST(at("\"a@b\"@a.other.example") == "\"a@b\"@other.example");
  BOOST_TEST(at("bo") == "bo");
  BOOST_TEST(at("bo@a.example.org", Place::envelope_sender) == "bo@example.org");
  BOOST_TEST(at("bo@a.example.org", Place::envelope_recipient) == "bo@a.example.org");
  options.masquerade_classes = "envelope_recipient";
  r = open();
  BOOST_TEST(at("bo@a.example.org", Place::envelope_recipient) == "bo@example.org");
  BOOST_TEST(at("bo@a.example.org") == "bo@a.example.org");
  BOOST_TEST(at("bo@a.example.org", Place::envelope_sender) == "bo@a.example.org");
  options.masquerade_exceptions = "texthash:/does/not/exist";
  BOOST_TEST(!open()->canonical("bo@a.example.org", Place::envelope_recipient).has_value());
}

BOOST_AUTO_TEST_CASE(generic_maps_give_an_address_that_the_world_knows) {
  const auto generic = Generic::open(options,
                                     "inline:{ { jo = jo.doe@isp.example } { @mx.example.org = site@isp.example }"
                                     " { bo@example.org = @isp.example } }")
                           .value();
  BOOST_TEST(generic.map("jo@example.org").value() == "jo.doe@isp.example");
  BOOST_TEST(generic.map("jo+x@example.org").value() == "jo.doe@isp.example");
  BOOST_TEST(generic.map("jo@elsewhere.example").value() == "jo@elsewhere.example");
  BOOST_TEST(generic.map("any@mx.example.org").value() == "site@isp.example");
  BOOST_TEST(generic.map("bo@example.org").value() == "bo@isp.example");
  BOOST_TEST(generic.map("").value() == "");
  options.propagate_unmatched_extensions = "generic";
  const auto keeps = Generic::open(options, "inline:{ jo = jo.doe@isp.example }").value();
  BOOST_TEST(keeps.map("jo+x@example.org").value() == "jo.doe+x@isp.example");
  BOOST_TEST(!Generic::open(options, "texthash:/does/not/exist")->map("jo@example.org"));
}

BOOST_AUTO_TEST_CASE(a_route_within_our_domains_is_undone_and_no_other) {
  const auto resolve = Site().open();
  for (const auto& [given, plain] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a%there.example@example.org", "a@there.example"},
           {"a%there.example@[192.0.2.25]", "a@there.example"},
           {"there.example!a@example.org", "a@there.example"},
           {"\"a@there.example\"@example.org", "a@there.example"},
           {"a%b.example%there.example@example.org", "a%b.example@there.example"},
           {"a%there.example@elsewhere.example", "a%there.example@elsewhere.example"},
           {"a%there.example@[192.0.2.26]", "a%there.example@[192.0.2.26]"},
           {"Jo@Example.org", "Jo@Example.org"},
           {"jo", "jo@example.org"},
           {"", ""}})
    BOOST_TEST(resolve->without_route(given).value() == plain);
}

BOOST_AUTO_TEST_CASE(addresses_are_mapped_by_the_delimiter_of_cleanup_and_known_by_the_program_s_own) {
  constexpr const char* kMain =
      "myhostname = mx.example.org\nvirtual_alias_domains = alias.example\n"
      "virtual_alias_maps = inline:{ info@alias.example = jo@remote.example }\n";
  struct Row {
    const char *own, *of_cleanup, *expanded;
    Listed listed;
  };
  for (const Row& row : {Row{"", "-o recipient_delimiter=+", "jo+x@remote.example", Listed::no},
                         Row{"+", "-o recipient_delimiter=", "info+x@alias.example", Listed::elsewhere},
                         Row{"+", "", "jo+x@remote.example", Listed::elsewhere}}) {
    const auto config = config::Config::parse(
        {"/x",
         kMain + ("recipient_delimiter = " + std::string(row.own) + "\n"),
         "cleanup unix n - n - 0 cleanup " + std::string(row.of_cleanup) + "\n25 inet n - n - - smtpd\n",
         {}},
        {});
    const auto resolve = Resolve::open(from_config(config.with(*config.find_service("25", config::ServiceType::inet))));
    BOOST_REQUIRE(resolve);
    const auto mapped = (*resolve)->expand_virtual("info+x@alias.example");
    BOOST_REQUIRE(mapped);
    BOOST_TEST(mapped->addresses.at(0) == row.expanded);
    BOOST_CHECK((*resolve)->listed("info+x@alias.example").value() == row.listed);
    for (const auto& problem : config.report()) BOOST_TEST(!problem.message().contains("without effect"));
  }
}

BOOST_AUTO_TEST_CASE(canonical_tables_apply_by_class_and_keep_extensions) {
  options.canonical_maps = "inline:{ jo@example.org = Jo.Doe@example.org }";
  options.sender_canonical_maps = "inline:{ bo = bo.sender, ring=gnir@example.org, gnir=ring@example.org }";
  options.recipient_canonical_maps = "inline:{ @old.example = @new.example }";
  const auto r = open();
  BOOST_TEST(*r->canonical("jo+x@example.org", Place::header_sender) == "Jo.Doe+x@example.org");
  BOOST_TEST(*r->canonical("bo@example.org", Place::envelope_sender) == "bo.sender@example.org");
  BOOST_TEST(*r->canonical("bo@example.org", Place::envelope_recipient) == "bo@example.org");
  BOOST_TEST(*r->canonical("a+b@old.example", Place::envelope_recipient) == "a+b@new.example");
  BOOST_TEST(r->canonical("ring@example.org", Place::envelope_sender).has_value());
  options.canonical_classes = "header_sender";
  BOOST_TEST(*open()->canonical("jo@example.org", Place::envelope_sender) == "jo@example.org");
  options.sender_canonical_maps = "inline:{ kim@example.org = Kim@Example.org }";
  BOOST_TEST(*open()->canonical("KIM@example.org", Place::envelope_sender) == "Kim@Example.org");  // as written
}

BOOST_AUTO_TEST_CASE(virtual_aliases_expand_recursively_and_keep_themselves) {
  BOOST_TEST(expanded("info@alias.example") == "jo@example.org other@remote.example");
  BOOST_TEST(expanded("self@example.org") == "self@example.org copy@example.org");
  BOOST_TEST(expanded("x@catch.example") == "all@example.org");
  BOOST_TEST(expanded("x+y@move.example") == "x+y@moved.example");
  BOOST_TEST(expanded("nobody@nowhere.example") == "nobody@nowhere.example");
  BOOST_TEST(expanded("jo2@example.org") == "jo3@example.org");
  BOOST_TEST(expanded("jo2@remote.example") == "jo2@remote.example");
  BOOST_TEST(expanded("info+tag@alias.example") == "jo+tag@example.org other+tag@remote.example");
}
BOOST_AUTO_TEST_CASE(addresses_of_an_alias_may_have_blanks_between_them) {
  options.virtual_alias_maps =
      "inline:{ {a@x = x@b y@b,z@b\tw} {b@x = \"x y\"@b z@c} {c@x = x @ b} {d@x = Jo Doe <j@b>} "
      "{e@x = friends: x@b, Jo <y@b>;, z@b} }";
  BOOST_TEST(expanded("a@x") == "x@b y@b z@b w@example.org");
  BOOST_TEST(expanded("b@x") == "\"x y\"@b z@c");
  BOOST_TEST(expanded("c@x") == "x@b");
  BOOST_TEST(expanded("d@x") == "j@b");
  BOOST_TEST(expanded("e@x") == "x@b y@b z@b");  // of a group its members
}
BOOST_AUTO_TEST_CASE(aliases_that_name_each_other_and_themselves_lead_to_each_once_and_only_true_loops_have_no_end) {
  constexpr std::string_view kLoop = "limit: unreasonable virtual_alias_maps map expansion loop for a@x";
  const struct {
    std::string_view aliases, result;
  } rows[] = {
      {"{ a@x = a@x }", "a@x"},
      {"{ a@x = A@X, a@X }", "A@X"},
      {"{ a@x = a@x, b@x } { b@x = a@x, b@x }", "a@x b@x"},
      {"{ a@x = b@x, a@x } { b@x = b@x, a@x }", "b@x a@x"},
      {"{ a@x = a@x, b@x, c@x } { b@x = a@x, b@x, c@x } { c@x = a@x, b@x, c@x }", "a@x b@x c@x"},
      // lists that hold each other, each with a member of its own
      {"{ a@x = a@x, b@x } { b@x = b@x, c@x } { c@x = c@x, a@x }", "a@x b@x c@x"},
      // one of the circle holds itself
      {"{ a@x = b@x } { b@x = b@x, a@x }", "b@x"},
      {"{ a@x = a@x, b@x } { b@x = a@x }", "a@x"},
      {"{ a@x = b@x, a@x } { b@x = a@x }", "a@x"},
      {"{ a@x = b@x, c@x } { b@x = b@x, c@x } { c@x = b@x, c@x, d@x }", "b@x c@x d@x"},
      {"{ a@x = a@x, b@x } { b@x = B@X, a@x, c@x } { c@x = a@x }", "a@x B@X"},
      // by way of a domain or of addresses without an entry
      {"{ a@x = a@x, b@x } { @x = a@x }", "a@x"},
      {"{ @x = @y } { @y = @y }", "a@y"},
      // two ways to one
      {"{ a@x = b@x, c@x } { b@x = d@x } { c@x = d@x, e@x }", "d@x e@x"},
      {"{ a@x = b@x, c@x } { b@x = d@x } { c@x = d@x } { d@x = d@x, a1@x }", "d@x a1@x"},
      // no member of the circle stays
      {"{ a@x = b@x } { b@x = a@x }", kLoop},
      {"{ a@x = b@x, z@x } { b@x = a@x, y@x }", kLoop},
      {"{ a@x = a@x, b@x } { b@x = c@x } { c@x = b@x }", kLoop},
      {"{ a@x = b@x, c@x } { b@x = b@x, c@x } { c@x = a@x }", kLoop},
      {"{ a@x = b@x } { b@x = c@x, z@x } { c@x = d@x } { d@x = z@x, B@x }", kLoop},
      {"{ @x = @y } { @y = @x }", kLoop},
  };
  for (const auto& row : rows) {
    options.virtual_alias_maps = "inline:{ " + std::string(row.aliases) + " }";
    BOOST_TEST(expanded("a@x") == row.result, row.aliases << " gives " << expanded("a@x") << ", not " << row.result);
  }
  // Each level names both of the next: every address is looked up once, not once for each way to it.
  options.virtual_alias_maps = "pcre:" + scratch.write("ladder", "/^[ab](x{0,40})@x$/ a${1}x@x, b${1}x@x\n");
  BOOST_TEST(expanded("a@x") == "a" + std::string(41, 'x') + "@x b" + std::string(41, 'x') + "@x");
  // Sixty addresses that all name each other are no deep nest.
  std::string members;
  for (int i = 0; i < 60; ++i) members += " m" + std::to_string(i) + "@x";
  options.virtual_alias_recursion_limit = 4;
  options.virtual_alias_maps = "pcre:" + scratch.write("members", "/^m[0-9]+@x$/" + members + "\n");
  BOOST_TEST(expanded("m7@x") == members.substr(1));
}
BOOST_AUTO_TEST_CASE(alias_loops_and_floods_are_stopped_and_said) {
  BOOST_TEST(expanded("loop@example.org").starts_with("limit: "));
  options.virtual_alias_expansion_limit = 1;
  BOOST_TEST(expanded("info@alias.example").starts_with("limit: "));
  options.virtual_alias_expansion_limit = 1000;
  options.virtual_alias_maps = "pcre:/nonexistent";
  BOOST_TEST(expanded("a@b").starts_with("error: "));
  options.virtual_alias_maps = "inline:{ @d.example = x@d.example }";
  options.virtual_alias_recursion_limit = 3;
  BOOST_TEST(expanded("a@d.example") == "x@d.example");
  // As many look-ups one behind the other, with that of the end, as the limit says.
  options.virtual_alias_maps = "inline:{ a@e.example = b@e.example, b@e.example = c@e.example }";
  BOOST_TEST(expanded("a@e.example") == "c@e.example");
  options.virtual_alias_recursion_limit = 2;
  BOOST_TEST(expanded("a@e.example").starts_with("limit: "));
}
BOOST_AUTO_TEST_CASE(a_table_value_that_is_no_address_is_a_temporary_failure) {
  BOOST_TEST(expanded("broken@example.org").starts_with("error: "));
}
BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(routing, Site)

BOOST_AUTO_TEST_CASE(each_class_has_its_transport_and_next_hop) {
  BOOST_TEST(routed("jo@example.org") == "local:$myhostname jo@example.org");
  options.local_transport = "local:mx.example.org";
  BOOST_TEST(routed("jo@Example.ORG") == "local:mx.example.org jo@example.org");
  BOOST_TEST(routed("jo@box.example") == "virtual:box.example jo@box.example");
  BOOST_TEST(routed("jo@sub.relay.example") == "relay:sub.relay.example jo@sub.relay.example");
  BOOST_TEST(routed("jo@far.example") == "smtp:far.example jo@far.example");
  BOOST_TEST(routed("no@alias.example") == "error:5.1.1 User unknown in virtual alias table no@alias.example");
}
BOOST_AUTO_TEST_CASE(what_comes_for_the_sender_of_notices_about_notices_is_discarded) {
  options.transport_maps = "inline:{ { example.org = lmtp:box } }";
  const std::string discarded = "discard:undeliverable postmaster notification discarded ";
  for (const char* address : {"double-bounce@example.org", "Double-Bounce@[192.0.2.25]"})
    BOOST_TEST(routed(address) == discarded + address);
  BOOST_TEST(routed("double-bounce+x@example.org").starts_with("lmtp:box"));
  BOOST_TEST(routed("double-bounce@far.example").starts_with("smtp:far.example"));
}
BOOST_AUTO_TEST_CASE(literals_of_our_own_are_local_and_others_are_next_hops) {
  options.local_transport = "local:h";
  BOOST_TEST(routed("jo@[192.0.2.25]") == "local:h jo@[192.0.2.25]");
  BOOST_TEST(routed("jo@[IPv6:2001:db8:0::25]") == "local:h jo@[ipv6:2001:db8:0::25]");
  BOOST_TEST(routed("jo@[198.51.100.1]") == "smtp:[198.51.100.1] jo@[198.51.100.1]");
}
BOOST_AUTO_TEST_CASE(relayhost_replaces_the_domain_off_host_only) {
  options.relayhost = "[smart.example]:587";
  BOOST_TEST(routed("jo@far.example") == "smtp:[smart.example]:587 jo@far.example");
  BOOST_TEST(routed("jo@relay.example") == "relay:[smart.example]:587 jo@relay.example");
  BOOST_TEST(routed("jo@box.example") == "virtual:box.example jo@box.example");
  options.sender_dependent_relayhost_maps =
      "inline:{ s@else.example=[own.example] @dunno.example=DUNNO <>=null.example }";
  BOOST_TEST(routed("jo@far.example") == "smtp:[own.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "x@dunno.example") == "smtp:[smart.example]:587 jo@far.example");
  BOOST_TEST(routed("jo@far.example", "") == "smtp:null.example jo@far.example");
}
BOOST_AUTO_TEST_CASE(sender_dependent_relayhost_maps_are_asked_by_address_then_domain) {
  options.relayhost = "[smart.example]";
  options.sender_dependent_relayhost_maps =
      "inline:{ s@else.example=[own.example]:26 @else.example=domain.example bo=bo.example"
      " { nix@else.example =  } }";
  BOOST_TEST(routed("jo@far.example", "s@else.example") == "smtp:[own.example]:26 jo@far.example");
  BOOST_TEST(routed("jo@far.example", "S+x@Else.example") == "smtp:[own.example]:26 jo@far.example");
  BOOST_TEST(routed("jo@far.example", "t@else.example") == "smtp:domain.example jo@far.example");
  BOOST_TEST(routed("jo@far.example", "bo@example.org") == "smtp:bo.example jo@far.example");
  BOOST_TEST(routed("jo@far.example", "bo@third.example") == "smtp:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "") == "smtp:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@relay.example", "t@else.example") == "relay:domain.example jo@relay.example");
  BOOST_TEST(routed("jo@box.example", "t@else.example") == "virtual:box.example jo@box.example");
  BOOST_TEST(open()->route("t@else.example", "jo@far.example")->by_sender == "sender_dependent_relayhost_maps");
  BOOST_TEST(open()->route("t@third.example", "jo@far.example")->by_sender == "");
  options.empty_address_relayhost_maps_lookup_key = "bo@example.org";
  BOOST_TEST(routed("jo@far.example", "") == "smtp:bo.example jo@far.example");
}
BOOST_AUTO_TEST_CASE(an_empty_value_for_a_sender_is_none) {
  options.sender_dependent_relayhost_maps = options.sender_dependent_default_transport_maps = "static:{ }";
  BOOST_TEST(routed("jo@far.example") == "smtp:far.example jo@far.example");
}
BOOST_AUTO_TEST_CASE(sender_dependent_default_transport_maps_count_for_other_domains_only) {
  options.relayhost = "[smart.example]";
  options.sender_dependent_default_transport_maps =
      "inline:{ a@else.example=slow: b@else.example=lmtp:[lm.example]:24 @dunno.example=DUNNO"
      " <>=notices: bad@else.example=:[x.example] @example.org=own }";
  BOOST_TEST(routed("jo@far.example", "a@else.example") == "slow:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "b@else.example") == "lmtp:[lm.example]:24 jo@far.example");
  BOOST_TEST(routed("jo@far.example", "x@dunno.example") == "smtp:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "x@example.org") == "own:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "") == "notices:[smart.example] jo@far.example");
  BOOST_TEST(routed("jo@relay.example", "a@else.example") == "relay:[smart.example] jo@relay.example");
  BOOST_TEST(routed("jo@far.example", "bad@else.example").starts_with("error: "));
  options.empty_address_default_transport_maps_lookup_key = "a@else.example";
  BOOST_TEST(routed("jo@far.example", "") == "slow:[smart.example] jo@far.example");
  options.sender_dependent_relayhost_maps = "inline:{ a@else.example=[own.example] b@else.example=[own.example] }";
  BOOST_TEST(routed("jo@far.example", "a@else.example") == "slow:[own.example] jo@far.example");
  BOOST_TEST(routed("jo@far.example", "b@else.example") == "lmtp:[lm.example]:24 jo@far.example");
  BOOST_TEST(open()->route("a@else.example", "jo@far.example")->by_sender ==
             "sender_dependent_default_transport_maps, sender_dependent_relayhost_maps");
  options.transport_maps = "inline:{ far.example=smtp:[t.example] }";
  BOOST_TEST(routed("jo@far.example", "b@else.example") == "smtp:[t.example] jo@far.example");
}
BOOST_AUTO_TEST_CASE(a_table_of_senders_must_not_take_a_next_hop_from_the_sender) {
  const std::string rules = "pcre:{ { /^(.*)@else\\.example$/ [$1.example] } }";
  for (auto setting : {&Options::sender_dependent_relayhost_maps, &Options::sender_dependent_default_transport_maps}) {
    Site site;
    site.options.*setting = rules;
    BOOST_TEST(site.routed("jo@far.example").starts_with("error: "));
  }
}
BOOST_AUTO_TEST_CASE(relocated_maps_return_mail_of_any_class_with_where_to_send_it) {
  options.relocated_maps =
      "inline:{ { jo@example.org = jo@new.example } { bo = Room 7 } { @gone.example = nowhere }"
      " { self@example.org = x } { @far.example = away } }";
  BOOST_TEST(routed("jo@example.org") == "error:5.1.6 User has moved to jo@new.example jo@example.org");
  BOOST_TEST(routed("jo+x@example.org") == "error:5.1.6 User has moved to jo@new.example jo+x@example.org");
  BOOST_TEST(routed("bo@example.org") == "error:5.1.6 User has moved to Room 7 bo@example.org");
  BOOST_TEST(routed("any@far.example") == "error:5.1.6 User has moved to away any@far.example");
  BOOST_TEST(routed("other@example.org") == "local:$myhostname other@example.org");
  options.transport_maps = "inline:{ far.example=smtp:[t.example] }";
  BOOST_TEST(routed("any@far.example") == "error:5.1.6 User has moved to away any@far.example");
  BOOST_TEST((listed("jo@example.org") == Listed::moved));  // local_recipient_maps has jo too
  BOOST_TEST((listed("bo@example.org") == Listed::moved));
  BOOST_TEST((listed("any@far.example") == Listed::moved));
  BOOST_TEST((listed("any@else.example") == Listed::not_checked));
  BOOST_TEST((listed("no@example.org") == Listed::no));
  BOOST_TEST((listed("self@example.org") == Listed::elsewhere));  // a virtual alias takes it elsewhere
  BOOST_TEST(open()->moved("bo@example.org")->value() == "5.1.6 User has moved to Room 7");
  BOOST_TEST(!open()->moved("no@example.org")->has_value());
  BOOST_TEST(!open()->route_by_domain());
  options.relocated_maps = "static:" + std::string(5000, 'x');
  BOOST_TEST(open()->moved("jo@far.example")->value().size() < 500U);
  options.relocated_maps = "static:{a\r\n250 b}";
  BOOST_TEST(open()->moved("jo@far.example")->value().find('\n') == std::string::npos);
  options.relocated_maps = "texthash:/nonexistent/file";
  BOOST_TEST(routed("jo@far.example").starts_with("error: "));
  BOOST_TEST(!open()->listed("jo@example.org").has_value());
}
BOOST_AUTO_TEST_CASE(relocated_prefix_enable_off_gives_the_whole_answer_to_the_table) {
  options.relocated_prefix_enable = false;
  options.relocated_maps =
      "inline:{ { a@far.example = 5.2.1 Account is disabled } { b@far.example = 4.2.1 Come again }"
      " { c@far.example = gone } { d@far.example = 5.2.1 } { e@far.example = 2.1.5 fine } }";
  BOOST_TEST(routed("a@far.example") == "error:5.2.1 Account is disabled a@far.example");
  BOOST_TEST(routed("b@far.example") == "retry:4.2.1 Come again b@far.example");
  for (const std::string who : {"c", "d", "e"})
    BOOST_TEST(routed(who + "@far.example") == "error:5.2.0 Mailbox is unavailable " + who + "@far.example");
}
BOOST_AUTO_TEST_CASE(the_transport_table_overrides_class_and_relayhost) {
  options.relayhost = "[smart.example]";
  options.transport_maps =
      "inline:{ a.example=slow: b.example=:[x.example]:26 c.example=: "
      "d.example=lmtp:unix:private/dovecot"
      " { e.example = error:5.7.1 go away } f.example=error: jo@g.example=smtp:[g1.example]:2525 "
      ".h.example=relay: }";
  BOOST_TEST(routed("u@a.example") == "slow:a.example u@a.example");
  BOOST_TEST(routed("u@b.example") == "smtp:[x.example]:26 u@b.example");
  BOOST_TEST(routed("u@c.example") == "smtp:[smart.example] u@c.example");
  BOOST_TEST(routed("u@d.example") == "lmtp:unix:private/dovecot u@d.example");
  BOOST_TEST(routed("u@e.example") == "error:5.7.1 go away u@e.example");
  BOOST_TEST(routed("u@f.example") == "error:Address is undeliverable u@f.example");
  BOOST_TEST(routed("jo+x@g.example") == "smtp:[g1.example]:2525 jo+x@g.example");
  BOOST_TEST(routed("u@s.h.example") == "relay:s.h.example u@s.h.example");
}
BOOST_AUTO_TEST_CASE(hidden_destinations_behind_our_domain_are_brought_out) {
  BOOST_TEST(routed("jo%far.example@example.org") == "smtp:far.example jo@far.example");
  BOOST_TEST(routed("far.example!jo@example.org") == "smtp:far.example jo@far.example");
  BOOST_TEST(routed("\"jo@far.example\"@example.org") == "smtp:far.example jo@far.example");
  const auto r = open()->route("", "jo%other.example@relay.example");
  BOOST_TEST(r->routed);
  BOOST_TEST(r->nexthop == "relay.example");
  BOOST_TEST(!open()->route("", "jo@relay.example")->routed);
}
BOOST_AUTO_TEST_CASE(invalid_domains_are_bad_addresses) {
  for (const char* bad : {"jo@192.0.2.1", "jo@-a.example", "jo@a..b", "jo@[1.2.3]"}) {
    const auto r = open()->route("", bad);
    BOOST_REQUIRE(r.has_value());
    BOOST_TEST(r->bad_address, bad);
    BOOST_TEST(r->transport == "error");
  }
  options.resolve_numeric_domain = true;
  BOOST_TEST(routed("jo@192.0.2.1") == "smtp:[192.0.2.1] jo@[192.0.2.1]");
  BOOST_TEST(routed("jo@192.0.2.25").starts_with("local:"));  // an address of ours
  BOOST_TEST((open()->class_of("192.0.2.25").value() == AddressClass::local));
  options.resolve_numeric_domain = false;
  BOOST_TEST((open()->class_of("192.0.2.25").value() == AddressClass::other));
}
BOOST_AUTO_TEST_CASE(what_is_in_quotes_is_a_route_unless_resolve_dequoted_address_is_no) {
  const auto is_routed = [&](std::string_view address) { return open()->route("", address)->routed; };
  for (const char* quoted : {"\"jo@far.example\"@example.org", "\"jo%far.example\"@example.org"}) {
    options.resolve_dequoted_address = true;
    BOOST_TEST(routed(quoted) == "smtp:far.example jo@far.example");
    BOOST_TEST(is_routed(std::string(quoted).replace(std::string(quoted).find("@example.org"), 12, "@relay.example")));
    options.resolve_dequoted_address = false;
    BOOST_TEST(routed(quoted) == "local:$myhostname " + std::string(quoted));
    BOOST_TEST(!is_routed(std::string(quoted).replace(std::string(quoted).find("@example.org"), 12, "@relay.example")));
    BOOST_TEST(routed("jo%far.example@example.org") == "smtp:far.example jo@far.example");
  }
}
BOOST_AUTO_TEST_CASE(resolve_null_domain_takes_an_empty_domain_for_this_host) {
  BOOST_TEST(open()->route("", "jo@")->bad_address);
  options.resolve_null_domain = true;
  BOOST_TEST(rewritten("jo@") == "jo@mx.example.org");
  BOOST_TEST(routed("jo@").ends_with(" jo@mx.example.org"));
  BOOST_TEST(!open()->route("", "jo@")->bad_address);
}
BOOST_AUTO_TEST_CASE(virtual_alias_address_length_limit_stops_addresses_that_grow) {
  options.virtual_alias_maps = "regexp:" + grows();
  options.virtual_alias_address_length_limit = 40;
  BOOST_TEST(expanded("a@alias.example")
                 .starts_with("limit: unreasonable virtual_alias_maps map expansion address length for "));
}
BOOST_AUTO_TEST_CASE(settings_of_resolving_come_from_main_cf_by_name) {
  const auto read = [](const std::string& main_cf) {
    config::Surroundings here;
    here.hostname = "mx.example.org";
    return from_settings(
        config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here)
            .settings());
  };
  BOOST_TEST(!read("").resolve_null_domain);
  BOOST_TEST(read("resolve_null_domain = yes\n").resolve_null_domain);
  BOOST_TEST(read("").resolve_dequoted_address);
  BOOST_TEST(!read("resolve_dequoted_address = no\n").resolve_dequoted_address);
  BOOST_TEST(!read("").resolve_numeric_domain);
  BOOST_TEST(read("resolve_numeric_domain = yes\n").resolve_numeric_domain);
  BOOST_TEST(read("").virtual_alias_address_length_limit == 1000u);
  BOOST_TEST(read("virtual_alias_address_length_limit = 50\n").virtual_alias_address_length_limit == 50u);
}
BOOST_AUTO_TEST_CASE(routes_go_by_domain_while_no_table_has_a_say) {
  BOOST_TEST(open()->route_by_domain());  // tables by recipient are not in use
  for (auto setting :
       {&Options::transport_maps, &Options::sender_dependent_relayhost_maps,
        &Options::sender_dependent_default_transport_maps, &Options::mydestination, &Options::virtual_alias_domains,
        &Options::virtual_mailbox_domains, &Options::relay_domains, &Options::relocated_maps}) {
    Site site;
    site.options.*setting = "inline:{ a.example = smtp: }";
    BOOST_TEST(!site.open()->route_by_domain());
  }
}
BOOST_AUTO_TEST_CASE(the_null_recipient_is_the_mailer_daemon) {
  BOOST_TEST(open()->route("", "")->recipient == "MAILER-DAEMON@example.org");
}
BOOST_AUTO_TEST_CASE(a_broken_table_is_an_error_and_not_a_route) {
  options.transport_maps = "texthash:/nonexistent/file";
  BOOST_TEST(routed("jo@far.example").starts_with("error: "));
  options.transport_maps = "";
  options.relay_domains = "fail:x";
  BOOST_TEST(routed("jo@far.example").starts_with("error: "));
}
BOOST_AUTO_TEST_CASE(recipients_are_looked_up_in_the_tables_of_their_class) {
  BOOST_TEST((listed("jo@example.org") == Listed::yes));
  BOOST_TEST((listed("jo+ext@example.org") == Listed::yes));
  BOOST_TEST((listed("no@example.org") == Listed::no));
  for (const char* local : {"mailer-daemon", "Mailer-Daemon", "\"mailer-daemon\"", "double-bounce", "DOUBLE-bounce"}) {
    BOOST_TEST((listed(std::string(local) + "@example.org") == Listed::yes), local);
    BOOST_TEST((listed(std::string(local) + "@[192.0.2.25]") == Listed::yes), local);
    for (const char* domain : {"alias.example", "box.example", "relay.example"})
      BOOST_TEST((listed(std::string(local) + "@" + domain) == Listed::no), local << "@" << domain);
  }
  BOOST_TEST((listed("mailer-daemon+x@example.org") == Listed::no));
  options.double_bounce_sender = "other";
  BOOST_TEST((listed("double-bounce@example.org") == Listed::no));
  BOOST_TEST((listed("other@example.org") == Listed::yes));
  options.local_recipient_maps = "inline:{ jo=x, {two words = x} } unix:passwd.byname";
  BOOST_TEST((listed("\"two words\"@example.org") == Listed::yes));
  BOOST_TEST((listed("\"Two words\"@example.org") == Listed::yes));
  BOOST_TEST((listed("\"no words\"@example.org") == Listed::no));
  BOOST_TEST((listed("ROOT@example.org") == Listed::yes));
  BOOST_TEST((listed("self@example.org") == Listed::elsewhere));  // a virtual alias
  options.sender_canonical_maps = "inline:{ web@example.org = jo@example.org }";
  BOOST_TEST((open()->listed("web@example.org", true).value() == Listed::elsewhere));
  BOOST_TEST((listed("web@example.org") == Listed::no));
  BOOST_TEST((listed("info@alias.example") == Listed::elsewhere));
  BOOST_TEST((listed("no@alias.example") == Listed::no));
  BOOST_TEST((listed("jo@box.example") == Listed::yes));
  BOOST_TEST((listed("no@box.example") == Listed::no));
  BOOST_TEST((listed("no@relay.example") == Listed::no));
  BOOST_TEST((listed("no@far.example") == Listed::not_checked));
  options.local_recipient_maps = "";
  BOOST_TEST((listed("no@example.org") == Listed::not_checked));
}
BOOST_AUTO_TEST_CASE(transport_values_split_at_the_first_colon) {
  BOOST_TEST(parse_transport("smtp:[a]:25").nexthop == "[a]:25");
  BOOST_TEST(parse_transport("local").transport == "local");
  BOOST_TEST(parse_transport(":x").transport.empty());
}
BOOST_AUTO_TEST_SUITE_END()
