#include "lib/suite/confine/plan.h"

#include <linux/capability.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "lib/suite/confine/apply.h"
#include "lib/suite/confine/secrets.h"
#include "lib/testing/suite.h"

namespace pen::confine {
BOOST_AUTO_TEST_SUITE(confine_plan)

namespace {

struct Fixture {
  Surroundings around{.machine = {.read = [](const std::string&) { return std::nullopt; },
                                  .port = [](const std::string&) { return std::nullopt; }},
                      .own_directory = "/usr/libexec/penstock"};
  static config::Config parsed(const std::string& main_cf) {
    return config::Config::parse({.directory = "/etc/penstock",
                                  .main_cf = "queue_directory = /q\ndata_directory = /d\n" + main_cf,
                                  .master_cf = "",
                                  .overrides = {}},
                                 {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  }
  Plan plan(std::string_view program, const std::string& main_cf = "") {
    return make_plan(row_of(program), parsed(main_cf), around);
  }
  static config::Settings settings(const std::string& main_cf) { return parsed(main_cf).settings(); }
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

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(the_smtp_server_reaches_name_servers_and_what_its_settings_name) {
  BOOST_TEST((plan("smtpd").ports == std::vector<std::uint16_t>{53}));
  const Plan more = plan("smtpd", "smtpd_milters = inet:127.0.0.1:8891\ndns_resolver_port = 5353\n");
  BOOST_TEST((more.ports == std::vector<std::uint16_t>{53, 5353, 8891}));
  BOOST_TEST(!more.any_port);
  BOOST_TEST(plan("smtpd", "virtual_alias_maps = mysql:/etc/penstock/users.cf\n").any_port);
}

BOOST_AUTO_TEST_CASE(code_is_made_by_programs_that_have_patterns_for_it) {
  const std::string checks = "header_checks = pcre:/etc/penstock/checks\n";
  BOOST_TEST(plan("smtpd", checks).machine_code);
  BOOST_TEST(plan("pickup", checks).machine_code);
  BOOST_TEST(!plan("smtp", checks).machine_code);
  for (const Program& row : programs()) BOOST_TEST(!plan(row.name).machine_code, row.name);
}

BOOST_AUTO_TEST_CASE(keys_that_opendkim_conf_names_in_a_file_that_it_includes_are_closed) {
  std::map<std::string, std::string> files{
      {"/etc/opendkim.conf", "Include /etc/dkim/more.conf\n"},
      {"/etc/dkim/more.conf", "SigningTable refile:/etc/dkim/senders\ninclude deeper.conf # of the tables\n"},
      {"/etc/dkim/deeper.conf", "KeyTable /etc/dkim/table\n"},
      {"/etc/dkim/table", "k example.org:s1:/etc/dkim/s1.private\n"}};
  around.machine.read = [&](const std::string& file) -> std::optional<std::string> {
    return files.contains(file) ? std::optional(files[file]) : std::nullopt;
  };
  const auto config =
      config::Config::parse({.directory = "/etc/penstock",
                             .main_cf = "queue_directory = /q\ndata_directory = /d\ndkim_signing = yes\n"
                                        "dkim_opendkim_conf = /etc/opendkim.conf\n",
                             .master_cf = "keys unix - - n - - keys\n",
                             .overrides = {}},
                            {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  const auto hidden = make_plan(row_of("smtpd"), config, around).hidden;
  for (const auto* file : {"/etc/dkim/table", "/etc/dkim/s1.private"})
    BOOST_TEST_CONTEXT(file) BOOST_TEST(std::ranges::count(hidden, file) == 1);
  files["/etc/dkim/more.conf"] = "KeyFile /etc/dkim/s2.private\n";
  BOOST_TEST(
      (secrets_of(config, row_of("smtpd"), around.machine).hidden == std::set<std::string>{"/etc/dkim/s2.private"}));
}

BOOST_AUTO_TEST_CASE(a_key_that_only_seals_is_closed_too) {
  std::string text = "KeyTable /etc/dkim/table\n";
  around.machine.read = [&](const std::string& file) -> std::optional<std::string> {
    if (file == "/etc/dkim/table") return "k example.org:s1:/etc/dkim/s1.private\n";
    if (file == "/etc/opendkim.conf") return text;
    return std::nullopt;
  };
  const auto hidden = [&](const std::string& main_cf, const std::string& options = {}) {
    const auto config =
        config::Config::parse({.directory = "/etc/penstock",
                               .main_cf = "queue_directory = /q\ndata_directory = /d\n" + main_cf,
                               .master_cf = "keys unix - - n - - keys\n25 inet n - n - - smtpd" + options + "\n",
                               .overrides = {}},
                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    return secrets_of(config, row_of("smtpd"), around.machine).hidden;
  };
  const std::string table = "dkim_key_table = /etc/dkim/table\n";
  const std::set<std::string> both{"/etc/dkim/table", "/etc/dkim/s1.private"};
  BOOST_TEST(hidden(table).empty());
  BOOST_TEST((hidden(table + "arc_seal_key = k\n") == both));
  BOOST_TEST((hidden(table, " -o arc_seal_key=k") == both));
  const std::string conf = "dkim_opendkim_conf = /etc/opendkim.conf\narc_seal_key = k\n";
  BOOST_TEST((hidden(conf + "dkim_signing = no\n") == both));
  // One that signs with its KeyFile, and seals with a key of its KeyTable.
  text = "KeyTable /etc/dkim/table\nKeyFile /etc/dkim/s2.private\n";
  std::set<std::string> all = both;
  all.insert("/etc/dkim/s2.private");
  BOOST_TEST((hidden(conf + "dkim_signing = yes\n") == all));
}

BOOST_AUTO_TEST_CASE(programs_that_deliver_nowhere_have_no_sockets_of_the_internet) {
  for (const auto* program : {"anvil", "error", "retry", "discard", "qmgr", "bounce", "pickup", "verify"}) {
    BOOST_TEST_CONTEXT(program) BOOST_TEST(!plan(program).internet);
  }
  BOOST_TEST(plan("qmgr", "destdb_backend = redis\n").internet);
  BOOST_TEST((plan("qmgr", "destdb_backend = redis\n").ports == std::vector<std::uint16_t>{53, 6379}));
  const Plan filtered = plan("pickup", "non_smtpd_milters = inet:127.0.0.1:8891\ndns_resolver_port = 5353\n");
  BOOST_TEST(filtered.internet);
  BOOST_TEST((filtered.ports == std::vector<std::uint16_t>{53, 5353, 8891}));
  BOOST_TEST((plan("anvil", "destdb_backend = redis\n").ports == std::vector<std::uint16_t>{53, 6379}));
  BOOST_TEST(!plan("bounce", "destdb_backend = redis\n").internet);
}

BOOST_AUTO_TEST_CASE(programs_that_sign_ask_dns_for_the_records_of_keys_with_dates) {
  const std::string dates = "dkim_signing = yes\ndkim_key_dates = /etc/penstock/dkim/dates\ndns_resolver_port = 5353\n";
  for (const auto* program : {"pickup", "bounce", "smtpd", "qmqpd"}) BOOST_TEST_CONTEXT(program) {
      BOOST_TEST(plan(program, dates).internet);
      BOOST_TEST((plan(program, dates).ports == std::vector<std::uint16_t>{53, 5353}));
    }
  for (const auto* program : {"anvil", "keys", "penapi", "qmgr"})
    BOOST_TEST_CONTEXT(program) BOOST_TEST(!plan(program, dates).internet);
}

BOOST_AUTO_TEST_CASE(the_qmqp_server_reaches_and_reads_what_settings_of_incoming_mail_name) {
  BOOST_TEST((plan("qmqpd").ports == std::vector<std::uint16_t>{53}));
  const Plan p = plan("qmqpd",
                      "non_smtpd_milters = inet:127.0.0.1:8891\nheader_checks = pcre:/srv/checks\n"
                      "qmqpd_authorized_clients = /srv/clients\nsmtpd_client_restrictions = check_client_access "
                      "cidr:/srv/of_smtpd\n");
  BOOST_TEST((p.ports == std::vector<std::uint16_t>{53, 8891}));
  const auto may_read = [&](const std::string& path) {
    return std::ranges::any_of(p.places, [&](const Place& one) { return one.path == path; });
  };
  BOOST_TEST(may_read("/srv/checks"));
  BOOST_TEST(may_read("/srv/clients"));
  BOOST_TEST(!may_read("/srv/of_smtpd"));
}

BOOST_AUTO_TEST_CASE(only_the_queue_manager_writes_the_queue) {
  BOOST_TEST((written(plan("qmgr")) == std::vector<std::string>{"/q/log", "/q/spool", "/q/maildrop", "/d/destdb"}));
  BOOST_TEST((written(plan("pickup")) == std::vector<std::string>{"/q/maildrop", "/q/corrupt"}));
  BOOST_TEST((written(plan("smtpd")) == std::vector<std::string>{"/d/tls_ticket_keys"}));
  BOOST_TEST((written(plan("smtp")) == std::vector<std::string>{}));
  BOOST_TEST((written(plan("qmqpd")) == std::vector<std::string>{}));
  BOOST_TEST(!plan("smtp").writes);
  for (const Program& row : programs()) {
    const Plan p = plan(row.name);
    for (const auto* place : {"/q", "/d"}) BOOST_TEST_CONTEXT(row.name) BOOST_TEST(!names(p, place));
  }
}

BOOST_AUTO_TEST_CASE(what_one_program_keeps_in_data_directory_no_other_writes) {
  using Names = std::vector<std::string>;
  BOOST_TEST((written(plan("anvil")) == Names{"/d/senders", "/d/senders.lock"}));
  BOOST_TEST((written(plan("anvil", "suppression_list = yes\n")) ==
              Names{"/d/senders", "/d/senders.lock", "/d/suppressed", "/d/suppressed.lock"}));
  BOOST_TEST((written(plan("verify")) == Names{"/d/verify_cache", "/d/verify_cache.lock"}));
  BOOST_TEST((written(plan("verify", "address_verify_map = proxy:btree:$data_directory/verify\n")) ==
              Names{"/d/verify", "/d/verify.lock"}));
  BOOST_TEST((written(plan("verify", "address_verify_map =\n")) == Names{}));
  BOOST_TEST((written(plan("penapi")) == Names{"/d/penapi"}));
  BOOST_TEST((written(plan("penapi", "penapi_submission_service = handin\n")) ==
              Names{"/d/penapi", "/d/submissions", "/d/submissions.lock"}));
  BOOST_TEST((written(plan("dmarcrpt")) == Names{"/d/dmarcrpt"}));
  BOOST_TEST((written(plan("trivial-rewrite")) == Names{"/d/mta_sts"}));
  // It reads the policies, for which LMDB takes locks.
  BOOST_TEST((written(plan("tlsrpt")) == Names{"/d/mta_sts/lock.mdb", "/d/mta_sts/open.lock", "/d/tlsrpt"}));
  BOOST_TEST((std::ranges::count(plan("tlsrpt").places, Place{"/d/mta_sts", Place::Kind::directory, false}) == 1));
  around.screens = true;
  std::map<std::string, std::string> owner;
  for (const Program& row : programs())
    for (const std::string& path : written(plan(row.name)))
      if (path.starts_with("/d/"))
        BOOST_TEST(owner.emplace(path, row.name).second, path << " is " << owner[path] << "'s");
}

BOOST_AUTO_TEST_CASE(what_stands_in_data_directory_itself_is_made_for_the_programs) {
  const auto made = [&](const std::string& main_cf) {
    std::set<std::string> out;
    for (const Kept& kept : kept_in_data(settings(main_cf)))
      out.insert(kept.name + (kept.kind == Place::Kind::file ? " file" : "") +
                 (kept.account == Account::queue ? " queue" : ""));
    return out;
  };
  const std::set<std::string> always{"tls_ticket_keys file",
                                     "destdb queue",
                                     "senders",
                                     "senders.lock file",
                                     "mta_sts",
                                     "tlsrpt",
                                     "dmarcrpt",
                                     "events"};
  auto with = [&](std::set<std::string> more) {
    more.insert(always.begin(), always.end());
    return more;
  };
  BOOST_TEST((made("") == with({"penapi", "verify_cache", "verify_cache.lock file", "postscreen_cache",
                                "postscreen_cache.lock file"})));
  BOOST_TEST(
      (made("address_verify_map = lmdb:/elsewhere/a\npostscreen_cache_map =\npenapi_history_map = $data_directory"
            "/a/b\nevent_log_file = $data_directory/log/events.json\n") == with({"log"})));
  BOOST_TEST((made("address_verify_map = lmdb:$data_directory/..\npostscreen_cache_map = lmdb:$data_directory/\n"
                   "penapi_history_map = $data_directory/.\n") == with({"...lock file", ".lock file"})));
  BOOST_TEST(!events_in_data(settings("event_log_file = $data_directory/log/events.json\n")));
  BOOST_TEST(events_in_data(settings("event_accounting_file = $data_directory/a.csv\n")));
}

BOOST_AUTO_TEST_CASE(files_of_events_are_written_by_penevents_alone) {
  const std::string settings = "event_log_file = /logs/events.json\nevent_accounting_file = /more/a.csv\n";
  BOOST_TEST((written(plan("penevents", settings)) == std::vector<std::string>{"/d/events", "/logs", "/more"}));
  BOOST_TEST((written(plan("smtp", settings)) == std::vector<std::string>{}));
  BOOST_TEST(!names(plan("smtp", settings), "/logs/events.json"));
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

BOOST_AUTO_TEST_CASE(the_helper_that_becomes_users_keeps_what_that_takes_and_no_more) {
  const Plan p = plan("become");
  BOOST_TEST(!p.files);
  BOOST_TEST(!p.system_calls);
  for (const int kept : {CAP_SETUID, CAP_SYS_CHROOT}) BOOST_TEST((p.keeps >> kept & 1U) == 1U);
  BOOST_TEST((p.keeps >> CAP_SYS_ADMIN & 1U) == 0U);
  BOOST_TEST(p.whole_bounding_set);
  for (const auto* name : {"local", "virtual", "pipe", "spawn"})
    BOOST_TEST((row_of(name).kind == Kind::confined), name);
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
