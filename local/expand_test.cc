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
  std::optional<uid_t> table_owner, file_owner;
  ExpandRules rules{.domain = "example.org", .delimiters = "+"};
  bool broken = false;
  Lookups all() {
    Lookups lookups;
    lookups.alias = [this](const std::string& key) -> Result<std::optional<OwnedText>> {
      if (broken) return fail_errno("alias table", EIO);
      const auto it = aliases.find(key);
      if (it == aliases.end()) return std::nullopt;
      return OwnedText{it->second, table_owner};
    };
    lookups.include = include();
    lookups.ours = [this](const std::string& address) -> Result<bool> {
      if (routes_broken) return fail_errno("transport table", EIO);
      return address != elsewhere && (address.ends_with("@second.example") || address.ends_with("@example.org"));
    };
    return lookups;
  }
  Result<Expansion> run(const std::string& name) { return expand(name, rules, all()); }
  decltype(Lookups::include) include() {
    return
        [this](const std::string& path, std::optional<uid_t> reader, const std::string& account) -> Result<OwnedText> {
          accounts.push_back(account);
          const auto it = files.find(path);
          if (it == files.end()) return fail_errno(path, ENOENT);
          readers.push_back(reader);
          return OwnedText{it->second, file_owner};
        };
  }
  Result<Expansion> forward(std::string text, std::string extension = "") {
    return expand_forward({std::move(text), "bob", 1001, std::move(extension), been}, rules, all());
  }
  std::vector<std::optional<uid_t>> readers;
  Names accounts, been;
  std::string elsewhere;  // an address that is routed to another host
  bool routes_broken = false;
};

/// Users with mail that is delivered here, to mailbox or forward file; "\\bob" if the forward file is ignored.
Names here(const Expansion& e) {
  Names out;
  if (e.only_user) out.push_back(*e.only_user);
  for (const auto& d : e.direct) {
    if (d.kind == Direct::Kind::user) out.push_back(d.text);
    if (d.kind == Direct::Kind::mailbox) out.push_back("\\" + d.text);
  }
  return out;
}
/// The recipients of the message that is sent on, if it is one message.
Names sent(const Expansion& e) { return e.forwards.size() == 1 ? e.forwards[0].to : Names{}; }
}  // namespace

BOOST_FIXTURE_TEST_SUITE(local_expand, Aliases)

BOOST_AUTO_TEST_CASE(a_value_is_read_into_its_kinds_of_destination) {
  const auto t =
      parse_targets(R"(bob, carol@example.net, "|prog a, b", /var/x, :include:/etc/list, \dave, <eve@x.org>)");
  BOOST_REQUIRE(t);
  const std::vector<AliasTarget> want = {{Kind::address, "bob"},       {Kind::address, "carol@example.net"},
                                         {Kind::command, "prog a, b"}, {Kind::file, "/var/x"},
                                         {Kind::include, "/etc/list"}, {Kind::mailbox, "dave"},
                                         {Kind::address, "eve@x.org"}};
  BOOST_TEST((*t == want));
}

/// A list as it is parsed: a letter for each kind, and the texts.
static std::string read_as(std::string_view list) {
  const auto targets = parse_targets(list);
  BOOST_REQUIRE(targets);
  std::string out;
  for (const auto& t : *targets) {
    constexpr std::string_view kLetters = "amcfi";
    out += (out.empty() ? "" : " ; ");
    out += kLetters[static_cast<std::size_t>(t.kind)];
    out += ' ' + t.text;
  }
  return out;
}

BOOST_AUTO_TEST_CASE(every_form_of_a_destination_is_read_as_its_writer_means_it) {
  struct Form {
    std::string_view list, read;
  };
  static constexpr Form kForms[] = {
      // addresses
      {"bob", "a bob"},
      {"bob@x.org", "a bob@x.org"},
      {"<bob@x.org>", "a bob@x.org"},
      {"Bob Smith <bob@x.org>", "a bob@x.org"},
      {"\"Smith, Bob\" <bob@x.org>", "a bob@x.org"},
      {"Bob /dev/null <bob@x.org>", "a bob@x.org"},
      {"bob@x.org (Bob, the (old) man \\) )", "a bob@x.org"},
      {"(list) bob", "a bob"},
      {"<@a.org,@b.org:bob@x.org>", "a bob@x.org"},
      {"bob @ x.org", "a bob@x.org"},
      {"team: bob@x.org, eve@y.org;", "a bob@x.org ; a eve@y.org"},
      {"nobody:;", ""},
      {"\"bob smith\"@x.org", "a \"bob smith\"@x.org"},
      {"\"bob\"", "a bob"},
      {"bob@[192.0.2.1]", "a bob@[192.0.2.1]"},
      {"bob%x.org", "a bob%x.org"},
      {"x!bob", "a x!bob"},
      {"bob,,eve,", "a bob ; a eve"},
      {"a\"b", "a a ; a b"},
      {"bob;eve@x.org;", "a bob ; a eve@x.org"},
      {"x:y", "a \"x:y\""},
      {"x@y.org:z", "a x@y.org:z"},
      {"mailto:x@y.org", "a \"mailto:x\"@y.org"},
      // separated by white space
      {"bob eve", "a bob ; a eve"},
      {"a@x.org  b@y.org\tc@z.org\r", "a a@x.org ; a b@y.org ; a c@z.org"},
      {"Bob <bob@x.org> Eve <eve@y.org> joe", "a bob@x.org ; a eve@y.org ; a joe"},
      {"\\bob \"|vacation bob\"", "m bob ; c vacation bob"},
      {"\"|vacation bob\" \\bob", "c vacation bob ; m bob"},
      {"bob /var/x :include:/l", "a bob ; f /var/x ; i /l"},
      // mailboxes
      {"\\bob", "m bob"},
      {"\"\\bob\"", "m bob"},
      {"\"\\\\bob\"", "m bob"},
      {"\\bob@x.org", "a bob@x.org"},
      // commands
      {"\"|cmd with blanks\"", "c cmd with blanks"},
      {"|\"cmd with blanks\"", "c cmd with blanks"},
      {"| \"cmd with blanks\"", "c cmd with blanks"},
      {"|cmd", "c cmd"},
      {"|cmd with blanks", "c cmd ; a with ; a blanks"},
      {"| cmd", "c cmd"},
      {"| cmd | other", "c cmd|other"},
      {"|cmd x@x.org", "c cmd ; a x@x.org"},
      {"|cmd >/var/x", "c cmd ; f /var/x"},
      {"|cmd>/var/x", "c cmd ; f /var/x"},
      {"|cmd;x", "c cmd ; a x"},
      {"|cmd:x", "c cmd:x"},
      {"|cmd\\ x", "c cmd x"},
      {"|cmd<bob@x.org>", "a bob@x.org"},
      {"<|cmd>", "c cmd"},
      {"Name <\"|cmd x\">", "c cmd x"},
      {"x\"|cmd\"", "a x ; c cmd"},
      {"|\"cmd a, b\", eve", "c cmd a, b ; a eve"},
      {"|\"cmd a\" eve", "c cmd a ; a eve"},
      {"\"|cmd a\" eve", "c cmd a ; a eve"},
      {"\"|cmd \\\"one word\\\" \\\\n\"", "c cmd \"one word\" \\n"},
      {"|\"cmd \\\"one word\\\"\"", "c cmd \"one word\""},
      {"|cmd \"one word\" x", "c cmd ; a \"one word\" ; a x"},
      {"|\"cmd\"-x", "c cmd ; a -x"},
      {"\"|cmd \"x", "c cmd ; a x"},
      {"\"|cmd\"\"bob\"", "c cmd ; a bob"},
      {"\"|IFS=' ' && exec /usr/bin/procmail -f- || exit 75 #bob\"",
       "c IFS=' ' && exec /usr/bin/procmail -f- || exit 75 #bob"},
      {"\"|(cd /x; cmd)\"", "c (cd /x; cmd)"},
      {"|/bin/cmd (what it is for)", "c /bin/cmd"},
      {"\"| cmd \"", "c cmd"},
      {"|", ""},
      // files
      {"/var/x", "f /var/x"},
      {"\"/var/x y\"", "f /var/x y"},
      {"/var/\"x y\"", "f /var/ ; a \"x y\""},
      {"/var/x>bob", "f /var/x ; a bob"},
      {"/var/x\\ y", "f /var/x y"},
      {"/var/x y", "f /var/x ; a y"},
      {"~/Mail/", "f ~/Mail/"},
      {"\"~/Mail/x y\"", "f ~/Mail/x y"},
      {"/S=bob/C=us/@gate", "f /S=bob/C=us/@gate"},
      // includes
      {":include:/l", "i /l"},
      {":Include: /l", "i /l"},
      {":include:\"/l x\"", "i /l x"},
      {":include: \"/l x\", bob", "i /l x ; a bob"},
      {"\":include:/l x\"", "i /l x"},
      {":include:/l /m", "i /l ; f /m"},
      // what is incomplete, or cannot be an address
      {"\"|cmd", "c cmd"},
      {"bob (not closed", "a bob"},
      {"bob@@x.org", "a \"bob@\"@x.org"},
      {"bob@x..org", "a \"bob@x..org\""},
      {"bob, <eve", "a bob ; a eve"},
      {"\"\"", ""},
      {"", ""},
  };
  for (const auto& form : kForms)
    BOOST_TEST(read_as(form.list) == form.read, form.list << " reads as " << read_as(form.list));
}

BOOST_AUTO_TEST_CASE(a_quote_or_comment_that_does_not_end_takes_one_line_of_a_file) {
  const auto t = parse_target_file("bob (not closed\n\"|cmd\neve\r\n\n");
  BOOST_REQUIRE(t);
  const std::vector<AliasTarget> want = {{Kind::address, "bob"}, {Kind::command, "cmd"}, {Kind::address, "eve"}};
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
  BOOST_TEST(e->only_user.value() == "bob");
  BOOST_TEST(!e->aliased);
}

BOOST_AUTO_TEST_CASE(a_chain_of_aliases_to_one_user_is_delivered_directly) {
  aliases = {{"postmaster", "root"}, {"root", "alice"}};
  const auto e = run("Postmaster");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->only_user.value() == "alice");
  BOOST_TEST(e->aliased);
}

BOOST_AUTO_TEST_CASE(several_destinations_become_recipients_of_a_new_message_each_once) {
  aliases = {{"team", "bob, remote@example.net, carol"}, {"carol", "bob, REMOTE@example.net, dave"}};
  const auto e = run("team");
  BOOST_REQUIRE(e);
  BOOST_TEST(!e->only_user);
  BOOST_TEST((sent(*e) == Names{"remote@example.net", "bob@example.org", "dave@example.org"}));
  BOOST_TEST(e->direct.empty());
}

BOOST_AUTO_TEST_CASE(a_name_within_its_own_alias_is_the_user_and_with_a_backslash_his_mailbox) {
  aliases = {{"bob", "bob, carol"}};
  auto e = run("bob");
  BOOST_REQUIRE(e);
  BOOST_TEST((here(*e) == Names{"bob"}));
  BOOST_TEST((sent(*e) == Names{"carol@example.org"}));
  BOOST_TEST((here(*run("bob+x")) == Names{"bob"}));
  aliases["bob"] = "bob+y@second.example, carol";
  BOOST_TEST((here(*run("bob")) == Names{"bob+y"}));
  aliases = {{"bob", "bob"}};
  BOOST_TEST(run("bob")->only_user.value() == "bob");
  aliases = {{"bob", "\\bob"}};
  e = run("bob");
  BOOST_TEST(!e->only_user);
  BOOST_TEST((here(*e) == Names{"\\bob"}));
}

BOOST_AUTO_TEST_CASE(without_owner_request_special_an_owner_alias_is_any_alias) {
  aliases = {{"list", "a@x.org, b@x.org"}, {"owner-list", "alice"}};
  rules.owner_special = false;
  BOOST_TEST(run("list")->forwards.at(0).sender == "");
}

BOOST_AUTO_TEST_CASE(an_owner_alias_becomes_the_sender) {
  aliases = {{"list", "a@x.org, b@x.org"}, {"owner-list", "alice"}};
  BOOST_TEST(run("list")->forwards.at(0).sender == "owner-list@example.org");
}

BOOST_AUTO_TEST_CASE(extensions_are_tried_whole_and_then_without) {
  aliases = {{"bob+x", "one"}, {"carol", "two"}};
  BOOST_TEST(run("bob+x")->only_user.value() == "one");
  BOOST_TEST(run("carol+y")->only_user.value() == "two");
  BOOST_TEST(run("dave+z")->only_user.value() == "dave+z");
}

BOOST_AUTO_TEST_CASE(include_files_are_read_and_circles_of_them_end) {
  aliases = {{"list", ":include:/l"}};
  files = {{"/l", "a@x.org\n:include:/m\n"}, {"/m", "# more\nb@x.org\n"}};
  BOOST_TEST((sent(*run("list")) == Names{"a@x.org", "b@x.org"}));
  files["/l"] = ":include:/l\n";
  BOOST_TEST(run("list").error().is(LocalError::loop));
  files["/l"] = ":include:/m\n";
  files["/m"] = ":include:/l\nb@x.org\n";
  BOOST_TEST((sent(*run("list")) == Names{"b@x.org"}));
  files.clear();
  BOOST_TEST(run("list").error().is_errno(ENOENT));
  aliases = {{"list", ":include:relative"}};
  BOOST_TEST(run("list").error().is(LocalError::untrusted));
}

BOOST_AUTO_TEST_CASE(commands_and_files_have_the_rights_of_whose_word_they_are) {
  aliases = {{"x", "far@x.org, \"|prog a\", /var/x, :include:/l"}};
  files = {{"/l", "|other\n"}};
  rules.commands.include = true;
  using K = Direct::Kind;
  const auto rights = [&] {
    const auto e = run("x");
    BOOST_REQUIRE(e);
    BOOST_TEST((sent(*e) == Names{"far@x.org"}));
    BOOST_REQUIRE_EQUAL(e->direct.size(), 3U);
    BOOST_TEST((e->direct[0].kind == K::command && e->direct[0].text == "prog a"));
    BOOST_TEST((e->direct[1].kind == K::file && e->direct[1].text == "/var/x"));
    BOOST_TEST((e->direct[2].kind == K::command && e->direct[2].text == "other"));
    BOOST_TEST((e->direct[0].owner == e->direct[1].owner));
    return std::pair(e->direct[0].owner, e->direct[2].owner);
  };
  using Uid = std::optional<uid_t>;
  BOOST_TEST((rights() == std::pair(Uid(), Uid())));
  file_owner = 1002;
  BOOST_TEST((rights() == std::pair(Uid(), Uid(1002))));
  table_owner = 1001;
  readers.clear();
  BOOST_TEST((rights() == std::pair(Uid(1001), Uid(1001))));
  BOOST_TEST((readers == std::vector<Uid>{1001}));
}

BOOST_AUTO_TEST_CASE(in_a_forward_file_everything_has_the_users_rights) {
  files = {{"/l", "|other\n"}};
  file_owner = 1002;
  rules.commands.include = true;
  const auto e = forward("\"|prog\", /home/bob/x, :include:/l\n");
  BOOST_REQUIRE(e);
  BOOST_REQUIRE_EQUAL(e->direct.size(), 3U);
  for (const auto& d : e->direct) BOOST_TEST(d.owner.value() == 1001U);
  BOOST_TEST(readers.at(0).value() == 1001U);
  BOOST_TEST(accounts.at(0) == "bob");
  for (const auto& d : e->direct) BOOST_TEST(d.account == "bob");
}

BOOST_AUTO_TEST_CASE(a_command_where_none_may_be_is_refused_and_the_rest_goes_on) {
  aliases = {{"x", "far@x.org, |prog, /var/x"}};
  rules.commands = rules.files = {};
  const auto e = run("x");
  BOOST_REQUIRE(e);
  BOOST_TEST((sent(*e) == Names{"far@x.org"}));
  BOOST_REQUIRE_EQUAL(e->direct.size(), 2U);
  for (const auto& d : e->direct) BOOST_TEST((d.kind == Direct::Kind::refused));
}

BOOST_AUTO_TEST_CASE(a_list_within_a_list_has_its_own_owner_if_it_has_one) {
  aliases = {{"all", "a@x.org, some, more"},
             {"owner-all", "alice"},
             {"some", "b@x.org"},
             {"owner-some", "betty"},
             {"more", "c@x.org"}};
  auto e = run("all");
  BOOST_REQUIRE(e);
  const std::vector<Group> kept = {{"owner-all@example.org", {"a@x.org", "c@x.org"}},
                                   {"owner-some@example.org", {"b@x.org"}}};
  BOOST_TEST((e->forwards == kept));
  rules.reset_owner = true;
  e = run("all");
  const std::vector<Group> reset = {
      {"owner-all@example.org", {"a@x.org"}}, {"owner-some@example.org", {"b@x.org"}}, {"", {"c@x.org"}}};
  BOOST_TEST((e->forwards == reset));
}

BOOST_AUTO_TEST_CASE(an_owner_alias_that_leads_to_one_address_is_expanded_where_that_is_asked_for) {
  rules.expand_owner = true;
  aliases = {{"list", "a@x.org, b@x.org"}, {"owner-list", "alice"}};
  BOOST_TEST(run("list")->forwards.at(0).sender == "alice@example.org");
  aliases["owner-list"] = "alice@far.example";
  BOOST_TEST(run("list")->forwards.at(0).sender == "alice@far.example");
  aliases["owner-list"] = "alice, bob";
  BOOST_TEST(run("list")->forwards.at(0).sender == "owner-list@example.org");
}

BOOST_AUTO_TEST_CASE(an_extension_goes_on_to_the_addresses_where_that_is_asked_for) {
  aliases = {{"x", "a@x.org, bob, :include:/l"}};
  files = {{"/l", "c@x.org\n"}};
  BOOST_TEST((sent(*run("x+e")) == Names{"a@x.org", "c@x.org", "bob@example.org"}));
  rules.propagate.alias = true;
  BOOST_TEST((sent(*run("x+e")) == Names{"a+e@x.org", "c@x.org", "bob+e@example.org"}));
  rules.propagate.include = true;
  BOOST_TEST((sent(*run("x+e")) == Names{"a+e@x.org", "c+e@x.org", "bob+e@example.org"}));
  BOOST_TEST((sent(*forward("a@x.org\n", "+e")) == Names{"a@x.org"}));
  rules.propagate.forward = true;
  BOOST_TEST((sent(*forward("a@x.org\n", "+e")) == Names{"a+e@x.org"}));
  BOOST_TEST(forward("bob\n", "+e")->only_user.value() == "bob+e");
  BOOST_TEST(forward("\\bob\n", "+e")->direct.at(0).text == "bob+e");  // the mailbox, with $EXTENSION
}

BOOST_AUTO_TEST_CASE(dev_null_discards) {
  aliases = {{"devnull", "/dev/null"}};
  const auto e = run("devnull");
  BOOST_REQUIRE(e);
  BOOST_TEST(e->discard);
  BOOST_TEST(!e->only_user);
}

BOOST_AUTO_TEST_CASE(circles_end) {
  aliases = {{"a", "b"}, {"b", "a"}};
  BOOST_TEST((run("a")->direct == std::vector<Direct>{{Direct::Kind::loop, "a", {}, ""}}));
  aliases = {{"a", "b, carol"}, {"b", "c"}, {"c", "a+x, b, c"}};
  const auto e = run("a");
  BOOST_REQUIRE(e);
  const std::vector<Direct> want = {
      {Direct::Kind::loop, "a", {}, ""}, {Direct::Kind::loop, "b", {}, ""}, {Direct::Kind::user, "c", {}, ""}};
  BOOST_TEST((e->direct == want));
  BOOST_TEST((sent(*e) == Names{"carol@example.org"}));
  aliases.clear();
  for (int i = 0; i < 100; ++i) aliases["n" + std::to_string(i)] = "n" + std::to_string(i + 1);
  BOOST_TEST(run("n0").error().is(LocalError::loop));
}

BOOST_AUTO_TEST_CASE(a_broken_table_is_an_error_and_not_an_unknown_user) {
  broken = true;
  BOOST_TEST(run("bob").error().is_errno(EIO));
}

BOOST_AUTO_TEST_CASE(a_forward_file_sends_on_what_does_not_lead_back_to_its_user) {
  aliases = {{"team", "carol, dave"}, {"circle", ":include:/circle"}};
  files = {{"/circle", ":include:/circle"}};
  const auto e = forward("bob, carol@example.net, dave, eve+x, team, TEAM, circle, fay@second.example\n");
  BOOST_REQUIRE(e);
  BOOST_TEST((here(*e) == Names{"bob"}));
  BOOST_TEST((sent(*e) == Names{"carol@example.net", "dave@example.org", "eve+x@example.org", "team@example.org",
                                "circle@example.org", "fay@second.example"}));
  BOOST_TEST((here(*forward("\\bob\n")) == Names{"\\bob"}));
  BOOST_TEST((sent(*forward("dave\n")) == Names{"dave@example.org"}));
}

BOOST_AUTO_TEST_CASE(what_leads_back_to_the_user_of_a_forward_file_is_followed_at_once) {
  aliases = {{"postmaster", "admin"}, {"admin", "Bob, far@x.org, carol"}, {"self", "\\bob"}, {"both", "both, bob"}};
  for (const auto* self : {"BOB", "bob@example.org", "bob@second.example", "<Bob@Example.Org>"})
    BOOST_TEST(forward(self)->only_user.value() == "bob", self);
  BOOST_TEST(forward("bob+x")->only_user.value() == "bob+x");
  auto e = forward("postmaster@second.example\nold@example.net\n");
  BOOST_REQUIRE(e);
  BOOST_TEST((here(*e) == Names{"bob"}));
  BOOST_TEST((sent(*e) == Names{"far@x.org", "carol@example.org", "old@example.net"}));
  BOOST_TEST((here(*forward("self, carol")) == Names{"\\bob"}));
  BOOST_TEST((here(*forward("both")) == Names{"both", "bob"}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_looked_up_now_in_a_forward_file_waits_and_is_not_sent_on) {
  aliases = {{"team", "dave, :include:/list"}};
  BOOST_TEST(forward("bob, team").error().is_errno(ENOENT));
  files = {{"/list", "bob\n"}};
  routes_broken = true;
  BOOST_TEST(forward("bob@second.example").error().is_errno(EIO));
  routes_broken = false;
  BOOST_TEST((here(*forward("team")) == Names{"bob"}));
  broken = true;
  BOOST_TEST(forward("team").error().is_errno(EIO));
  BOOST_TEST(forward("bob")->only_user.value() == "bob");
}

BOOST_AUTO_TEST_CASE(of_an_alias_that_the_message_has_been_through_a_forward_file_gets_its_user_only) {
  aliases = {{"all", "team, boss@x.org"},
             {"team", "bob, far@x.org, \"|prog\", /dev/null, carol"},
             {"crew", "team, eve"},
             {"other", "eve, fay"}};
  auto e = forward("team, old@x.org");
  BOOST_REQUIRE(e);
  BOOST_TEST((e->through == Names{"team@example.org"}));
  BOOST_TEST((sent(*e) == Names{"far@x.org", "carol@example.org", "old@x.org"}));
  // All addresses that team was reached by.
  for (const auto* address : {"team@example.org", "TEAM+x@second.example", "all@example.org"}) {
    been = {"bob@example.org", address, "nobody@far.example"};
    e = forward("team, old@x.org");
    BOOST_REQUIRE(e);
    BOOST_TEST((here(*e) == Names{"bob"}), address);
    BOOST_TEST((sent(*e) == Names{"old@x.org"}), address);
    BOOST_TEST(e->direct.size() == 1U, address);
    BOOST_TEST(!e->discard, address);
    e = forward("crew, other");
    BOOST_TEST((here(*e) == Names{"bob"}), address);
    BOOST_TEST((sent(*e) == Names{"eve@example.org", "other@example.org"}), address);
  }
  been = {"team@far.example", "bob@example.org"};  // team of another domain
  BOOST_TEST(sent(*forward("team")).size() == 2U);
}

BOOST_AUTO_TEST_CASE(one_user_of_an_alias_whose_mail_goes_another_way_is_sent_on) {
  aliases = {{"sales", "carol"}, {"bob", "bob"}};
  BOOST_TEST(run("sales")->only_user.value() == "carol");
  elsewhere = "carol@example.org";
  BOOST_TEST((sent(*run("sales")) == Names{"carol@example.org"}));
  BOOST_TEST(!run("sales")->only_user);
  BOOST_TEST(run("carol")->only_user.value() == "carol");  // the name itself
  elsewhere.clear();
  routes_broken = true;
  BOOST_TEST((sent(*run("sales")) == Names{"carol@example.org"}));
  BOOST_TEST(run("dave")->only_user.value() == "dave");
  BOOST_TEST(run("bob")->only_user.value() == "bob");
}

BOOST_AUTO_TEST_CASE(a_command_of_an_alias_in_a_forward_file_keeps_the_rights_of_the_alias) {
  aliases = {{"robot", "\"|prog\", bob"}, {"owner-robot", "carol"}};
  const auto e = forward("robot, \"|prog\"\n");
  BOOST_REQUIRE(e);
  BOOST_REQUIRE_EQUAL(e->direct.size(), 3U);
  const Direct alias{Direct::Kind::command, "prog", {}, "owner-robot@example.org", {}};
  const Direct own{Direct::Kind::command, "prog", 1001, {}, "bob"};
  BOOST_TEST((e->direct[0] == alias));
  BOOST_TEST((e->direct[2] == own));
}

BOOST_AUTO_TEST_CASE(an_include_file_within_itself_is_not_read_again) {
  aliases = {{"list", ":include:/l"}};
  files = {{"/l", ":include:/m\n"}, {"/m", ":include:/l\n"}};
  BOOST_TEST(run("list").error().is(LocalError::loop));
  BOOST_TEST(readers.size() == 2U);
  // One after the other is no loop.
  files = {{"/l", ":include:/m\n:include:/m\n"}, {"/m", "far@x.org\n"}};
  BOOST_TEST((sent(*run("list")) == Names{"far@x.org"}));
}

BOOST_AUTO_TEST_CASE(all_include_files_of_an_expansion_have_a_bound_together) {
  const std::string part = "far@x.org\n#" + std::string(kMaxFileBytes / 4 - 12, 'x') + "\n";
  aliases = {{"list", ":include:/a, :include:/b"}, {"one", ":include:/d"}};
  files = {{"/a", part}, {"/b", part + ":include:/c\n"}, {"/c", part}, {"/d", part}};
  BOOST_TEST((sent(*run("list")) == Names{"far@x.org"}));
  files["/c"] = part + ":include:/d\n";
  BOOST_TEST(run("list").error().is(LocalError::too_many));
  // Those of the aliases in a forward file count too.
  BOOST_TEST(forward(":include:/a, :include:/a, :include:/a, one\n").has_value());
  BOOST_TEST(forward(":include:/a, :include:/a, :include:/a, :include:/a, one\n").error().is(LocalError::too_many));
}

BOOST_AUTO_TEST_CASE(destinations_of_files_within_one_another_count_together) {
  rules.limit = 10;
  aliases = {{"list", ":include:/l"}};
  files = {{"/l", "a1@x.org, a2@x.org, a3@x.org, a4@x.org, :include:/m\n"},
           {"/m", "b1@x.org, b2@x.org, b3@x.org, b4@x.org\n"}};
  BOOST_TEST(sent(*run("list")).size() == 8U);
  files["/m"] += "b5@x.org\n";
  BOOST_TEST(run("list").error().is(LocalError::too_many));
}

BOOST_AUTO_TEST_CASE(lists_beyond_the_bound_are_refused_whole) {
  std::string value;
  for (std::size_t i = 0; i <= kMaxTargets; ++i) value += "u" + std::to_string(i) + "@x.org,";
  aliases = {{"big", value}};
  BOOST_TEST(run("big").error().is(LocalError::too_many));
  rules.limit = kMaxTargets + 1;  // alias_destination_limit
  BOOST_TEST(run("big")->forwards.at(0).to.size() == kMaxTargets + 1);
  rules.limit = 10;
  BOOST_TEST(run("big").error().is(LocalError::too_many));
}

BOOST_AUTO_TEST_SUITE_END()
