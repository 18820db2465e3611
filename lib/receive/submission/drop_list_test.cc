#include "lib/receive/submission/drop_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/receive/submission/drop_file.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::submission {
BOOST_AUTO_TEST_SUITE(drop_list)

namespace {

struct Fixture {
  testing::ScratchDir scratch;
  const std::string directory = scratch.path().string();
  const std::string id = "4bGNsx3Ynxz1kGz8", other = "4bGNsx3Ynxz1kGz9";

  /// Writes a file that stays unfinished as long as the returned writer lives.
  std::unique_ptr<DropWriter> write(const std::string& name, bool finish = true) const {
    Submission s;
    s.arrival = WallTime(seconds(1'700'000'000));
    s.sender = "ada@example.org";
    s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
    auto writer = DropWriter::create(directory, s, [&] { return name; }).value();
    BOOST_REQUIRE(writer->append("Subject: x\n\nhello\n"));
    if (finish) BOOST_REQUIRE(writer->finish());
    return writer;
  }
  std::optional<Dropped> look(const std::string& name) const { return look_at_drop(directory, name).value(); }
  std::string fault(const std::string& name) const {
    const auto found = look(name);
    return found ? found->fault : "not there";
  }
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_message_is_told_with_its_envelope_its_time_and_its_size) {
  write(id);
  const auto found = look(id).value();
  BOOST_TEST(found.fault == "");
  BOOST_TEST(found.submission.value().sender == "ada@example.org");
  BOOST_TEST(unix_seconds(found.arrival) == 1'700'000'000);
  BOOST_TEST(found.size == std::string("Subject: x\n\nhello\n").size());
}

BOOST_AUTO_TEST_CASE(what_is_being_written_or_was_broken_off_is_left_out) {
  const auto writing = write(id, false);
  BOOST_TEST(fault(id) == "not there");
  BOOST_TEST(fault("4bGNsx3Ynxz1kGz7") == "not there");
}

BOOST_AUTO_TEST_CASE(a_name_leads_nowhere_else) {
  write(id);
  ::mkdir(scratch.file("inner").c_str(), 0700);
  BOOST_TEST(fault("inner/../" + id) == "not there");
  BOOST_TEST(fault("..") == "not there");
  BOOST_TEST(fault("") == "not there");
}

BOOST_AUTO_TEST_CASE(what_is_no_message_is_named_with_the_reason) {
  write(id);
  BOOST_REQUIRE(::rename(scratch.file(id).c_str(), scratch.file(other).c_str()) == 0);
  BOOST_TEST(fault(other) == "it is " + id + " by its content");
  BOOST_REQUIRE(::rename(scratch.file(other).c_str(), scratch.file("\033[2J odd").c_str()) == 0);
  BOOST_TEST(fault("\033[2J odd") == "not a name that pendrop gives");
  write(id);
  BOOST_REQUIRE(::truncate(scratch.file(id).c_str(), 150) == 0);
  BOOST_TEST(fault(id).contains("trailer"));
  BOOST_TEST(look(id)->submission.has_value());
  BOOST_REQUIRE(::truncate(scratch.file(id).c_str(), 5) == 0);
  BOOST_TEST(fault(id) != "");
  BOOST_TEST(!look(id)->submission.has_value());
  BOOST_REQUIRE(::unlink(scratch.file(id).c_str()) == 0);
  BOOST_REQUIRE(::mkfifo(scratch.file(id).c_str(), 0755) == 0);  // opening it would wait for a writer
  BOOST_TEST(fault(id) == "not a regular file");
  BOOST_REQUIRE(::unlink(scratch.file(id).c_str()) == 0);
  BOOST_REQUIRE(::symlink("/etc/passwd", scratch.file(id).c_str()) == 0);
  BOOST_TEST(fault(id) == "not a regular file");
}

BOOST_AUTO_TEST_CASE(names_come_some_at_a_time_and_all_of_them) {
  for (int i = 0; i < 10; ++i) BOOST_REQUIRE(::mkdir(scratch.file("n" + std::to_string(i)).c_str(), 0700) == 0);
  BOOST_REQUIRE(::mkdir(scratch.file(".hidden").c_str(), 0700) == 0);
  DropNames names(directory);
  std::vector<std::string> all;
  for (auto some = names.next(3).value(); !some.empty(); some = names.next(3).value()) {
    BOOST_TEST(some.size() <= 3u);
    BOOST_TEST(std::ranges::is_sorted(some));
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all);
  BOOST_TEST(all.size() == 10u);
  BOOST_TEST(all.front() == "n0");
  BOOST_TEST(DropNames(scratch.file("nowhere")).next(1).error().is_errno(ENOENT));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
