#include "lib/receive/tenant/identity.h"

#include <boost/test/unit_test.hpp>

namespace pen::tenant {
namespace {

std::shared_ptr<const Identity> identity(std::vector<std::string> by, std::vector<std::string> maps = {}) {
  config::Settings s;
  s.tenant_identity = std::move(by);
  s.tenant_maps = std::move(maps);
  s.tenant_header = "X-Tenant";
  s.tenant_header_clients = {"192.0.2.0/24"};
  auto opened = Identity::open(s);
  BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
  return *opened;
}
std::string of(const Identity& who, Clues clues) {
  auto name = who.of(clues);
  return name ? *name : "error: " + name.error().message();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tenant_identity)

BOOST_AUTO_TEST_CASE(without_tenant_identity_nobody_is_a_tenant) {
  BOOST_TEST((Identity::open({}).value() == nullptr));
}

BOOST_AUTO_TEST_CASE(the_first_clue_that_is_there_counts) {
  const auto who = identity({"sasl_login", "header", "sender_domain"});
  BOOST_TEST(of(*who, {.login = "Anna", .sender = "x@One.Example", .header = "acme"}) == "anna");
  BOOST_TEST(of(*who, {.login = "", .sender = "x@One.Example", .header = " ACME\t"}) == "acme");
  BOOST_TEST(of(*who, {.login = "", .sender = "x@One.Example", .header = ""}) == "one.example");
  BOOST_TEST(of(*who, {}) == "");
  BOOST_TEST(of(*identity({"sender"}), {.login = "anna", .sender = "X@one.example", .header = ""}) == "x@one.example");
}

BOOST_AUTO_TEST_CASE(tables_name_the_tenant_and_a_last_one_has_the_rest) {
  const auto who = identity({"sender_domain"}, {"inline:{ one.example=Acme, two.example=acme }"});
  BOOST_TEST(of(*who, {.login = "", .sender = "x@one.example", .header = ""}) == "acme");
  BOOST_TEST(of(*who, {.login = "", .sender = "x@two.example", .header = ""}) == "acme");
  BOOST_TEST(of(*who, {.login = "", .sender = "x@three.example", .header = ""}) == "three.example");
  const auto rest = identity({"sender_domain"}, {"inline:{ one.example=acme }", "static:others"});
  BOOST_TEST(of(*rest, {.login = "", .sender = "x@three.example", .header = ""}) == "others");
}

BOOST_AUTO_TEST_CASE(a_table_that_fails_is_an_error_and_nobodys_mail) {
  BOOST_TEST(of(*identity({"sender_domain"}, {"fail:broken"}), {.login = "", .sender = "x@one.example", .header = ""})
                 .starts_with("error: tenant_maps"));
  config::Settings s;
  s.tenant_identity = {"sasl-login"};
  BOOST_TEST(!Identity::open(s).has_value());
  s.tenant_identity = {"header"};
  s.tenant_header = "X Tenant";
  BOOST_TEST(!Identity::open(s).has_value());
}

BOOST_AUTO_TEST_CASE(names_are_fit_for_the_log_and_for_keys) {
  BOOST_TEST(name_of(" A b,\"c\n") == "a_b__c");
  BOOST_TEST(name_of(std::string(300, 'x')).size() == kMaxName);
  std::string two_bytes;
  for (int i = 0; i < 200; ++i) two_bytes += "é";
  BOOST_TEST(name_of(two_bytes).size() == kMaxName - 1);  // none is cut in half
}

BOOST_AUTO_TEST_CASE(the_field_counts_of_some_clients_only) {
  const auto who = identity({"header"});
  BOOST_TEST(who->field() == "X-Tenant");
  BOOST_TEST(who->may_say("unknown", "192.0.2.7").value());
  BOOST_TEST(!who->may_say("unknown", "198.51.100.7").value());
  BOOST_TEST(identity({"sender"})->field() == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::tenant
