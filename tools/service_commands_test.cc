#include "tools/service_commands.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::tools;

BOOST_AUTO_TEST_SUITE(commands_of_services)

namespace {

struct Services {
  pen::testing::ScratchDir scratch;
  /// "level line: text" of all that is about a command; accounts are those of the machine.
  std::string found(const std::string& main, const std::string& master) const {
    const auto config = config::Config::parse({scratch.path(), "myhostname = mx.example\n" + main, master, {}},
                                              {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
    std::string out;
    for (const auto& p : command_problems(config)) {
      if (!p.text.contains("argv=")) continue;
      out += p.severity == config::Severity::warning ? "warning " : "note ";
      out += std::to_string(p.line) + ": " + p.text + "\n";
    }
    return out;
  }
};

const std::string kWaits = "argv=/no/such is not there or cannot be run: mail for this service would wait\n";
const std::string kNoAnswer = "argv=/no/such is not there or cannot be run: who connects gets no answer\n";
const std::string kPipe = "ext unix - n n - - pipe user=nobody argv=/no/such -x\n";
const std::string kSpawn = "policy unix - n n - 0 spawn user=nobody argv=/no/such\n";

}  // namespace

PEN_FIXTURE(Services)

BOOST_AUTO_TEST_CASE(a_program_that_is_not_there_is_a_note_until_something_leads_to_it) {
  BOOST_TEST(found("", kPipe) == "note 1: " + kWaits);
  BOOST_TEST(found("", kSpawn) == "note 1: " + kNoAnswer);
  const auto routes = scratch.write("routes", "a.example smtp:x\nb.example ext:\n");
  for (const std::string& main : {std::string("mailbox_transport = ext:x\n"), std::string("content_filter = ext:\n"),
                                  "transport_maps = texthash:" + routes + "\n"})
    BOOST_TEST(found(main, kPipe) == "warning 1: " + kWaits, main);
  BOOST_TEST(found("", "smtp inet n - n - - smtpd -o content_filter=ext:\n" + kPipe) == "warning 2: " + kWaits);
  for (const char* asks : {"unix:private/policy", "{ unix:private/policy, timeout=5s }", "unix:/x/private/policy"})
    BOOST_TEST(found(std::string("smtpd_client_restrictions = check_policy_service ") + asks + "\n", kSpawn) ==
                   "warning 1: " + kNoAnswer,
               asks);
  BOOST_TEST(found("smtpd_client_restrictions = check_policy_service unix:private/policy2\n", kSpawn) ==
             "note 1: " + kNoAnswer);
  BOOST_TEST(found("", "10031 inet n n n - 0 spawn user=nobody argv=/no/such\n") == "warning 1: " + kNoAnswer);
}

BOOST_AUTO_TEST_CASE(a_program_is_looked_for_as_it_would_be_run) {
  const auto there = scratch.write("there", "#!/bin/sh\n");
  BOOST_TEST(found("", "ext unix - n n - - pipe user=nobody argv=" + there + "\n").contains("cannot be run"));
  ::chmod(there.c_str(), 0755);
  BOOST_TEST(found("", "ext unix - n n - - pipe user=nobody argv=" + there + "\n").empty());
  const std::string root = "ext unix - n n - - pipe user=nobody chroot=" + std::string(scratch.path()) + " argv=";
  BOOST_TEST(found("", root + "/there\n").empty());
  BOOST_TEST(found("", root + there + "\n").contains(" below "));
  BOOST_TEST(found("", "ext unix - n n - - pipe user=nobody argv=cat\n").empty());
  BOOST_TEST(found("", "ext unix - n n - - pipe user=nobody argv=no-such-command\n").contains("argv=no-such-command"));
  BOOST_TEST(found("", "ext unix - n n - - pipe user=nobody argv=/opt/${nexthop}\n").empty());
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_read_are_told_with_the_line) {
  const auto config = config::Config::parse(
      {"/etc/x", "myhostname = mx.example\n", "\n\next unix - n n - - pipe flags=Z user=nobody argv=/bin/true\n", {}},
      {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  const auto all = command_problems(config);
  BOOST_REQUIRE(!all.empty());
  BOOST_TEST(all.front().line == 3);
  BOOST_TEST(all.front().text.contains("service ext/unix would not start if mail came for it: "));
}

BOOST_AUTO_TEST_SUITE_END()
