// The accounts that programs run with, and what is left of root's rights.
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <vector>

#include "lib/suite/service/setup.h"
#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

// Accounts that every Debian has, each with a group of its own.
constexpr const char *kMail = "daemon", *kQueue = "games", *kGroup = "mail";
const bool is_root = ::geteuid() == 0;
boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return is_root; }

struct Fixture {
  testing::ScratchDir scratch;
  config::Config config(const std::string& more) const {
    return config::Config::parse({.directory = "/etc/x",
                                  .main_cf = "queue_directory = " + scratch.path().string() +
                                             "\nmail_owner = " + kMail + "\nsetgid_group = " + kGroup + "\n" + more,
                                  .master_cf = {},
                                  .overrides = {}},
                                 {});
  }
  static Account account(const char* name) {
    const passwd* entry = ::getpwnam(name);
    BOOST_REQUIRE(entry != nullptr);
    return {entry->pw_uid, entry->pw_gid};
  }
  /// Whether it holds in a process with the rights of such a program.
  static bool holds(const config::Config& config, confine::Account as, const std::function<bool()>& what) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto all = owners(config.settings());
      if (!all || !drop_privileges(config.settings(), *all, as)) ::_exit(2);
      ::_exit(what() ? 0 : 1);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_REQUIRE(WEXITSTATUS(status) != 2);
    return status == 0;
  }
};

bool in_group(gid_t gid) {
  std::vector<gid_t> groups(static_cast<std::size_t>(::getgroups(0, nullptr)));
  return ::getgroups(static_cast<int>(groups.size()), groups.data()) >= 0 && std::ranges::count(groups, gid) != 0;
}
bool is_all(const Account& who) {
  uid_t r = 0, e = 0, s = 0;
  gid_t gr = 0, ge = 0, gs = 0;
  return ::getresuid(&r, &e, &s) == 0 && ::getresgid(&gr, &ge, &gs) == 0 && r == who.uid && e == who.uid &&
         s == who.uid && gr == who.gid && ge == who.gid && gs == who.gid && ::setuid(0) != 0;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(accounts, Fixture, *boost::unit_test::precondition(as_root))

BOOST_AUTO_TEST_CASE(each_program_has_its_account_and_the_groups_that_it_needs) {
  const auto c = config(std::string("queue_owner = ") + kQueue + "\n");
  const Account mail = account(kMail), queue = account(kQueue);
  const gid_t drop = ::getgrnam(kGroup)->gr_gid;
  BOOST_TEST(holds(c, confine::Account::mail, [&] { return is_all(mail) && in_group(drop) && !in_group(queue.gid); }));
  BOOST_TEST(holds(c, confine::Account::queue, [&] { return is_all(queue) && in_group(mail.gid) && !in_group(drop); }));
  BOOST_TEST(holds(c, confine::Account::orders,
                   [&] { return is_all({mail.uid, queue.gid}) && in_group(mail.gid) && in_group(drop); }));
}

BOOST_AUTO_TEST_CASE(where_the_queue_has_no_account_of_its_own_all_are_mail_owner_s) {
  const auto c = config("queue_owner = $mail_owner\n");
  const Account mail = account(kMail);
  const gid_t drop = ::getgrnam(kGroup)->gr_gid;
  BOOST_TEST(!owners(c.settings()).value().apart());
  for (const auto as : {confine::Account::mail, confine::Account::queue, confine::Account::orders})
    BOOST_TEST(holds(c, as, [&] { return is_all(mail) && !in_group(drop); }));
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_mail_owner_s_still_is_worked_on_as_mail_owner) {
  const auto c = config(std::string("queue_owner = ") + kQueue + "\n");
  BOOST_TEST(owners(c.settings()).value().apart());
  BOOST_REQUIRE(::mkdir(scratch.file("log").c_str(), 0700) == 0);
  BOOST_REQUIRE(::chown(scratch.file("log").c_str(), account(kMail).uid, 0) == 0);
  BOOST_TEST(!owners(c.settings()).value().apart());
  BOOST_TEST(wanted_owners(c.settings()).value().apart());
}

BOOST_AUTO_TEST_CASE(accounts_that_will_not_do_are_named) {
  BOOST_TEST(wanted_owners(config("queue_owner = no-such-account\n").settings()).error().is(SetupError::no_account));
  BOOST_TEST(wanted_owners(config("queue_owner = root\n").settings()).error().is(SetupError::root_account));
  const auto same = wanted_owners(config("mail_owner = nobody\nqueue_owner = _apt\n").settings());
  if (::getpwnam("_apt") != nullptr && account("_apt").gid == account("nobody").gid)
    BOOST_TEST(same.error().is(SetupError::no_own_group));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
