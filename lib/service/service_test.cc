#include <boost/test/unit_test.hpp>

#include "lib/service/arguments.h"

namespace pen::service {
namespace {

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(what_master_writes_a_program_reads_back) {
  Arguments a;
  a.service = "submission";
  a.type = "inet";
  a.sockets = 2;
  a.pages = 7;
  a.limit = 50;
  a.config_directory = "/etc/x";
  a.unprivileged = a.debug = a.screens = true;
  a.overrides = {{"smtpd_tls_security_level", "encrypt"}, {"empty", ""}, {"text", "a = b c"}};
  a.rest = {"flags=DRhu", "user=vmail", "-x"};
  const auto b = Arguments::parse(a.to_words());
  BOOST_REQUIRE(b.has_value());
  BOOST_TEST(b->screens);
  BOOST_TEST(b->to_words() == a.to_words(), boost::test_tools::per_element());
  BOOST_TEST(b->pages == 7);
  BOOST_TEST(b->overrides[2].value == "a = b c");
  BOOST_TEST(b->rest == a.rest, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(settings_may_name_their_service) {
  Arguments a;
  a.service = "submission";
  a.overrides = {{"syslog_name", "mx/$service_name"}};
  const auto config =
      config::Config::parse({.directory = "/etc/x", .main_cf = {}, .master_cf = {}, .overrides = a.settings()}, {});
  BOOST_TEST(config.settings().syslog_name == "mx/submission");
}

BOOST_AUTO_TEST_CASE(a_bad_command_line_is_named) {
  BOOST_TEST(Arguments::parse({"-n"}).error() == "option -n needs a value");
  BOOST_TEST(Arguments::parse({"-s", "many"}).error() == "option -s: bad value \"many\"");
  BOOST_TEST(!Arguments::parse({"-o", "novalue"}).has_value());
  BOOST_TEST(!Arguments::parse({"--frobnicate"}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
