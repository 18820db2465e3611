#include "local/expand.h"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <map>

using namespace pen;
using namespace pen::local;
using Names = std::vector<std::string>;
using Kind = AliasTarget::Kind;

namespace {
struct Aliases {
  std::map<std::string, std::string> aliases, files;
  ExpandRules rules{"example.org", "+"};
  bool broken = false;
  Result<Expansion> run(const std::string& name) {
    Lookups lookups;
    lookups.alias = [this](const std::string& key) -> Result<std::optional<std::string>> {
      if (broken) return fail_errno("alias table", EIO);
      const auto it = aliases.find(key);
      return it == aliases.end() ? std::nullopt : std::optional(it->second);
    };
    lookups.include = [this](const std::string& path) -> Result<std::string> {
      const auto it = files.find(path);
      if (it == files.end()) return fail_errno(path, ENOENT);
      return it->second;
    };
    return expand(name, rules, lookups);
  }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(local_expand, Aliases)

BOOST_AUTO_TEST_CASE(a_value_is_read_into_its_kinds_of_destination) {
  const auto t = parse_targets(
      R"(bob, carol@example.net, "|prog a, b", /var/x, :include:/etc/list, \dave, <eve@x.org>)");
  BOOST_REQUIRE(t);
  const std::vector<AliasTarget> want = {
      {Kind::address, "bob"},       {Kind::address, "carol@example.net"},
      {Kind::command, "prog a, b"}, {Kind::file, "/var/x"},
      {Kind::include, "/etc/list"}, {Kind::mailbox, "dave"},
      {Kind::address, "eve@x.org"}};
  BOOST_TEST((*t == want));
}

BOOST_AUTO_TEST_CASE(comment_lines_and_several_lines_are_understood_in_files) {
  const auto t = parse_target_file("# list\nbob\n  # not this\ncarol@example.net, dave\n");
  BOOST_REQUIRE(t);
  BOOST_TEST(t->size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_name_without_alias_is_its_own_mailbox) {
  const auto e = run("bob");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->only_mailbox.value() == "bob");
  BOOST_TEST(!e->aliased);
}

BOOST_AUTO_TEST_CASE(a_chain_of_aliases_to_one_user_is_delivered_directly) {
  aliases = {{"postmaster", "root"}, {"root", "alice"}};
  const auto e = run("Postmaster");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->only_mailbox.value() == "alice");
  BOOST_TEST(e->aliased);
}

BOOST_AUTO_TEST_CASE(several_destinations_become_recipients_of_a_new_message_each_once) {
  aliases = {{"team", "bob, remote@example.net, carol"},
             {"carol", "bob, REMOTE@example.net, dave"}};
  const auto e = run("team");
  BOOST_REQUIRE(e);
  BOOST_TEST(!e->only_mailbox);
  BOOST_TEST((e->forwards == Names{"remote@example.net", "bob@example.org", "dave@example.org"}));
  BOOST_TEST(e->mailboxes.empty());
}

BOOST_AUTO_TEST_CASE(a_name_within_its_own_alias_is_the_mailbox) {
  aliases = {{"bob", "bob, carol"}};
  const auto e = run("bob");
  BOOST_REQUIRE(e);
  BOOST_TEST((e->mailboxes == Names{"bob"}));
  BOOST_TEST((e->forwards == Names{"carol@example.org"}));
  aliases = {{"bob", "bob"}};
  BOOST_TEST(run("bob")->only_mailbox.value() == "bob");
}

BOOST_AUTO_TEST_CASE(an_owner_alias_becomes_the_sender) {
  aliases = {{"list", "a@x.org, b@x.org"}, {"owner-list", "alice"}};
  BOOST_TEST(run("list")->owner == "owner-list@example.org");
}

BOOST_AUTO_TEST_CASE(extensions_are_tried_whole_and_then_without) {
  aliases = {{"bob+x", "one"}, {"carol", "two"}};
  BOOST_TEST(run("bob+x")->only_mailbox.value() == "one");
  BOOST_TEST(run("carol+y")->only_mailbox.value() == "two");
  BOOST_TEST(run("dave+z")->only_mailbox.value() == "dave+z");
}

BOOST_AUTO_TEST_CASE(include_files_are_read_but_not_from_include_files) {
  aliases = {{"list", ":include:/l"}};
  files = {{"/l", "a@x.org\nb@x.org\n"}};
  BOOST_TEST((run("list")->forwards == Names{"a@x.org", "b@x.org"}));
  files["/l"] = ":include:/l\n";
  BOOST_TEST(!run("list"));
  files.clear();
  BOOST_TEST(run("list").error().is_errno(ENOENT));
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_said_before_anything_is_delivered) {
  aliases = {{"x", "bob, \"|prog\""}, {"y", "/var/mail/y"}};
  BOOST_TEST(run("x").error().is(LocalError::not_supported));
  BOOST_TEST(run("y").error().is(LocalError::not_supported));
}

BOOST_AUTO_TEST_CASE(dev_null_discards) {
  aliases = {{"devnull", "/dev/null"}};
  const auto e = run("devnull");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->discard);
  BOOST_TEST(!e->only_mailbox);
}

BOOST_AUTO_TEST_CASE(circles_end) {
  aliases = {{"a", "b"}, {"b", "a"}};
  const auto e = run("a");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->only_mailbox.value() == "a");
  aliases.clear();
  for (int i = 0; i < 100; ++i) aliases["n" + std::to_string(i)] = "n" + std::to_string(i + 1);
  BOOST_TEST(run("n0").error().is(LocalError::loop));
}

BOOST_AUTO_TEST_CASE(a_broken_table_is_an_error_and_not_an_unknown_user) {
  broken = true;
  BOOST_TEST(run("bob").error().is_errno(EIO));
}

BOOST_AUTO_TEST_CASE(a_forward_file_forwards_and_the_users_own_name_is_the_mailbox) {
  auto e = expand_forward("bob, carol@example.net\n", "bob", rules);
  BOOST_REQUIRE(e);
  BOOST_TEST((e->mailboxes == Names{"bob"}));
  BOOST_TEST((e->forwards == Names{"carol@example.net"}));
  e = expand_forward("\\bob\n", "bob", rules);
  BOOST_TEST(e->only_mailbox.value() == "bob");
  e = expand_forward("dave\n", "bob", rules);
  BOOST_TEST((e->forwards == Names{"dave@example.org"}));
}

BOOST_AUTO_TEST_CASE(lists_beyond_the_bound_are_refused_whole) {
  std::string value;
  for (std::size_t i = 0; i <= kMaxTargets; ++i) value += "u" + std::to_string(i) + "@x.org,";
  aliases = {{"big", value}};
  BOOST_TEST(run("big").error().is(LocalError::too_many));
}

BOOST_AUTO_TEST_SUITE_END()
