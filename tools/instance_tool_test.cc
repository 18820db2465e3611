#include "tools/instance_tool.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tools/instance_status.h"
#include "tools/read_options.h"

namespace pen::tools {
BOOST_AUTO_TEST_SUITE(instance_tool)

namespace {

using Command = InstanceTool::Command;

BOOST_AUTO_TEST_CASE(options_stand_before_the_command_and_its_own_behind_it) {
  const auto status = read_options<InstanceTool>({"-c", "etc", "status", "--json"});
  BOOST_REQUIRE(status);
  BOOST_CHECK(status->command == Command::status);
  BOOST_TEST(status->directory == "etc");
  BOOST_TEST(status->json);
  for (const auto& words : std::initializer_list<std::initializer_list<const char*>>{{"init", "here", "--port", "26"},
                                                                                     {"init", "--port=26", "here"}}) {
    const auto made = read_options<InstanceTool>(words);
    BOOST_REQUIRE(made);
    BOOST_TEST(made->instance.directory == "here");
    BOOST_TEST(made->instance.port == 26U);
  }
  BOOST_TEST(read_options<InstanceTool>({"init", "here"})->instance.port == 2525U);
  BOOST_CHECK(read_options<InstanceTool>({"start-fg"})->command == Command::start_foreground);
}

BOOST_AUTO_TEST_CASE(subcommands_of_tls_have_their_own_options) {
  const auto o =
      read_options<InstanceTool>({"-c", "etc", "tls", "enable-server", "-a", "ecdsa", "-b", "384", "a.example"});
  BOOST_REQUIRE(o);
  BOOST_CHECK(o->tls.what == TlsTool::What::enable_server);
  BOOST_TEST(o->tls.algorithm == "ecdsa");
  BOOST_TEST(o->tls.bits == 384);
  BOOST_TEST(o->tls.words == std::vector<std::string>{"a.example"}, boost::test_tools::per_element());
  for (const auto& words :
       std::initializer_list<std::initializer_list<const char*>>{{"tls"},
                                                                 {"tls", "nonsense"},
                                                                 {"tls", "deploy-server-cert", "one"},
                                                                 {"tls", "all-default-client", "more"},
                                                                 {"tls", "enable-client", "-a", "rsa"},
                                                                 {"tls", "new-server-key", "no host"},
                                                                 {"tls", "output-server-tlsa", "-h", "a b"},
                                                                 {"-a", "tls", "all-default-client"},
                                                                 {"non-bdb"},
                                                                 {"non-bdb", "nonsense"}}) {
    const auto wrong = read_options<InstanceTool>(words);
    BOOST_REQUIRE(!wrong);
    BOOST_TEST(wrong.error().status == EX_USAGE);
  }
}

BOOST_AUTO_TEST_CASE(who_calls_postfix_is_understood) {
  BOOST_CHECK(read_options<InstanceTool>({"-v", "drain"})->command == Command::stop);
  BOOST_CHECK(read_options<InstanceTool>({"-D", "quick-start"})->command == Command::start);
  for (const char* word : {"set-permissions", "upgrade-configuration"}) {
    const auto o = read_options<InstanceTool>({word});
    BOOST_REQUIRE(o);
    BOOST_TEST(InstanceTool(*o).run() == 0);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
  const auto refused = [](std::initializer_list<const char*> words, const char* why) {
    const std::string text = refusal<InstanceTool>(words);
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refused({}, "usage: penstock");
  refused({"-c"}, "-c needs a value");
  refused({"drain", "now"}, "drain: unexpected \"now\"");
  refused({"sleep"}, "unknown command \"sleep\"");
  refused({"start", "now"}, "start: unexpected \"now\"");
  refused({"stop", "--json"}, "no such option: --json");
  refused({"init"}, "init needs a directory");
  refused({"init", "a", "b"}, "init: unexpected \"b\"");
  refused({"init", "a", "--port", "65536"}, "--port: a number from 1 to 65535");
}

BOOST_AUTO_TEST_CASE(help_is_for_all_commands_or_for_one) {
  for (const char* option : {"-h", "--help"})
    BOOST_TEST(refusal<InstanceTool>({option}).find("start-fg") != std::string::npos);
  BOOST_TEST(refusal<InstanceTool>({"init", "--help"}).starts_with("usage: penstock [-c DIR] init DIR [--port N]\n"));
}

BOOST_AUTO_TEST_CASE(services_are_a_table_fit_for_a_terminal) {
  const auto status = nlohmann::ordered_json::parse(R"({
      "services": [{"service": "smtp", "state": "up", "pid": 7, "restarts": 1, "program": "smtpd"},
                   {"service": "a\u001bb", "draining": [5]}],
      "not_started": [{"service": "uucp", "why": "no such program"}]})");
  const std::string text = services_table(status);
  BOOST_TEST(text.find("smtp                     up                          7         1  smtpd\n") !=
             std::string::npos);
  BOOST_TEST(text.find("a?b ") != std::string::npos);
  BOOST_TEST(text.find(" - ") != std::string::npos);
  BOOST_TEST(text.find("(an old process is draining)") != std::string::npos);
  BOOST_TEST(text.find("uucp                     not started: no such program\n") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
