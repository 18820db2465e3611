#include "local/from_config.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>

#include "lib/config/config.h"

using namespace pen;
using namespace pen::local;

namespace {

Result<Rules> rules_of(const std::string& main_cf) {
  config::Surroundings here;
  here.hostname = "mail.example.com";
  const auto config = config::Config::parse({"/etc/pen", main_cf, "", {}}, here);
  for (const auto& problem : config.problems()) BOOST_TEST((problem.severity != config::Severity::error), problem.text);
  map::OpenOptions tables;
  tables.substitute = false;
  return rules_from(config.settings(), tables);
}

std::string text(const Places& places) {
  return std::string(places.alias ? "alias " : "") + (places.forward ? "forward " : "") +
         (places.include ? "include" : "");
}
std::string text(bool value) { return value ? "yes" : "no"; }
/// The entry of a table for ada.
std::string text(const map::MapList& maps) {
  const auto value = maps.lookup("ada");
  return value ? value->value_or("-") : value.error().message();
}

/// Every rule with a setting, by the setting's name.
std::map<std::string, std::string> shown(const Rules& rules) {
  return {
      {"myhostname", rules.myhostname},
      {"myorigin", rules.myorigin},
      {"recipient_delimiter", rules.delimiters},
      {"allow_mail_to_commands", text(rules.expansion.commands)},
      {"allow_mail_to_files", text(rules.expansion.files)},
      {"propagate_unmatched_extensions", text(rules.expansion.propagate)},
      {"expand_owner_alias", text(rules.expansion.expand_owner)},
      {"reset_owner_alias", text(rules.expansion.reset_owner)},
      {"owner_request_special", text(rules.expansion.owner_special)},
      {"alias_destination_limit", std::to_string(rules.expansion.limit)},
      {"home_mailbox", rules.home_mailbox},
      {"mail_spool_directory", rules.mail_spool_directory},
      {"mailbox_size_limit", std::to_string(rules.mailbox_size_limit)},
      {"mailbox_delivery_lock", fmt::format("{} {} {}", rules.lock.fcntl ? "fcntl" : "-",
                                            rules.lock.flock ? "flock" : "-", rules.lock.dotlock ? "dotlock" : "-")},
      {"deliver_lock_attempts", std::to_string(rules.lock.attempts)},
      {"deliver_lock_delay", std::to_string(rules.lock.delay.count())},
      {"stale_lock_time", std::to_string(rules.lock.stale.count())},
      {"strict_mailbox_ownership", text(rules.strict_ownership)},
      {"require_home_directory", text(rules.require_home)},
      {"forward_path", fmt::format("{}", fmt::join(rules.forward_paths, " "))},
      {"forward_expansion_filter", rules.forward_filter},
      {"mailbox_command_maps", text(rules.mailbox_commands)},
      {"mailbox_command", rules.mailbox_command},
      {"default_privs", rules.default_privs},
      {"command_expansion_filter", rules.command_filter},
      {"local_command_shell", rules.shell},
      {"command_execution_directory", rules.directory},
      {"execution_directory_expansion_filter", rules.directory_filter},
      {"export_environment", fmt::format("{}", fmt::join(rules.exported, " "))},
      {"command_time_limit", std::to_string(rules.time_limit.count())},
      {"mailbox_transport_maps", text(rules.mailbox_transports)},
      {"fallback_transport_maps", text(rules.fallback_transports)},
      {"mailbox_transport", rules.mailbox_transport},
      {"fallback_transport", rules.fallback_transport},
      {"luser_relay", rules.luser_relay},
      {"prepend_delivered_header", fmt::format("{} {} {}", rules.mark_commands ? "command" : "-",
                                               rules.mark_files ? "file" : "-", rules.mark_forwards ? "forward" : "-")},
  };
}

// A fixed myorigin, or it would change with myhostname; nothing from the environment of the test.
const std::string kUsual = "myorigin = origin.example\nexport_environment = A=usual\n";

struct Row {
  const char *setting, *value, *rule;  // rule: as in shown(); "": the same as the value
};
constexpr Row kRows[] = {
    {"myhostname", "other.example", ""},
    {"myorigin", "elsewhere.example", ""},
    {"recipient_delimiter", "-", ""},
    {"allow_mail_to_commands", "alias", "alias "},
    {"allow_mail_to_commands", "forward", "forward "},
    {"allow_mail_to_commands", "include", "include"},
    {"allow_mail_to_files", "alias", "alias "},
    {"allow_mail_to_files", "forward", "forward "},
    {"allow_mail_to_files", "include", "include"},
    {"propagate_unmatched_extensions", "canonical, alias", "alias "},
    {"propagate_unmatched_extensions", "forward", "forward "},
    {"propagate_unmatched_extensions", "include", "include"},
    {"expand_owner_alias", "yes", ""},
    {"reset_owner_alias", "yes", ""},
    {"owner_request_special", "no", ""},
    {"alias_destination_limit", "77", ""},
    {"home_mailbox", "Maildir/", ""},
    {"mail_spool_directory", "/spool/", ""},
    {"mailbox_size_limit", "77000000", ""},
    {"mailbox_size_limit", "0", ""},
    {"mailbox_delivery_lock", "fcntl", "fcntl - -"},
    {"mailbox_delivery_lock", "flock", "- flock -"},
    {"mailbox_delivery_lock", "dotlock", "- - dotlock"},
    {"deliver_lock_attempts", "7", ""},
    {"deliver_lock_delay", "3s", "3"},
    {"stale_lock_time", "7m", "420"},
    {"strict_mailbox_ownership", "no", ""},
    {"require_home_directory", "yes", ""},
    {"forward_path", "/forward/$user, $home/.fwd", "/forward/$user $home/.fwd"},
    {"forward_expansion_filter", "abc", ""},
    {"mailbox_command_maps", "inline:{ {ada = procmail -t} }", "procmail -t"},
    {"mailbox_command", "procmail $EXTENSION", ""},
    {"default_privs", "games", ""},
    {"command_expansion_filter", "def", ""},
    {"local_command_shell", "/bin/rsh -c", ""},
    {"command_execution_directory", "$home/bin", ""},
    {"execution_directory_expansion_filter", "ghi", ""},
    {"export_environment", "A=own", ""},
    {"command_time_limit", "77s", "77"},
    {"mailbox_transport_maps", "inline:{ {ada = lmtp:box} }", "lmtp:box"},
    {"fallback_transport_maps", "inline:{ {ada = lmtp:back} }", "lmtp:back"},
    {"mailbox_transport", "lmtp:unix:box", ""},
    {"fallback_transport", "smtp:[back]", ""},
    {"luser_relay", "catch+$user@x.example", ""},
    {"prepend_delivered_header", "command", "command - -"},
    {"prepend_delivered_header", "file", "- file -"},
    {"prepend_delivered_header", "forward", "- - forward"},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(local_from_config)

BOOST_AUTO_TEST_CASE(each_setting_changes_its_own_rule_and_no_other) {
  const auto usual = rules_of(kUsual);
  BOOST_REQUIRE_MESSAGE(usual.has_value(), (usual ? "" : usual.error().message()));
  const auto before = shown(*usual);
  std::map<std::string, std::string> tried;
  for (const auto& row : kRows) {
    const std::string setting = row.setting, line = setting + " = " + row.value;
    const auto rules = rules_of(kUsual + line + "\n");
    BOOST_REQUIRE_MESSAGE(rules.has_value(), line + (rules ? "" : ": " + rules.error().message()));
    auto expected = before;
    expected[setting] = *row.rule != '\0' ? row.rule : row.value;
    BOOST_TEST((expected != before), line + " is no change");
    for (const auto& [name, value] : shown(*rules))
      BOOST_TEST(value == expected.at(name), line + " makes " + name + " " + value);
    tried[setting];
  }
  for (const auto& [name, value] : before) BOOST_TEST(tried.contains(name), name);
}

BOOST_AUTO_TEST_CASE(what_applies_where_main_cf_says_nothing) {
  const auto rules = rules_of("");
  BOOST_REQUIRE(rules);
  const std::vector<std::string> paths = {"$home/.forward${recipient_delimiter}${extension}", "$home/.forward"};
  BOOST_TEST(rules->forward_paths == paths, boost::test_tools::per_element());
  const auto all = shown(*rules);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"allow_mail_to_commands", "alias forward "},
                                                                      {"allow_mail_to_files", "alias forward "},
                                                                      {"propagate_unmatched_extensions", ""},
                                                                      {"expand_owner_alias", "no"},
                                                                      {"reset_owner_alias", "no"},
                                                                      {"owner_request_special", "yes"},
                                                                      {"home_mailbox", ""},
                                                                      {"mailbox_size_limit", "51200000"},
                                                                      {"mailbox_delivery_lock", "fcntl - dotlock"},
                                                                      {"deliver_lock_attempts", "20"},
                                                                      {"deliver_lock_delay", "1"},
                                                                      {"strict_mailbox_ownership", "yes"},
                                                                      {"mailbox_command_maps", "-"},
                                                                      {"mailbox_transport", ""},
                                                                      {"luser_relay", ""}})
    BOOST_TEST(all.at(name) == value, name + " is " + all.at(name));
}

BOOST_AUTO_TEST_CASE(words_that_mean_nothing_and_limits_that_do_not_fit_are_named) {
  const auto why = [](const std::string& main_cf) {
    const auto rules = rules_of(main_cf);
    return rules ? std::string("taken") : rules.error().message();
  };
  for (const std::string setting : {"allow_mail_to_commands", "allow_mail_to_files"})
    BOOST_TEST(why(setting + " = alias, hope\n").contains(setting + ": \"hope\" is none of alias, forward, include"));
  BOOST_TEST(why("mailbox_delivery_lock = fcntl, hope\n").contains("no such method: hope"));
  BOOST_TEST(why("mailbox_size_limit = 1000\n").contains("smaller than message_size_limit"));
}

BOOST_AUTO_TEST_SUITE_END()
