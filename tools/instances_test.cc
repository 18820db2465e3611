#include "tools/instances.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"
#include "tools/instance_lifecycle.h"
#include "tools/instance_tool.h"
#include "tools/multi_tool.h"
#include "tools/read_options.h"

namespace pen::tools {
namespace {

using testing::ScratchDir;

InstanceEntry entry(std::string name, std::string group, bool enabled, bool first = false) {
  InstanceEntry e;
  e.directory = "/etc/" + (name.empty() ? "penstock" : name);
  e.name = std::move(name);
  e.group = std::move(group);
  e.enabled = enabled;
  e.first = first;
  return e;
}
std::vector<InstanceEntry> three() {
  std::vector<InstanceEntry> all;
  all.push_back(entry("", "", true, true));
  all.push_back(entry("in", "mx", true));
  all.push_back(entry("out", "mx", false));
  return all;
}
const CommandKinds kKinds{{"start"}, {"stop", "abort"}, {"reload", "flush"}};

/// What each instance gets to do: "in:start out:check".
std::string done(const std::vector<InstanceEntry>& all, const InstanceChoice& choice, std::vector<std::string> words) {
  const auto chosen = choose(all, choice);
  if (!chosen) return chosen.error();
  std::string text;
  for (const Turn& turn : turns(*chosen, words, kKinds, !choice.name.empty())) {
    text += (text.empty() ? "" : " ") + (turn.instance->first ? std::string("-") : turn.instance->name) + ":";
    for (std::size_t i = 0; i < turn.words.size(); ++i) text += (i == 0 ? "" : ",") + turn.words[i];
  }
  return text;
}
InstanceChoice of(std::string group, std::string name = {}) {
  InstanceChoice choice;
  choice.group = std::move(group);
  choice.name = std::move(name);
  return choice;
}

BOOST_AUTO_TEST_SUITE(instances)

BOOST_AUTO_TEST_CASE(one_that_is_not_enabled_is_checked_in_place_of_a_start) {
  BOOST_TEST(done(three(), {}, {"start"}) == "-:start in:start out:check");
  BOOST_TEST(done(three(), of("", "out"), {"start"}) == "out:check");
}

BOOST_AUTO_TEST_CASE(instances_are_stopped_in_reverse_order_and_those_not_enabled_are_left_alone) {
  BOOST_TEST(done(three(), {}, {"stop"}) == "in:stop -:stop");
  BOOST_TEST(done(three(), {}, {"flush"}) == "-:flush in:flush");
  BOOST_TEST(done(three(), of("mx"), {"reload"}) == "in:reload");
  // It may run all the same, and a user who names it means it.
  for (const char* command : {"stop", "abort", "reload", "flush"})
    BOOST_TEST(done(three(), of("", "out"), {command}) == std::string("out:") + command);
}

BOOST_AUTO_TEST_CASE(other_commands_are_for_all_with_their_words) {
  BOOST_TEST(done(three(), {}, {"status", "--json"}) == "-:status,--json in:status,--json out:status,--json");
  InstanceChoice reverse;
  reverse.reverse = true;
  BOOST_TEST(done(three(), reverse, {"status"}) == "out:status in:status -:status");
}

BOOST_AUTO_TEST_CASE(instances_are_chosen_by_group_name_directory_and_as_the_first) {
  BOOST_TEST(done(three(), of("mx"), {"check"}) == "in:check out:check");
  BOOST_TEST(done(three(), of("", "-"), {"check"}) == "-:check");
  BOOST_TEST(done(three(), of("", "/etc/in/"), {"check"}) == "in:check");
  BOOST_TEST(done(three(), of("", "nobody"), {"check"}) == "no instance \"nobody\"");
  BOOST_TEST(done(three(), of("none"), {"check"}) == "no instance is in the group \"none\"");
}

BOOST_AUTO_TEST_CASE(the_first_instance_lists_the_others_and_each_comes_once) {
  const ScratchDir dir;
  dir.write("b/main.cf", "multi_instance_name = b\nmulti_instance_group = g\nmulti_instance_enable = yes\n");
  dir.write("a/main.cf",
            "multi_instance_directories = " + dir.file("b") + " " + dir.file("b/") + " " + dir.file("gone") + "\n");
  const auto first = config::inspect(dir.file("a"));
  BOOST_REQUIRE(first.has_value());
  const auto all = list_instances(*first);
  BOOST_REQUIRE(all.size() == 3U);
  BOOST_TEST((all[0].first && all[0].enabled));
  BOOST_TEST(all[1].name == "b");
  BOOST_TEST(all[1].group == "g");
  BOOST_TEST(all[1].enabled);
  BOOST_TEST(!all[2].fault.empty());
  BOOST_TEST(!all[2].enabled);
  const auto environment = instance_environment(all[1]);
  BOOST_TEST(environment.front() == "MAIL_CONFIG=" + dir.file("b"));
}

BOOST_AUTO_TEST_CASE(what_two_instances_share_and_must_not_is_named) {
  const ScratchDir dir;
  const auto make = [&](const std::string& name, const std::string& settings, const std::string& port) {
    dir.write(name + "/main.cf", "multi_instance_enable = yes\nmulti_instance_name = " + name +
                                     "\ninet_interfaces = 127.0.0.1\n" + settings);
    dir.write(name + "/master.cf", port + " inet n - n - - smtpd\n");
  };
  const auto found = [&] {
    const auto first = config::inspect(dir.file("a"));
    BOOST_REQUIRE(first.has_value());
    std::string text;
    for (const auto& problem : conflicts(list_instances(*first))) text += problem.message() + "\n";
    return text;
  };
  const std::string list = "multi_instance_directories = " + dir.file("b") + "\n";
  make("a", list + "queue_directory = /q/a\ndata_directory = /d/a\n", "2601");
  make("b", "queue_directory = /q/b\ndata_directory = /d/b\n", "2602");
  BOOST_TEST(found() == "");
  make("b", "queue_directory = /q/../q/a\ndata_directory = /d/a\n", "2602");
  BOOST_TEST(found().find("queue_directory") != std::string::npos);
  BOOST_TEST(found().find("data_directory") != std::string::npos);
  make("b", "queue_directory = /q/b\ndata_directory = /d/b\n", "2601");
  BOOST_TEST(found().find("listens on [127.0.0.1]:2601, where the instance a has 2601/inet") != std::string::npos,
             found());
  make("b", "queue_directory = /q/b\ndata_directory = /d/b\nmulti_instance_enable = no\n", "2601");
  BOOST_TEST(found() == "");  // it does not run
  make("b", "queue_directory = /q/b\ndata_directory = /d/b\nmulti_instance_name = a\n", "2602");
  BOOST_TEST(found().find("the same name") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_name_gives_the_directories_as_the_unit_expects_them) {
  BOOST_TEST(directory_name("out") == "penstock-out");
  BOOST_TEST(directory_name("penstock-out") == "penstock-out");
  BOOST_TEST(directory_name("postfix-out") == "postfix-out");
  BOOST_TEST(good_instance_name("out_2"));
  for (const char* bad : {"", "-", "-a", "a/b", "a b", "..", "a.b"}) BOOST_TEST(!good_instance_name(bad), bad);
}

BOOST_AUTO_TEST_CASE(the_options_of_postmulti_are_read_and_what_cannot_be_meant_is_refused) {
  const auto create = read_options<MultiTool>({"-e", "create", "-I", "out", "-G", "mx", "queue_directory=/q"});
  BOOST_REQUIRE(create.has_value());
  BOOST_TEST((create->mode == MultiTool::Mode::change));
  BOOST_TEST(create->change.new_name == "out");
  BOOST_TEST(create->change.new_group == "mx");
  BOOST_TEST(create->change.settings.front() == "queue_directory=/q");
  const auto run = read_options<MultiTool>({"-x", "-i", "out", "penqueue", "-p"});
  BOOST_REQUIRE(run.has_value());
  BOOST_TEST(run->words.back() == "-p");
  BOOST_TEST(refusal<MultiTool>({"-e", "wash", "-i", "out"}).find("unknown action") != std::string::npos);
  BOOST_TEST(refusal<MultiTool>({"-l", "-p", "start"}).find("only one of") != std::string::npos);
  BOOST_TEST(refusal<MultiTool>({"-x", "-a"}).find("which command?") != std::string::npos);
  BOOST_TEST(refusal<MultiTool>({"-l", "-I", "x"}).find("are for -e") != std::string::npos);
  BOOST_TEST(refusal<MultiTool>({"-p", "-j", "status"}).find("-j is for -l") != std::string::npos);
  BOOST_TEST(read_options<MultiTool>({"-l", "-j"})->json);
}

BOOST_AUTO_TEST_CASE(penstock_takes_a_choice_of_instances_before_its_commands) {
  const auto all = read_options<InstanceTool>({"-a", "stop"});
  BOOST_REQUIRE(all.has_value());
  BOOST_TEST((all->multi.mode == MultiTool::Mode::penstock));
  BOOST_TEST(all->multi.words.front() == "stop");
  const auto any = read_options<InstanceTool>({"-g", "mx", "-x", "penqueue", "-p"});
  BOOST_REQUIRE(any.has_value());
  BOOST_TEST((any->multi.mode == MultiTool::Mode::command));
  BOOST_TEST(any->multi.choice.group == "mx");
  BOOST_TEST((read_options<InstanceTool>({"stop"})->multi.mode == MultiTool::Mode::none));
  BOOST_TEST((read_options<InstanceTool>({"list"})->multi.mode == MultiTool::Mode::list));
  BOOST_TEST(refusal<InstanceTool>({"-x", "penqueue"}).find("-x needs") != std::string::npos);
  BOOST_TEST(refusal<InstanceTool>({"-a", "restore", "d"}).find("is for one instance") != std::string::npos);
  BOOST_TEST(refusal<InstanceTool>({"snapshot"}).find("needs a directory") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
