// What master and a program of two versions say to each other in an upgrade (docs/upgrade.md), as release 0.1 has it: a
// new master runs and hears programs of the version before, and starts one again where the new one does not serve.
// Words and options may come to these, which the other version must be able to do without; none may change or go.
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/suite/confine/apply.h"
#include "lib/suite/service/arguments.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/lock.h"

namespace pen::service {

BOOST_AUTO_TEST_SUITE(between_versions)

BOOST_AUTO_TEST_CASE(the_words_of_the_status_socket_stay) {
  BOOST_TEST(kReady == "ready");
  BOOST_TEST(kDrain == "drain");
  BOOST_TEST(kWakeup == "wakeup");
  BOOST_TEST(kLog == "log");
  BOOST_TEST(kLogged == "logged");
  BOOST_TEST(kKept == "kept");
  BOOST_TEST(kFailed == "failed ");
  BOOST_TEST(kConfined == "confined ");
  BOOST_TEST(std::string_view(confine::kViolation) == "violation ");
  BOOST_TEST(kMaxWord >= 1024U);
}

BOOST_AUTO_TEST_CASE(the_descriptors_of_a_program_stay) {
  BOOST_TEST(kMetricsFd == 3);
  BOOST_TEST(kProgramsLockFd == 4);
  BOOST_TEST(kStatusFd == 5);
  BOOST_TEST(kFirstListener == 6);
}

BOOST_AUTO_TEST_CASE(the_command_line_of_the_last_release_is_understood_and_written) {
  const std::vector<std::string> words = {"-n", "smtp", "-t",   "inet", "-s", "2",  "-m", "100", "-p",
                                          "3",  "-c",   "/etc", "-u",   "-v", "-D", "-S", "-H",  "-B",
                                          "-o", "a=b",  "-o",   "c=d",  "x",  "-n", "y"};
  const auto read = Arguments::parse(words);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST((read->service == "smtp" && read->type == "inet" && read->sockets == 2 && read->pages == 3));
  BOOST_TEST((read->limit == 100 && read->config_directory == "/etc" && read->unprivileged && read->debug));
  BOOST_TEST((read->debugger && read->screens && read->helped && read->badged));
  BOOST_TEST(read->overrides.size() == 2U);
  BOOST_TEST(read->rest.size() == 3U);
  BOOST_TEST(read->to_words() == words, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
