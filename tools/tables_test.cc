#include "tools/tables.h"

#include <boost/test/unit_test.hpp>

namespace pen::tools {
namespace {

BOOST_AUTO_TEST_SUITE(tables_that_settings_name)

/// The settings that are told of this network.
std::vector<std::string> told_of(const std::string& network, const std::string& main_cf) {
  config::Surroundings surroundings;
  surroundings.hostname = "mx.example.org";
  const auto config =
      config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = "", .overrides = {}}, surroundings);
  std::vector<std::string> settings;
  for (const config::Problem& p : table_problems(config))
    if (p.text.contains("\"" + network + "\"")) settings.push_back(p.name);
  return settings;
}

BOOST_AUTO_TEST_CASE(a_network_that_is_faulty_is_told_where_it_is_written) {
  const std::string exclusions = "smtpd_forbid_bare_newline_exclusions", faulty = "10.0.0.1/8";
  using Settings = std::vector<std::string>;
  BOOST_TEST(told_of(faulty, "mynetworks = 10.0.0.1/8\n" + exclusions + " = $mynetworks\n") == Settings{"mynetworks"},
             boost::test_tools::per_element());
  BOOST_TEST(
      told_of(faulty, "nets = 10.0.0.1/8\nmynetworks = ${nets}\n" + exclusions + " =\n") == Settings{"mynetworks"},
      boost::test_tools::per_element());
  const Settings both = told_of(faulty, "mynetworks = 10.0.0.1/8\n" + exclusions + " = 10.0.0.1/8\n");
  BOOST_TEST(both.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
