#include "lib/net/tls/tickets.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::tls {
BOOST_AUTO_TEST_SUITE(ticket_keys)

namespace {

using pen::testing::ManualClock;
using pen::testing::ScratchDir;

struct Fixture {
  ScratchDir dir;
  ManualClock clock;
  std::string file = dir.file("keys");
  TicketKeys keys(seconds lifetime = seconds(100)) { return {file, lifetime, clock}; }
  std::string content() const {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
};
Bytes name_of(const TicketKeys::Key& key) { return std::as_bytes(std::span(key.name)); }

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_key_encrypts_for_one_lifetime_and_opens_for_one_more) {
  TicketKeys all("", seconds(100), clock);
  const auto first = all.current();
  clock.advance(seconds(99));
  BOOST_TEST((all.current().name == first.name));
  clock.advance(seconds(2));
  BOOST_TEST((all.current().name != first.name));
  BOOST_TEST_REQUIRE(all.find(name_of(first)));
  BOOST_TEST(all.ageing(*all.find(name_of(first))));
  clock.advance(seconds(98));
  BOOST_TEST(all.find(name_of(first)));
  clock.advance(seconds(2));
  BOOST_TEST(!all.find(name_of(first)));
}

BOOST_AUTO_TEST_CASE(processes_and_restarts_share_keys_by_the_file) {
  TicketKeys::Key made;
  {
    auto one = keys();
    made = one.current();
    BOOST_TEST(one.problem() == "");
    struct stat facts{};
    BOOST_REQUIRE(::stat(file.c_str(), &facts) == 0);
    BOOST_TEST((facts.st_mode & 0777) == 0600U);
  }
  auto two = keys(), three = keys();
  BOOST_TEST(two.find(name_of(made)));
  BOOST_TEST((two.current().name == made.name));
  BOOST_TEST((three.current().cipher == made.cipher));
  // The first process that needs a new key makes it for all.
  clock.advance(seconds(101));
  const auto next = two.current();
  BOOST_TEST(three.find(name_of(next)));
  BOOST_TEST((three.current().name == next.name));
}

BOOST_AUTO_TEST_CASE(old_keys_leave_the_file) {
  auto all = keys();
  (void)all.current();
  const std::string before = content();
  clock.advance(seconds(201));
  (void)all.current();
  BOOST_TEST(content().size() == before.size());
  BOOST_TEST(content() != before);
}

BOOST_AUTO_TEST_CASE(unknown_names_do_not_make_the_file_be_read_again_and_again) {
  auto one = keys(), two = keys();
  (void)two.current();
  const auto unknown = std::array<std::byte, 16>{};
  BOOST_TEST(!two.find(unknown));
  clock.advance(seconds(101));
  const auto fresh = one.current();
  BOOST_TEST(two.find(name_of(fresh)));  // more than a second has passed since the last look at the file
  clock.advance(seconds(101));
  const auto fresher = one.current();
  BOOST_TEST(!two.find(unknown));
  clock.advance(milliseconds(500));
  BOOST_TEST(two.find(name_of(fresher)));  // the look for `unknown` found this key as well
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_or_that_is_damaged_is_not_trusted) {
  auto one = keys();
  const auto key = one.current();
  ::chmod(file.c_str(), 0644);
  auto two = keys();
  BOOST_TEST(!two.find(name_of(key)));
  (void)two.current();
  BOOST_TEST(two.problem().find("owner alone") != std::string::npos);
  ::chmod(file.c_str(), 0600);
  std::filesystem::resize_file(file, content().size() / 2);
  auto three = keys();
  BOOST_TEST(!three.find(name_of(key)));
  BOOST_TEST((three.current().name != key.name));
  auto four = keys();
  BOOST_TEST((four.current().name == three.current().name));
}

BOOST_AUTO_TEST_CASE(a_calendar_that_is_set_back_makes_a_new_key) {
  auto all = keys();
  const auto key = all.current();
  clock.step_wall(-seconds(50));
  BOOST_TEST((all.current().name != key.name));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tls
