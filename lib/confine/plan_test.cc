#include "lib/confine/plan.h"

#include <linux/capability.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/confine/apply.h"

namespace pen::confine {
namespace {

struct Fixture {
  Surroundings around{.machine = {.read = [](const std::string&) { return std::nullopt; },
                                  .port = [](const std::string&) { return std::nullopt; }},
                      .own_directory = "/usr/libexec/penstock"};
  Plan plan(std::string_view program, const std::string& main_cf = "") {
    const auto config = config::Config::parse({.directory = "/etc/penstock",
                                               .main_cf = "queue_directory = /q\ndata_directory = /d\n" + main_cf,
                                               .master_cf = "",
                                               .overrides = {}},
                                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    return make_plan(row_of(program), config, around);
  }
};

std::vector<std::string> written(const Plan& plan) {
  std::vector<std::string> out;
  for (const Place& place : plan.places)
    if (place.writable && place.path != "/dev/null") out.push_back(place.path);
  return out;
}

bool names(const Plan& plan, const std::string& path) {
  return std::ranges::any_of(plan.places, [&](const Place& p) { return p.path == path; });
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(confine_plan, Fixture)

BOOST_AUTO_TEST_CASE(the_smtp_server_reaches_name_servers_and_what_its_settings_name) {
  BOOST_TEST((plan("smtpd").ports == std::vector<std::uint16_t>{53}));
  const Plan more = plan("smtpd", "smtpd_milters = inet:127.0.0.1:8891\ndns_resolver_port = 5353\n");
  BOOST_TEST((more.ports == std::vector<std::uint16_t>{53, 5353, 8891}));
  BOOST_TEST(!more.any_port);
  BOOST_TEST(plan("smtpd", "virtual_alias_maps = mysql:/etc/penstock/users.cf\n").any_port);
}

BOOST_AUTO_TEST_CASE(programs_that_deliver_nowhere_have_no_sockets_of_the_internet) {
  for (const auto* program : {"anvil", "error", "retry", "discard", "qmgr", "bounce", "pickup", "verify"}) {
    BOOST_TEST_CONTEXT(program) BOOST_TEST(!plan(program).internet);
  }
  BOOST_TEST(plan("qmgr", "destdb_backend = redis\n").internet);
  BOOST_TEST((plan("qmgr", "destdb_backend = redis\n").ports == std::vector<std::uint16_t>{6379}));
  BOOST_TEST(plan("pickup", "non_smtpd_milters = inet:127.0.0.1:8891\n").internet);
  BOOST_TEST(!plan("anvil", "destdb_backend = redis\n").internet);
}

BOOST_AUTO_TEST_CASE(only_the_queue_manager_writes_the_queue) {
  BOOST_TEST((written(plan("qmgr")) == std::vector<std::string>{"/q/log", "/q/spool", "/d", "/q/maildrop"}));
  BOOST_TEST((written(plan("pickup")) == std::vector<std::string>{"/q/maildrop", "/q/corrupt"}));
  BOOST_TEST((written(plan("smtpd")) == std::vector<std::string>{"/d/tls_ticket_keys"}));
  BOOST_TEST((written(plan("smtp")) == std::vector<std::string>{}));
  BOOST_TEST(!plan("smtp").writes);
  for (const Program& row : programs()) {
    const Plan p = plan(row.name);
    for (const std::string& place : {"/q", "/d"}) {
      if (row.name == "qmgr") continue;
      BOOST_TEST_CONTEXT(row.name)
      BOOST_TEST(std::ranges::none_of(p.places, [&](const Place& one) { return one.path == place && place == "/q"; }));
    }
  }
}

BOOST_AUTO_TEST_CASE(files_that_settings_name_and_more_may_be_read) {
  const Plan p = plan("smtpd", "smtpd_tls_cert_file = /srv/tls/mx.pem\nconfine_extra_files = /srv/more /srv/else\n");
  for (const auto* path : {"/srv/tls/mx.pem", "/srv/more", "/srv/else", "/etc/penstock", "/usr/libexec/penstock"})
    BOOST_TEST_CONTEXT(path) BOOST_TEST(names(p, path));
}

BOOST_AUTO_TEST_CASE(each_setting_turns_its_part_off) {
  BOOST_TEST(plan("smtpd").privileges);
  BOOST_TEST(!plan("smtpd", "confine_privileges = no\n").privileges);
  BOOST_TEST(!plan("smtpd", "confine_files = no\n").files);
  BOOST_TEST(!plan("smtpd", "confine_system_calls = no\n").system_calls);
  BOOST_TEST(!plan("smtpd", "confine_limits = no\n").limits);
  BOOST_TEST((plan("smtpd", "confine_extra_system_calls = mlock, mkdir\n").more_calls ==
              std::vector<std::string>{"mlock", "mkdir"}));
}

BOOST_AUTO_TEST_CASE(programs_that_become_users_keep_what_that_takes_and_no_more) {
  const Plan p = plan("local");
  BOOST_TEST(!p.files);
  BOOST_TEST(!p.system_calls);
  BOOST_TEST((p.keeps >> CAP_SETUID & 1U) == 1U);
  BOOST_TEST((p.keeps >> CAP_SYS_ADMIN & 1U) == 0U);
  BOOST_TEST((plan("pipe").keeps >> CAP_SYS_CHROOT & 1U) == 1U);
  BOOST_TEST(plan("spawn").whole_bounding_set);
  for (const Program& row : programs())
    if (row.kind == Kind::confined) BOOST_TEST_CONTEXT(row.name) BOOST_TEST(row.keeps == 0U);
}

BOOST_AUTO_TEST_CASE(smtpd_keeps_who_passed_only_where_it_tests_clients) {
  const Place cache{"/kept/passed", Place::Kind::directory, true}, lock{"/kept/passed.lock", Place::Kind::file, true};
  const std::string setting = "postscreen_cache_map = lmdb:/kept/passed\n";
  BOOST_TEST(std::ranges::count(plan("smtpd", setting).places, cache) == 0);
  around.screens = true;
  BOOST_TEST(std::ranges::count(plan("smtpd", setting).places, cache) == 1);
  BOOST_TEST(std::ranges::count(plan("smtpd", setting).places, lock) == 1);
}

BOOST_AUTO_TEST_CASE(an_unknown_program_is_held_by_what_every_program_can_bear) {
  const Plan p = plan("something");
  BOOST_TEST(p.privileges);
  BOOST_TEST(p.limits);
  BOOST_TEST(!p.files);
  BOOST_TEST(!p.system_calls);
}

BOOST_AUTO_TEST_CASE(under_sanitizers_files_and_system_calls_are_free) {
  around.sanitized = true;
  BOOST_TEST(!plan("smtpd").files);
  BOOST_TEST(!plan("smtpd").system_calls);
  BOOST_TEST(plan("smtpd").privileges);
}

BOOST_AUTO_TEST_CASE(a_named_file_opens_its_directory_but_never_one_around_the_queue) {
  using Paths = std::vector<std::string>;
  BOOST_TEST((widened("/nowhere/tables/a.lmdb", {"/nowhere/q"}) == Paths{"/nowhere/tables"}));
  const auto beside = widened("/nowhere/a", {"/nowhere/q"});
  BOOST_TEST(std::ranges::count(beside, "/nowhere") == 0);
  BOOST_TEST(std::ranges::count(beside, "/nowhere/a.lmdb") == 1);
  BOOST_TEST(std::ranges::count(widened("/var/x", {}), "/var") == 0);
  BOOST_TEST(std::ranges::count(widened("/x", {}), "/") == 0);
  BOOST_TEST(stands_alone("/nowhere/a", {"/nowhere/q"}));
  BOOST_TEST(!stands_alone("passwd.byname", {"/nowhere/q"}));
  BOOST_TEST(!stands_alone("/nowhere/tables/a", {"/nowhere/q"}));
  BOOST_TEST((widened("/", {}) == Paths{}));
  BOOST_TEST((widened("/usr", {"/usr/q"}) == Paths{}));
}

BOOST_AUTO_TEST_CASE(what_the_kernel_lacks_is_said) {
  BOOST_TEST(Offers({.landlock = 7, .ports = true, .scopes = true, .filters = true}).missing().empty());
  BOOST_TEST(Offers({.landlock = 0, .filters = true}).missing().size() == 1U);
  BOOST_TEST(Offers({}).missing().size() == 2U);
  BOOST_TEST(InForce({.privileges = true, .files = true}).text() == "privileges files");
  BOOST_TEST(InForce({}).text() == "nothing");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::confine
