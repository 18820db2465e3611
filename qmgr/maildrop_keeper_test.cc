#include "qmgr/maildrop_keeper.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

namespace pen::qmgr {
namespace {

constexpr uid_t kMail = 20000;
const bool is_root = ::geteuid() == 0;
boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return is_root; }

struct Fixture {
  testing::ScratchDir scratch;
  const std::string directory = scratch.file("maildrop");
  const std::string id = "4bGNsx3Ynxz1kGz8";
  std::shared_ptr<MaildropKeeper> keeper;

  Fixture() {
    BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    BOOST_REQUIRE(::mkdir(directory.c_str(), 0700) == 0);
    BOOST_REQUIRE(::chown(directory.c_str(), kMail, kMail) == 0);
    keeper = MaildropKeeper::start(directory, []() -> Result<void> {
               if (::setgroups(0, nullptr) != 0 || ::setgid(kMail) != 0 || ::setuid(kMail) != 0) return fail_errno("x");
               return {};
             }).value();
  }
  void drop(const std::string& name) const {
    submission::Submission s;
    s.arrival = WallTime(seconds(1'700'000'000));
    s.sender = "ada@example.org";
    s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
    const mode_t before = ::umask(022);
    auto writer = submission::DropWriter::create(directory, s, [&] { return name; }).value();
    ::umask(before);
    BOOST_REQUIRE(writer->append("Subject: x\n\nhello\n"));
    BOOST_REQUIRE(writer->finish());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(maildrop_keeper, Fixture, *boost::unit_test::precondition(as_root))

BOOST_AUTO_TEST_CASE(it_lists_opens_and_removes) {
  drop(id);
  submission::DropNames names(keeper->directory().value(), directory);
  BOOST_TEST(names.next(10).value() == std::vector<std::string>{id}, boost::test_tools::per_element());
  const auto entry = keeper->open(id).value();
  BOOST_REQUIRE(entry.has_value());
  const auto found = submission::look_at_drop(id, *entry);
  BOOST_TEST(found.fault == "");
  BOOST_TEST(found.submission.value().sender == "ada@example.org");
  BOOST_TEST((keeper->remove(id).value() == submission::DropRemoved::yes));
  BOOST_TEST((keeper->remove(id).value() == submission::DropRemoved::gone));
  BOOST_TEST(!keeper->open(id).value().has_value());
}

BOOST_AUTO_TEST_CASE(names_lead_nowhere_else) {
  const std::string secret = scratch.write("secret", "root's");
  BOOST_REQUIRE(::chmod(secret.c_str(), 0744) == 0);
  BOOST_REQUIRE(::symlink(secret.c_str(), (directory + "/" + id).c_str()) == 0);
  const auto entry = keeper->open(id).value();
  BOOST_REQUIRE(entry.has_value());
  BOOST_TEST(!entry->file);
  BOOST_TEST(submission::look_at_drop(id, *entry).fault == "not a regular file");
  for (const auto* name : {"../secret", ".", "..", "", "/etc/passwd"}) {
    BOOST_TEST(!keeper->open(name).value().has_value());
    BOOST_TEST((keeper->remove(name).value() == submission::DropRemoved::gone));
  }
  BOOST_TEST(keeper->open(std::string(300, 'x')).error().is_errno(ENAMETOOLONG));
  BOOST_TEST(::access(secret.c_str(), F_OK) == 0);
}

BOOST_AUTO_TEST_CASE(it_has_the_rights_of_its_account_and_no_others) {
  const Fd fd(::open((directory + "/" + id).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0700));
  const auto entry = keeper->open(id).value();
  BOOST_REQUIRE(entry.has_value());
  BOOST_TEST(entry->error == EACCES);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_being_written_is_busy) {
  submission::Submission s;
  s.sender = "ada@example.org";
  s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
  const mode_t before = ::umask(022);
  const auto writer = submission::DropWriter::create(directory, s, [&] { return id; }).value();
  ::umask(before);
  BOOST_TEST(!keeper->open(id).value().has_value());
  BOOST_TEST((keeper->remove(id).value() == submission::DropRemoved::busy));
}

BOOST_AUTO_TEST_CASE(one_that_cannot_become_its_account_serves_nobody) {
  const auto other = MaildropKeeper::start(directory, []() -> Result<void> { return fail_errno("no", EPERM); }).value();
  const auto answer = other->directory();
  BOOST_REQUIRE(!answer.has_value());
  BOOST_TEST((answer.error().is_errno(EPIPE) || answer.error().is_errno(ECONNRESET)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
