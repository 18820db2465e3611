#include "lib/send/mailbox/policy.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <limits>

#include "lib/send/mailbox/accounts.h"

using namespace pen;
using namespace pen::mailbox;

namespace {

using Kind = Request::Kind;
using Words = std::vector<std::string>;

Policy policy_of(Policy::Service service) {
  Policy out;
  out.service = service;
  out.kept_uids = {5000, 5001};
  out.kept_gids = {5000, 5002};
  out.round = {.base = "/vmail", .lowest = 1000};
  out.account = {.uid = 33, .gid = 33, .groups = {33}, .name = "list"};
  out.argv = {"/usr/bin/filter", "-f", "${sender}", "--to=<$recipient>", "end"};
  out.environment = {"PATH=/usr/bin"};
  out.directory = "/";
  if (service == Policy::Service::connections) out.at_once = 10;
  return out;
}

Work storing() {
  Work out;
  out.target.base = "/vmail";
  out.target.path = "example.org/jo/";
  return out;
}

Work running(Words argv) {
  Work out;
  out.command.emplace();
  out.command->argv = std::move(argv);
  out.command->environment = {"PATH=/usr/bin"};
  return out;
}

const Words kFiltered = {"/usr/bin/filter", "-f", "ada@a.example", "--to=<jo@b.example>", "end"};

}  // namespace

BOOST_AUTO_TEST_SUITE(helper_policy)

BOOST_AUTO_TEST_CASE(a_request_comes_through_as_it_was) {
  for (const Request& request :
       {Request{Kind::worker, 1000, 1001, "jo"}, Request{Kind::postman, 0, 0, ""}, Request{Kind::connection, 0, 0, ""},
        Request{Kind::worker, ~0U, ~0U, std::string(kMaxAccountName, 'x')}}) {
    const std::string bytes = encode_request(request);
    BOOST_TEST(bytes.size() == kRequestBytes);
    const auto back = parse_request(bytes);
    BOOST_REQUIRE(back);
    BOOST_TEST((*back == request));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_request_is_none) {
  const std::string good = encode_request({Kind::worker, 1000, 1000, "jo"});
  BOOST_TEST(!parse_request(""));
  BOOST_TEST(!parse_request(good.substr(1)));
  BOOST_TEST(!parse_request(good + '\0'));
  for (const std::size_t at : {0U, 3U, 4U, 7U}) {  // mark, version, kind
    std::string bad = good;
    bad[at] = '\7';
    BOOST_TEST(!parse_request(bad), at);
  }
  std::string two_names = good;
  two_names[good.find("jo") + 3] = 'x';
  BOOST_TEST(!parse_request(two_names));
  std::string endless = good;
  for (std::size_t at = good.find("jo"); at < endless.size(); ++at) endless[at] = 'x';
  BOOST_TEST(!parse_request(endless));
}

BOOST_AUTO_TEST_CASE(mailboxes_are_never_roots_or_the_mail_systems) {
  const Policy policy = policy_of(Policy::Service::mailboxes);
  BOOST_TEST(!refusal(policy, {Kind::worker, 1000, 1000, ""}));
  BOOST_TEST(!refusal(policy, {Kind::postman, 0, 0, ""}));
  for (const Request& request :
       {Request{Kind::worker, 0, 1000, ""}, Request{Kind::worker, 1000, 0, ""}, Request{Kind::worker, 999, 1000, ""},
        Request{Kind::worker, 5000, 1000, ""}, Request{Kind::worker, 5001, 1000, ""},
        Request{Kind::worker, 1000, 5002, ""}, Request{Kind::worker, 1000, 1000, "jo"},
        Request{Kind::postman, 1000, 0, ""}, Request{Kind::postman, 0, 0, "jo"}})
    BOOST_TEST(refusal(policy, request).has_value(), request.uid << ":" << request.gid << " " << request.name);
  const auto who = account_of(policy, {Kind::worker, 1000, 1001, ""});
  BOOST_REQUIRE((who && *who));
  BOOST_TEST((*who)->uid == 1000U);
  BOOST_TEST((*who)->groups.empty());
}

BOOST_AUTO_TEST_CASE(a_command_has_the_account_of_master_cf_whoever_asks) {
  const Policy policy = policy_of(Policy::Service::command);
  BOOST_TEST(!refusal(policy, {Kind::worker, 0, 0, ""}));
  BOOST_TEST(refusal(policy, {Kind::worker, 33, 33, ""}).has_value());
  BOOST_TEST(refusal(policy, {Kind::worker, 0, 0, "root"}).has_value());
  BOOST_TEST(refusal(policy, {Kind::postman, 0, 0, ""}).has_value());
  const auto who = account_of(policy, {});
  BOOST_REQUIRE((who && *who));
  BOOST_TEST((*who)->uid == 33U);
  for (const uid_t uid : {0U, 5000U}) {
    Policy bad = policy;
    bad.account.uid = uid;
    BOOST_TEST(refusal(bad, {}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_command_for_connections_is_all_that_its_service_has) {
  const Policy policy = policy_of(Policy::Service::connections);
  const Request connection{Kind::connection, 0, 0, ""};
  BOOST_TEST(!refusal(policy, connection));
  for (const Request& request :
       {Request{Kind::worker, 0, 0, ""}, Request{Kind::postman, 0, 0, ""}, Request{Kind::connection, 33, 33, ""},
        Request{Kind::connection, 0, 0, "root"}, Request{Kind::connection, 1000, 0, ""}})
    BOOST_TEST(refusal(policy, request).has_value(), request.uid << ":" << request.gid << " " << request.name);
  const auto who = account_of(policy, connection);
  BOOST_REQUIRE((who && *who));
  BOOST_TEST((*who)->uid == 33U);
  BOOST_TEST(objection(policy, storing()).has_value());
  BOOST_TEST(objection(policy, running(kFiltered)).has_value());
  for (const uid_t uid : {0U, 5000U}) {
    Policy bad = policy;
    bad.account.uid = uid;
    BOOST_TEST(refusal(bad, connection).has_value());
  }
  for (const gid_t gid : {0U, 5002U}) {
    Policy bad = policy;
    bad.account.gid = gid;
    BOOST_TEST(refusal(bad, connection).has_value());
  }
  using enum Policy::Service;
  for (const auto service : {own, mailboxes, command, users, any})
    BOOST_TEST(refusal(policy_of(service), connection).has_value(), static_cast<int>(service));
}

BOOST_AUTO_TEST_CASE(an_end_comes_through_as_it_was_and_nothing_else_is_one) {
  using End = CommandEnd;
  using enum CommandEnd::Kind;
  for (const End& end :
       {End{exited, 0, 77}, End{exited, 255, 1}, End{signalled, 9, 77}, End{time_limit, 0, 77},
        End{not_executed, 2, 77}, End{not_started, 11, 0}, End{exited, 3, std::numeric_limits<pid_t>::max()}}) {
    const std::string bytes = encode_command_end(end);
    BOOST_TEST(bytes.size() == kCommandEndBytes);
    const auto back = parse_command_end(bytes);
    BOOST_REQUIRE(back);
    BOOST_TEST((*back == end));
    BOOST_TEST(!parse_command_end(bytes + "x"));
    BOOST_TEST(!parse_command_end(bytes.substr(1)));
  }
  for (const End& end : {End{exited, 256, 77}, End{exited, -1, 77}, End{signalled, 0, 77}, End{signalled, 128, 77},
                         End{time_limit, 1, 77}, End{not_executed, 0, 77}, End{not_started, kLargestErrno + 1, 0},
                         End{exited, 0, 0}, End{exited, 0, -1}, End{not_started, 2, 77},
                         End{static_cast<End::Kind>(0), 0, 77}, End{static_cast<End::Kind>(6), 1, 77}})
    BOOST_TEST(!parse_command_end(encode_command_end(end)), static_cast<int>(end.kind) << " " << end.code);
  BOOST_TEST(!parse_command_end(""));
}

BOOST_AUTO_TEST_CASE(users_are_what_the_user_database_says) {
  Policy policy = policy_of(Policy::Service::users);
  policy.spool_group = 8;
  BOOST_TEST(refusal(policy, {Kind::worker, 0, 0, "root"}).has_value());
  BOOST_TEST(refusal(policy, {Kind::worker, 1000, 1000, ""}).has_value());
  BOOST_TEST(refusal(policy, {Kind::worker, 5000, 1000, "mail"}).has_value());
  BOOST_TEST(refusal(policy, {Kind::postman, 0, 0, ""}).has_value());
  const passwd* nobody = ::getpwnam("nobody");
  BOOST_REQUIRE(nobody != nullptr);
  const uid_t uid = nobody->pw_uid;
  const gid_t gid = nobody->pw_gid;
  BOOST_TEST(!refusal(policy, {Kind::worker, uid, gid, "nobody"}));
  const auto who = account_of(policy, {Kind::worker, uid, gid, "nobody"});
  BOOST_REQUIRE((who && *who));
  BOOST_TEST((*who)->gid == gid);
  const auto spool = account_of(policy, {Kind::worker, uid, 8, "nobody"});
  BOOST_REQUIRE((spool && *spool));
  BOOST_TEST((*spool)->gid == 8U);
  BOOST_TEST(!account_of(policy, {Kind::worker, uid, 6, "nobody"}));        // a group that is not the account's
  BOOST_TEST(!account_of(policy, {Kind::worker, uid + 1, gid, "nobody"}));  // another's uid
  BOOST_TEST(!account_of(policy, {Kind::worker, 1000, 1000, "no-such-account"}));
  // Root's group is nobody's, not even where mail_spool_directory has it.
  policy.spool_group = 0;
  BOOST_TEST(refusal(policy, {Kind::worker, uid, 0, "nobody"}).has_value());
  policy.kept_gids.push_back(gid);
  BOOST_TEST(!account_of(policy, {Kind::worker, uid, gid, "nobody"}));
}

BOOST_AUTO_TEST_CASE(a_users_other_groups_come_along_but_none_of_the_mail_systems) {
  // Accounts of this host that have more than one group.
  std::vector<std::string> names;
  ::setgrent();
  while (const group* one = ::getgrent())
    for (char** member = one->gr_mem; *member != nullptr; ++member) names.emplace_back(*member);
  ::endgrent();
  for (const std::string& name : names) {
    const auto account = find_account(name);
    if (!account || !*account || (*account)->identity.uid == 0 || (*account)->identity.gid == 0) continue;
    const Identity& all = (*account)->identity;
    for (const gid_t dropped : all.groups) {
      if (dropped == all.gid) continue;
      Policy policy = policy_of(Policy::Service::users);
      policy.kept_uids.clear();
      policy.kept_gids = {dropped};
      const auto who = account_of(policy, {Kind::worker, all.uid, all.gid, name});
      BOOST_REQUIRE((who && *who));
      std::vector<gid_t> expected = all.groups;
      std::erase_if(expected, [&](gid_t group) { return group == dropped || group == 0; });
      BOOST_TEST((*who)->groups == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(each_program_may_send_the_policy_of_its_own_kind) {
  using enum Policy::Service;
  for (const auto service : {own, mailboxes, command, users, connections, any, tables})
    for (const char* program : {"smtpd", "qmgr", "", "virtual", "pipe", "local", "spawn"}) {
      const std::string name(program);
      const bool own_kind = (name == "virtual" && service == mailboxes) || (name == "pipe" && service == command) ||
                            (name == "local" && service == users) || (name == "spawn" && service == connections);
      const bool delivers = name == "virtual" || name == "pipe" || name == "local" || name == "spawn";
      BOOST_TEST(may_send(name, service) == (own_kind || (delivers && service == own)),
                 name << " " << static_cast<int>(service));
    }
}

BOOST_AUTO_TEST_CASE(where_nobody_is_root_nobody_becomes_anybody) {
  const Policy policy = policy_of(Policy::Service::own);
  BOOST_TEST(!refusal(policy, {}));
  BOOST_TEST(refusal(policy, {Kind::worker, 1000, 1000, ""}).has_value());
  const auto who = account_of(policy, {});
  BOOST_REQUIRE(who);
  BOOST_TEST(!who->has_value());
}

BOOST_AUTO_TEST_CASE(a_process_for_mailboxes_stores_below_the_base_and_does_nothing_else) {
  const Policy policy = policy_of(Policy::Service::mailboxes);
  BOOST_TEST(!objection(policy, storing()));
  std::vector<Work> bad(6, storing());
  bad[0].target.base = "/";
  bad[1].target.path = "a/../../etc/x";
  bad[2].target.follow_links = true;
  bad[3].command.emplace();
  bad[4].read_path = "/vmail/other";
  bad[5].forward_files = {"/vmail/.forward"};
  for (std::size_t i = 0; i < bad.size(); ++i) BOOST_TEST(objection(policy, bad[i]).has_value(), i);
}

BOOST_AUTO_TEST_CASE(a_process_for_a_command_runs_that_command_and_does_nothing_else) {
  const Policy policy = policy_of(Policy::Service::command);
  BOOST_TEST(!objection(policy, running(kFiltered)));
  std::vector<Work> bad(7, running(kFiltered));
  bad[0] = storing();
  bad[1].command->argv[0] = "/bin/sh";
  bad[2].command->environment.emplace_back("LD_PRELOAD=/tmp/x.so");
  bad[3].command->line = "id";
  bad[4].command->directory = "/tmp";
  bad[5].read_path = "/etc/passwd";
  bad[6].command->shell = "/bin/sh -c";
  for (std::size_t i = 0; i < bad.size(); ++i) BOOST_TEST(objection(policy, bad[i]).has_value(), i);
}

BOOST_AUTO_TEST_CASE(words_of_a_command_come_from_those_of_master_cf) {
  const Words written = policy_of(Policy::Service::command).argv;
  BOOST_TEST(fits(kFiltered, written, false));
  BOOST_TEST(fits({"/usr/bin/filter", "-f", "", "--to=<>", "end"}, written, false));
  BOOST_TEST(fits({"/usr/bin/filter", "-f", "a@a", "--to=<x>", "--to=<y>", "end"}, written, false));
  for (const Words& bad : std::vector<Words>{{},
                                             {"/usr/bin/filter", "-f", "a@a", "--to=<x>"},
                                             {"/usr/bin/filter", "-f", "a@a", "--to=<x>", "end", "more"},
                                             {"/usr/bin/filter", "-f", "--to=<x>", "end"},
                                             {"/usr/bin/filter", "-f", "a@a", "--cc=<x>", "end"},
                                             {"/usr/bin/filter", "-f", "a@a", "--to=<x", "end"},
                                             {"/usr/bin/filter", "-f", "-oQ/tmp", "--to=<x>", "end"}})
    BOOST_TEST(!fits(bad, written, false));
  BOOST_TEST(fits({"/usr/bin/filter", "-f", "-oQ/tmp", "--to=<x>", "end"}, written, true));
}

BOOST_AUTO_TEST_CASE(every_form_of_a_macro_is_one) {
  const auto one = [](const char* written, const char* word) { return fits({word}, {written}, false); };
  BOOST_TEST(one("$recipient", "jo@b.example"));
  BOOST_TEST(one("$(recipient)x", "jox"));
  BOOST_TEST(one("a${extension?+$extension}b", "a+listsb"));
  BOOST_TEST(one("a${extension?+$extension}b", "ab"));
  BOOST_TEST(one("$user$domain", "jo"));
  BOOST_TEST(one("5$$", "5$"));
  BOOST_TEST(one("${extension}", "-x"));  // no address: it may begin as it likes
  BOOST_TEST(!one("${mailbox}", "-x"));
  BOOST_TEST(!one("a${extension}b", "a"));
  BOOST_TEST(!one("aa${extension}aa", "aaa"));
}

BOOST_AUTO_TEST_SUITE_END()
