#include "lib/map/map.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>

#include "lib/map/cdb_file.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/match_list.h"
#include "lib/map/notes.h"
#include "lib/map/passed_over.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::map;
using pen::testing::ManualClock;
using pen::testing::ScratchDir;

namespace {
std::string shown(const Value& v) {
  if (!v) return "error: " + v.error().message();
  return v->value_or("(none)");
}
std::string shown(const AddressValue& v) {
  if (!v) return "error: " + v.error().message();
  if (!*v) return "(none)";
  return (*v)->key + "=" + (*v)->value + ((*v)->delimiter != '\0' ? "+" + (*v)->extension : "");
}
struct Tables {
  ScratchDir dir;
  ManualClock clock;
  OpenOptions options;
  Tables() { options.clock = &clock; }
  std::shared_ptr<Map> table(const std::string& type, const std::string& text) {
    return must(type + ":" + dir.write(type, text));
  }
  std::shared_ptr<Map> must(const std::string& spec) {
    auto m = open(spec, options);
    BOOST_REQUIRE_MESSAGE(m.has_value(), (m ? "" : m.error().message()));
    return *m;
  }
  MapList list(const std::string& value) {
    auto l = MapList::open(value, options);
    BOOST_REQUIRE(l.has_value());
    return *l;
  }
  void rewrite(const std::string& type, const std::string& text) {
    std::filesystem::remove(dir.file(type));
    dir.write(type, text);
    clock.advance(seconds(2));
  }
};
}  // namespace

BOOST_FIXTURE_TEST_SUITE(maps, Tables)

BOOST_AUTO_TEST_CASE(texthash_reads_keys_values_comments_and_continuation_lines) {
  auto m = table("texthash", "# comment\nA@B.org  one\n\ntwo three\n   four\n# inside\n  five\n");
  BOOST_TEST(shown(m->lookup("a@b.ORG")) == "one");
  BOOST_TEST(shown(m->lookup("two")) == "three   four  five");
  BOOST_TEST(shown(m->lookup("four")) == "(none)");
}
BOOST_AUTO_TEST_CASE(a_missing_file_is_a_temporary_failure_until_it_is_there) {
  auto m = must("texthash:" + dir.file("texthash"));
  BOOST_TEST(shown(m->lookup("a")).starts_with("error"));
  BOOST_TEST(m->problem().has_value());
  rewrite("texthash", "a b\n");
  BOOST_TEST(shown(m->lookup("a")) == "b");
  BOOST_TEST(!m->problem().has_value());
}
BOOST_AUTO_TEST_CASE(lines_of_a_text_table_that_cannot_be_read_are_passed_over_and_told) {
  auto m = table("texthash", "a b\nlonely\n\"open x\nc d\n");
  BOOST_TEST(shown(m->lookup("a")) == "b");
  BOOST_TEST(shown(m->lookup("c")) == "d");
  BOOST_TEST(shown(m->lookup("lonely")) == "(none)");
  BOOST_TEST(!m->problem().has_value());
  const auto notes = m->notes();
  BOOST_REQUIRE(notes.size() == 2U);
  BOOST_TEST(notes[0].find("texthash, line 2: expected format") != std::string::npos);
  BOOST_TEST(notes[1].find("texthash, line 3: unbalanced") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(of_equal_keys_of_a_text_table_the_first_one_stays_and_the_others_are_told) {
  auto m = table("texthash", "a 1\nb 2\n# c\nA 3\n");
  BOOST_TEST(shown(m->lookup("a")) == "1");
  BOOST_TEST(!m->problem().has_value());
  const auto notes = m->notes();
  BOOST_REQUIRE(notes.size() == 1U);
  BOOST_TEST(notes[0].starts_with(dir.file("texthash") + ", line 4: duplicate entry: \"A\""), notes[0]);
}
BOOST_AUTO_TEST_CASE(of_very_many_lines_that_are_passed_over_the_first_are_told_and_the_number_of_the_rest) {
  std::string text = "a b\n";
  for (int i = 0; i < 1000; ++i) text += "lonely\n";
  auto m = table("texthash", text);
  const auto notes = m->notes();
  BOOST_TEST(notes.size() == PassedOver::kMax + 1);
  BOOST_TEST(notes.back() == dir.file("texthash") + ": and 950 more such lines");
}
BOOST_AUTO_TEST_CASE(lines_that_are_passed_over_are_told_once_for_each_change_of_the_file_whoever_reads_it) {
  std::vector<std::string> told;
  on_table_note([&](const std::string& note) { told.push_back(note); });
  for (const std::string type : {"texthash", "pcre", "cidr"}) {
    auto m = table(type, "a b\n");
    const auto ask = [&] { (void)m->lookup("192.0.2.1"); };
    ask();
    told.clear();
    rewrite(type, "lonely\n");
    for (int i = 0; i < 10; ++i) {
      ask();
      clock.advance(seconds(2));
    }
    BOOST_TEST(told.size() == 1U);
    BOOST_TEST(told.front().starts_with(dir.file(type) + ", line 1: "));
    (void)must(m->name())->lookup("192.0.2.1");
    BOOST_TEST(told.size() == 1U);
    rewrite(type, "lonely\nlonely\n");
    ask();
    BOOST_TEST(told.size() == 3U);
    rewrite(type, type == "pcre" ? "/a/ b\n" : "192.0.2.1 x\n");
    ask();
    BOOST_TEST(told.size() == 3U);
  }
  auto database = table("mysql", "query = x\nhosts = a\n");
  (void)database->problem();
  told.clear();
  rewrite("mysql", "query = x\nhosts = a\nqueri = y\n");
  for (int i = 0; i < 2; ++i) (void)database->problem();
  BOOST_REQUIRE(told.size() == 1U);
  BOOST_TEST(told.front() == dir.file("mysql") + ": unknown parameter queri is passed over");
  on_table_note({});
}
BOOST_AUTO_TEST_CASE(changes_of_a_file_are_noticed_after_a_second) {
  auto m = table("texthash", "a 1\n");
  BOOST_TEST(shown(m->lookup("a")) == "1");
  std::filesystem::remove(dir.file("texthash"));
  dir.write("texthash", "a 22\n");
  BOOST_TEST(shown(m->lookup("a")) == "1");
  clock.advance(seconds(2));
  BOOST_TEST(shown(m->lookup("a")) == "22");
}
BOOST_AUTO_TEST_CASE(inline_tables_hold_pairs_with_and_without_braces) {
  auto m = must("inline:{ a=1, b = 2, { c = x, y } d=4 }");
  BOOST_TEST(shown(m->lookup("A")) == "1");
  BOOST_TEST(shown(m->lookup("b")) == "2");
  BOOST_TEST(shown(m->lookup("c")) == "x, y");
  BOOST_TEST(shown(m->lookup("d")) == "4");
  BOOST_TEST(shown(must("inline:{ a=1 a=2 }")->lookup("a")) == "2");  // as Postfix has it
  BOOST_TEST(open("inline:{ a }", options).error().is(MapError::bad_spec));
}
BOOST_AUTO_TEST_CASE(static_tables_answer_everything) {
  BOOST_TEST(shown(must("static:5000")->lookup("x")) == "5000");
  BOOST_TEST(shown(must("static:{ a b }")->lookup("x")) == "a b");
}
BOOST_AUTO_TEST_CASE(the_account_table_knows_root_and_not_strangers) {
  auto m = must("proxy:unix:passwd.byname");
  BOOST_TEST(shown(m->lookup("root")).starts_with("root:*:0:0:"));
  BOOST_TEST(shown(m->lookup("no-such-user-here")) == "(none)");
}
BOOST_AUTO_TEST_CASE(the_group_table_names_the_members_of_a_group) {
  auto m = must("unix:group.byname");
  BOOST_TEST(shown(m->lookup("root")).starts_with("root:*:0:"));
  BOOST_TEST(shown(m->lookup("no-such-group-here")) == "(none)");
  BOOST_TEST(open("unix:shadow.byname", options).error().is(MapError::bad_spec));
}
BOOST_AUTO_TEST_CASE(a_back_reference_of_regexp_is_passed_over_because_it_may_take_any_time) {
  auto m =
      must("regexp:{{/^Subject:.*(.+)\\1\\1x/ REJECT}, {/[\\1]b/ brackets}, {/[]\\1[:alpha:]]q/ class}, {/S/ other}}");
  BOOST_TEST(shown(m->lookup("Subject: " + std::string(400, 'a'))) == "other");
  BOOST_TEST(m->notes().at(0).contains("line 1: a back-reference may take any time"));
  BOOST_TEST(m->notes().size() == 1U);
  BOOST_TEST(shown(m->lookup("1b")) == "brackets");
  BOOST_TEST(shown(m->lookup("xq")) == "class");
  BOOST_TEST(must("regexp:{{/(a)\\\\1/ x}}")->notes().empty());
}
BOOST_AUTO_TEST_CASE(unknown_types_fail_to_open_alone_but_fail_temporarily_in_a_list) {
  BOOST_TEST(open("nosuch:/x", options).error().is(MapError::unknown_type));
  BOOST_TEST(open(":x", options).error().is(MapError::bad_spec));
  auto l = list("inline:{a=1} nosuch:/x");
  BOOST_TEST(shown(l.lookup("a")) == "1");
  BOOST_TEST(shown(l.lookup("b")).starts_with("error"));
  BOOST_TEST(l.problems().size() == 1U);
}
BOOST_AUTO_TEST_CASE(in_a_list_the_first_hit_wins) {
  auto l = list("inline:{a=1},inline:{a=2, b=2}");
  BOOST_TEST(shown(l.lookup("a")) == "1");
  BOOST_TEST(shown(l.lookup("b")) == "2");
  BOOST_TEST(shown(l.lookup("c")) == "(none)");
}

BOOST_AUTO_TEST_CASE(an_lmdb_table_is_built_and_read) {
  const auto path = dir.file("t.lmdb");
  auto warnings = build_lmdb(path, {{1, "A@b.org", "one"}, {2, "x", "two"}, {3, "X", "three"}}, "t", {});
  BOOST_REQUIRE(warnings.has_value());
  BOOST_REQUIRE_EQUAL(warnings->size(), 1U);
  BOOST_TEST(warnings->front().find("t, line 3: duplicate") != std::string::npos);
  for (const char* type : {"lmdb", "hash", "btree"}) {
    auto m = must(std::string(type) + ":" + dir.file("t"));
    BOOST_TEST(shown(m->lookup("a@B.org")) == "one");
    BOOST_TEST(shown(m->lookup("x")) == "two");
    BOOST_TEST(shown(m->lookup("y")) == "(none)");
    BOOST_TEST(shown(m->lookup(std::string(3000, 'k'))) == "(none)");
  }
}
BOOST_AUTO_TEST_CASE(a_rebuilt_lmdb_table_replaces_the_old_one_under_its_readers) {
  const auto path = dir.file("t.lmdb");
  BOOST_REQUIRE(build_lmdb(path, {{1, "a", "1"}, {2, "old", "1"}}, "t", {}).has_value());
  auto m = must("lmdb:" + dir.file("t"));
  BOOST_TEST(shown(m->lookup("a")) == "1");
  BuildOptions add;
  add.start_from_old = true;
  add.duplicates = BuildOptions::Duplicates::replace;
  BOOST_REQUIRE(build_lmdb(path, {{1, "a", "2"}}, "t", add).has_value());
  BOOST_TEST(shown(m->lookup("a")) == "1");
  clock.advance(seconds(2));
  BOOST_TEST(shown(m->lookup("a")) == "2");
  BOOST_TEST(shown(m->lookup("old")) == "1");
  BOOST_TEST(remove_from_lmdb(path, {"OLD", "none"}, true).value() == 1U);
  clock.advance(seconds(2));
  BOOST_TEST(shown(m->lookup("old")) == "(none)");
}
BOOST_AUTO_TEST_CASE(a_large_lmdb_table_grows_its_map) {
  std::vector<TableEntry> entries;
  for (unsigned i = 0; i < 50000; ++i) entries.push_back({i, "key" + std::to_string(i), std::string(300, 'v')});
  BOOST_REQUIRE(build_lmdb(dir.file("t.lmdb"), entries, "t", {}).has_value());
  auto m = must("lmdb:" + dir.file("t"));
  BOOST_TEST(shown(m->lookup("key49999")).size() == 300U);
}
BOOST_AUTO_TEST_CASE(who_makes_a_large_table_is_told_how_far_it_is) {
  std::vector<TableEntry> entries;
  for (unsigned i = 0; i < 50000; ++i) entries.push_back({i, "key" + std::to_string(i), "v"});
  for (const bool cdb : {false, true}) {
    std::vector<double> parts;
    const Progress progress = [&](std::size_t done, std::size_t of) {
      parts.push_back(static_cast<double>(done) / static_cast<double>(of));
    };
    BuildOptions options;
    options.progress = progress;
    BOOST_REQUIRE((cdb ? build_cdb(dir.file("t.cdb"), entries, "t", options)
                       : build_lmdb(dir.file("t.lmdb"), entries, "t", options))
                      .has_value());
    BOOST_TEST(parts.size() > 20u);
    BOOST_TEST(std::ranges::is_sorted(parts));
    BOOST_TEST(parts.front() < 0.1);
    BOOST_TEST(parts.back() > 0.9);
    BOOST_TEST(parts.back() <= 1.0);
    parts.clear();
    BOOST_REQUIRE((cdb ? remove_from_cdb(dir.file("t.cdb"), {"key1"}, true, progress)
                       : remove_from_lmdb(dir.file("t.lmdb"), {"key1"}, true, progress))
                      .has_value());
    BOOST_TEST(parts.size() > 10u);
  }
}
BOOST_AUTO_TEST_CASE(a_damaged_lmdb_file_is_a_temporary_failure) {
  const auto path = dir.file("t.lmdb");
  std::vector<TableEntry> entries;
  for (unsigned i = 0; i < 5000; ++i) entries.push_back({i, "key" + std::to_string(i), std::string(100, 'v')});
  BOOST_REQUIRE(build_lmdb(path, entries, "t", {}).has_value());
  auto m = must("hash:" + dir.file("t"));
  std::filesystem::copy_file(path, dir.file("u.lmdb"));
  std::filesystem::resize_file(dir.file("u.lmdb"), 20000);
  BOOST_TEST(shown(must("hash:" + dir.file("u"))->lookup("key1")).find("shorter") != std::string::npos);
  dir.write("v.lmdb", std::string(20000, 'x'));
  BOOST_TEST(shown(must("hash:" + dir.file("v"))->lookup("key1")).starts_with("error"));
  dir.write("w.lmdb", "");
  BOOST_TEST(shown(must("hash:" + dir.file("w"))->lookup("key1")).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(regexp_rules_match_in_order_with_groups_negation_and_blocks) {
  auto m = table("regexp",
                 "/^(.*)@old\\.example$/  ${1}@new.example\n"
                 "if /@x\\.org$/\n!/^admin@/ nobody $$5\n/./ admin\nendif\n"
                 "/^case$/i CASE\n"
                 "%^a/b%  slash\n");
  BOOST_TEST(shown(m->lookup("Jo@Old.Example")) == "Jo@new.example");
  BOOST_TEST(shown(m->lookup("admin@x.org")) == "admin");
  BOOST_TEST(shown(m->lookup("b@y.org")) == "(none)");
  BOOST_TEST(shown(m->lookup("case")) == "CASE");
  BOOST_TEST(shown(m->lookup("CASE")) == "(none)");  // flag i turns the default off
  BOOST_TEST(shown(m->lookup("a/b")) == "slash");
}
BOOST_AUTO_TEST_CASE(a_dollar_in_a_negated_rule_other_than_double_is_refused) {
  BOOST_TEST(shown(table("regexp", "!/x/ $1\n")->lookup("y")) == "(none)");
  BOOST_TEST(shown(table("pcre", "!/x/ a $$b\n")->lookup("y")) == "a $b");
}
BOOST_AUTO_TEST_CASE(pcre_rules_know_their_flags) {
  auto m = table("pcre", "/^(?<u>\\w+)\\+(\\w+)@/  $1-$(2)\n/^A B$/x flagged\n/^up$/i exact\n");
  BOOST_TEST(shown(m->lookup("jo+list@x")) == "jo-list");
  BOOST_TEST(shown(m->lookup("ab")) == "flagged");
  BOOST_TEST(shown(m->lookup("UP")) == "(none)");
}
BOOST_AUTO_TEST_CASE(rules_that_cannot_be_read_are_passed_over_and_told_with_their_line) {
  for (const char* bad : {"/(/ y", "/a y", "/a/Q y", "endif", "/a/ $1", "/(a)/ $1x", "/(a)/ x$1_", "abc y", "/b/ ${1",
                          "/b/ $", "!/x/ $1", "/a/b/ y"}) {
    for (const char* type : {"regexp", "pcre"}) {
      auto m = must(std::string(type) + ":" + dir.write("bad", "/^1/ one\n" + std::string(bad) + "\n/^[ab2]/ two\n"));
      BOOST_TEST(shown(m->lookup("1")) == "one", type << ": " << bad);
      BOOST_TEST(shown(m->lookup("2")) == "two", type << ": " << bad);
      BOOST_TEST(shown(m->lookup("a")) == "two", type << ": " << bad);
      BOOST_TEST(!m->problem().has_value());
      const auto notes = m->notes();
      BOOST_REQUIRE_MESSAGE(notes.size() == 1U, type << ": " << bad);
      BOOST_TEST(notes[0].find("bad, line 2: ") != std::string::npos, type << ": " << notes[0]);
      BOOST_TEST(must("unionmap:{static:x, " + m->name() + "}")->notes().size() == 1U);
    }
  }
}
BOOST_AUTO_TEST_CASE(blocks_keep_their_ends_when_rules_are_passed_over) {
  for (const char* type : {"regexp", "pcre"}) {
    auto m = table(
        type, "/(/ y\nif /^a/\n/*b/ never\n/b/ ab\nif /c/\n/[/ never\n/d/ acd\nendif\n/(/ y\nendif\n/(/ y\n/z/ last\n");
    BOOST_TEST(shown(m->lookup("axb")) == "ab");
    BOOST_TEST(shown(m->lookup("acd")) == "acd");
    BOOST_TEST(shown(m->lookup("azc")) == "last");
    BOOST_TEST(shown(m->lookup("z")) == "last");
    BOOST_TEST(shown(m->lookup("b")) == "(none)");
  }
}
BOOST_AUTO_TEST_CASE(text_behind_if_and_endif_is_passed_over_and_a_block_without_end_lasts_until_the_end) {
  for (const char* type : {"regexp", "pcre"}) {
    // as if the rules of a block were set in by white space
    auto m = table(type, "if /^a/\n  /b/ never\n/c/ ac\nendif # of a\n/z/ z\nif /^q/\n/r/ qr\n");
    BOOST_TEST(shown(m->lookup("ab")) == "(none)");
    BOOST_TEST(shown(m->lookup("ac")) == "ac");
    BOOST_TEST(shown(m->lookup("z")) == "z");
    BOOST_TEST(shown(m->lookup("qr")) == "qr");
    BOOST_TEST(shown(m->lookup("r")) == "(none)");
    BOOST_TEST(m->notes().size() == 3U);
  }
}
BOOST_AUTO_TEST_CASE(a_block_whose_condition_cannot_be_read_breaks_the_table_for_its_rules_would_hold_for_all) {
  for (const char* bad : {"if /(/\n/./ x\nendif\n", "if /a\n/./ x\nendif\n", "if\n/./ x\nendif\n"}) {
    for (const char* type : {"regexp", "pcre"}) {
      auto m = must(std::string(type) + ":" + dir.write("bad", "/a/ x\n" + std::string(bad)));
      BOOST_TEST(shown(m->lookup("a")).find("bad, line 2") != std::string::npos, type << ": " << bad);
      BOOST_TEST(m->problem().has_value());
    }
  }
  BOOST_TEST(table("cidr", "if 10.0.0.1/8\n0.0.0.0/0 x\nendif\n")->problem().has_value());
}
BOOST_AUTO_TEST_CASE(a_pattern_that_takes_too_long_is_a_temporary_failure) {
  auto m = table("pcre", "/^(a+)+$/ x\n");
  BOOST_TEST(shown(m->lookup(std::string(100, 'a') + "!")).find("too long") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(a_posix_pattern_whose_matches_could_begin_anywhere_is_given_up_in_time) {
  auto m = table("regexp", "/name=[^>]*\\.exe/ x\n");
  std::string key = ".exe ";
  while (key.size() < 200'000) key += "name=";
  BOOST_TEST(shown(m->lookup(key)).find("too long") != std::string::npos);
  BOOST_TEST(shown(m->lookup(key.substr(0, 1000))) == "(none)");
}
BOOST_AUTO_TEST_CASE(long_keys_match_by_the_rules_of_posix_like_short_ones) {
  // Of the matches that begin first the longest wins, whatever the order in the pattern.
  auto m = table("regexp", "/(a|ab|abcd)(d?)/ $1-$2\n/\\<end$/ at the end\n/^begin/ at the start\n");
  for (const std::size_t before : {0UL, 10UL, 511UL, 600UL, 100'000UL}) {
    const std::string filler(before, 'x');
    BOOST_TEST(shown(m->lookup(filler + "abcdd a")) == "abcd-d");
    BOOST_TEST(shown(m->lookup(filler + " end")) == "at the end");
    BOOST_TEST(shown(m->lookup(filler + "xend")) == "(none)");
    BOOST_TEST(shown(m->lookup("begin" + filler)) == "at the start");
    if (before > 0) BOOST_TEST(shown(m->lookup(filler + "begin")) == "(none)");
  }
}
BOOST_AUTO_TEST_CASE(cidr_rules_match_networks_of_both_families) {
  auto m = table("cidr",
                 "192.0.2.1 one\n192.0.2.0/24  net\n2001:db8::/32 six\nif 10.0.0.0/8\n10.1.0.0/16 ten-one\n"
                 "!10.2.0.0/16 not-two\nendif\n::/0 any6\n");
  BOOST_TEST(shown(m->lookup("192.0.2.1")) == "one");
  BOOST_TEST(shown(m->lookup("192.0.2.77")) == "net");
  BOOST_TEST(shown(m->lookup("::ffff:192.0.2.77")) == "net");
  BOOST_TEST(shown(m->lookup("2001:db8::5")) == "six");
  BOOST_TEST(shown(m->lookup("2001:db9::5")) == "any6");
  BOOST_TEST(shown(m->lookup("10.1.2.3")) == "ten-one");
  BOOST_TEST(shown(m->lookup("10.2.2.3")) == "(none)");
  BOOST_TEST(shown(m->lookup("10.3.2.3")) == "not-two");
  BOOST_TEST(shown(m->lookup("[192.0.2.1]")) == "(none)");
  BOOST_TEST(shown(m->lookup("[IPv6:2001:db8::5]")) == "(none)");
  BOOST_TEST(shown(m->lookup("example.org")) == "(none)");
}
BOOST_AUTO_TEST_CASE(networks_that_cannot_be_read_are_passed_over) {
  auto m = table("cidr", "1.2.3.4/24 x\n1.2.3.4 one\n5.6.7.8\nname.example y\n::1/200 z\n0.0.0.0/0 any\n");
  BOOST_TEST(shown(m->lookup("1.2.3.5")) == "any");
  BOOST_TEST(shown(m->lookup("1.2.3.4")) == "one");
  BOOST_TEST(shown(m->lookup("5.6.7.8")) == "any");
  const auto notes = m->notes();
  BOOST_REQUIRE(notes.size() == 4U);
  for (const char* said : {"line 1: ", "line 3: ", "line 4: ", "line 5: "})
    BOOST_TEST(std::ranges::any_of(notes, [&](const auto& note) { return note.contains(said); }), said);
}

BOOST_AUTO_TEST_CASE(a_negated_network_says_nothing_of_the_other_family) {
  auto m = table("cidr", "!192.0.2.0/24 outside\nif !2001:db8::/32\n0.0.0.0/0 four\n::/0 six\nendif\n");
  BOOST_TEST(shown(m->lookup("192.0.2.1")) == "(none)");
  BOOST_TEST(shown(m->lookup("192.0.3.1")) == "outside");
  BOOST_TEST(shown(m->lookup("2001:db8::1")) == "(none)");
  BOOST_TEST(shown(m->lookup("2001:db9::1")) == "six");
}

BOOST_AUTO_TEST_CASE(rules_of_pattern_tables_may_stand_in_the_setting) {
  for (const std::string type : {"regexp", "pcre"}) {
    auto m = must(type + ":{ { /^a b,c$/ REJECT a, b } {if /^x/} {/y/ hit $$1} {endif}, {/^(.)z$/ $1} }");
    BOOST_TEST(shown(m->lookup("a b,c")) == "REJECT a, b");
    BOOST_TEST(shown(m->lookup("xy")) == "hit $1");
    BOOST_TEST(shown(m->lookup("y")) == "(none)");
    BOOST_TEST(shown(m->lookup("qz")) == "q");
    BOOST_TEST(!m->problem());
    BOOST_TEST(must(type + ":{{/(/ x}}")->notes().size() == 1U);
  }
  BOOST_TEST(shown(must("cidr:{{192.0.2.0/24 net}}")->lookup("192.0.2.7")) == "net");
  BOOST_TEST(shown(list("pcre:{{/one/ 1}, {/two/ 2}} inline:{three=3}").lookup("three")) == "3");
}

// The same questions to Postfix's postmap: one to six have the same answer; it does not know two forms of a domain.
BOOST_AUTO_TEST_CASE(keys_are_found_in_any_case_and_either_form_of_their_domain) {
  const std::string text =
      "JÖRG@BÜCHER.example 1\nStraße@x.example 2\nbücher.example 3\n.XN--GRN-IOA.example 4\n"
      "[grün.example]:587 5\nΟΔΥΣΣΕΥΣ@x.example 6\nxn--example-.org 7\n";
  auto parsed = parse_table(text, "t");
  BOOST_REQUIRE(build_lmdb(dir.file("l.lmdb"), parsed.entries, "t", {}).has_value());
  BOOST_REQUIRE(build_cdb(dir.file("c.cdb"), parsed.entries, "t", {}).has_value());
  for (const auto& m : {table("texthash", text), must("lmdb:" + dir.file("l")), must("cdb:" + dir.file("c")),
                        must("unionmap:{texthash:" + dir.file("texthash") + "}")}) {
    const auto ask = [&](const char* key) { return shown(m->lookup(key)); };
    BOOST_TEST(ask("jörg@bücher.example") == "1", m->name());
    BOOST_TEST(ask("Jörg@BÜCHER.EXAMPLE") == "1", m->name());
    BOOST_TEST(ask("STRASSE@x.example") == "2", m->name());
    BOOST_TEST(ask("Bücher.example") == "3", m->name());
    BOOST_TEST(ask("οδυσσευς@x.example") == "6", m->name());
    BOOST_TEST(ask("jorg@bücher.example") == "(none)", m->name());
    BOOST_TEST(ask("jörg@xn--bcher-kva.example") == "1", m->name());
    BOOST_TEST(ask("XN--bcher-kva.example") == "3", m->name());
    BOOST_TEST(ask(".GRÜN.example") == "4", m->name());
    BOOST_TEST(ask("[xn--grn-ioa.example]:587") == "5", m->name());
    BOOST_TEST(ask("example.org") == "(none)", m->name());
  }
  auto pattern = must("regexp:{{/^jo@xn--bcher-kva\\.example$/ a}}");
  BOOST_TEST(shown(pattern->lookup("jo@bücher.example")) == "a");
  BOOST_TEST(shown(find_address(list("inline:{@xn--bcher-kva.example=x}"), "jo+e@bücher.example",
                                {.bare_user = false, .at_domain = true, .delimiters = "+"})) == "@bücher.example=x");
}
BOOST_AUTO_TEST_CASE(a_file_whose_keys_were_folded_in_ascii_alone_is_still_read) {
  // As penmap wrote it once, and as postmap does with smtputf8_enable = no.
  const std::vector<TableEntry> entries = {{1, "jÖrg@x.example", "1"}, {2, "a@bÜcher.example", "2"}};
  const BuildOptions as_it_is{.fold_keys = false};
  BOOST_REQUIRE(build_lmdb(dir.file("l.lmdb"), entries, "t", as_it_is).has_value());
  BOOST_REQUIRE(build_cdb(dir.file("c.cdb"), entries, "t", as_it_is).has_value());
  for (const auto& m : {must("lmdb:" + dir.file("l")), must("cdb:" + dir.file("c"))}) {
    BOOST_TEST(shown(m->lookup("JÖRG@x.example")) == "1", m->name());
    BOOST_TEST(shown(m->lookup("A@BÜCHER.example")) == "2", m->name());
  }
  BOOST_TEST(remove_from_lmdb(dir.file("l.lmdb"), {"JÖRG@x.example"}, true).value() == 1U);
  BOOST_TEST(remove_from_cdb(dir.file("c.cdb"), {"JÖRG@x.example"}, true).value() == 1U);
}

BOOST_AUTO_TEST_CASE(address_keys_are_tried_in_the_documented_order) {
  AddressKeys keys;
  keys.bare_user = true;
  keys.delimiters = "+";
  const char* order[] = {"u+e@d.org", "u@d.org", "u+e", "u", "@d.org"};
  for (std::size_t from = 0; from < 5; ++from) {
    std::string spec = "inline:{";
    for (std::size_t i = from; i < 5; ++i) spec += std::string(" { ") + order[i] + " = v" + std::to_string(i) + " }";
    const auto got = shown(find_address(list(spec + " }"), "u+e@d.org", keys));
    BOOST_TEST(got.starts_with(std::string(order[from]) + "=v" + std::to_string(from)), got);
  }
  BOOST_TEST(shown(find_address(list("inline:{u@d=v}"), "u+e@d", keys)) == "u@d=v+e");
  keys.bare_user = false;
  BOOST_TEST(shown(find_address(list("inline:{u=v}"), "u@d", keys)) == "(none)");
}
BOOST_AUTO_TEST_CASE(pattern_tables_see_whole_addresses_only) {
  auto l = list("regexp:" + dir.write("r", "/^@d$/ bad\n/^u\\+e@d$/ good\n"));
  AddressKeys keys;
  keys.delimiters = "+";
  BOOST_TEST(shown(find_address(l, "u+e@d", keys)) == "u+e@d=good");
  BOOST_TEST(shown(find_address(l, "x@d", keys)) == "(none)");
}
BOOST_AUTO_TEST_CASE(transport_keys_go_from_address_over_domain_and_parents_to_the_star) {
  auto l = list("inline:{ u@a.b.c = 1, a.b.c = 2, .b.c = 3, .c = 4, * = 5 }");
  BOOST_TEST(shown(find_transport(l, "u+x@a.b.c", "+", false)) == "u@a.b.c=1");
  BOOST_TEST(shown(find_transport(l, "v@a.b.c", "+", false)) == "a.b.c=2");
  BOOST_TEST(shown(find_transport(l, "v@z.b.c", "+", false)) == ".b.c=3");
  BOOST_TEST(shown(find_transport(l, "v@b.c", "+", false)) == ".c=4");
  BOOST_TEST(shown(find_transport(l, "v@x.y", "+", false)) == "*=5");
  BOOST_TEST(shown(find_transport(list("inline:{b.c=1}"), "v@a.b.c", "", true)) == "b.c=1");
}
BOOST_AUTO_TEST_CASE(access_keys_follow_the_documented_orders) {
  auto l = list("inline:{ d.org = 1, u+e@ = 2, u@ = 3, 10.1 = 4, 2001:db8 = 5, .host = 6 }");
  BOOST_TEST(shown(find_access_address(l, "x@a.d.org", "+", true)) == "d.org=1");
  BOOST_TEST(shown(find_access_address(l, "u+e@z", "+", true)) == "u+e@=2");
  BOOST_TEST(shown(find_access_address(l, "u+f@z", "+", true)) == "u@=3");
  BOOST_TEST(shown(find_access_network(l, "10.1.2.3")) == "10.1=4");
  BOOST_TEST(shown(find_access_network(l, "2001:db8::1")) == "2001:db8=5");
  BOOST_TEST(shown(find_access_name(l, "a.host", false)) == ".host=6");
  BOOST_TEST(shown(find_access_name(l, "a.host", true)) == "(none)");
}

BOOST_AUTO_TEST_CASE(mapped_networks_are_ipv4_networks_with_96_bits_less) {
  const auto network = [](const char* text) { return parse_network(text).value(); };
  BOOST_TEST(network("[::ffff:127.0.0.0]/104").contains(*parse_ip("127.9.8.7")));
  BOOST_TEST(network("[::ffff:127.0.0.0]/104").contains(*parse_ip("::ffff:127.9.8.7")));
  BOOST_TEST(!network("[::ffff:127.0.0.0]/104").contains(*parse_ip("128.0.0.1")));
  BOOST_TEST(network("::ffff:192.0.2.7/128").contains(*parse_ip("192.0.2.7")));
  BOOST_TEST(!network("::ffff:192.0.2.7/128").contains(*parse_ip("192.0.2.6")));
  BOOST_TEST(network("::ffff:0.0.0.0/96").contains(*parse_ip("203.0.113.1")));
  BOOST_TEST(!network("::ffff:0.0.0.0/96").contains(*parse_ip("2001:db8::1")));
  for (const char* wrong : {"[::ffff:127.0.0.0]/129", "[::ffff:127.0.0.0]/95", "[::ffff:127.0.0.0]/8",
                            "[::ffff:127.0.0.1]/104", "127.0.0.0/104"})
    BOOST_TEST(parse_network(wrong).error().is(NetworkError::syntax), wrong);
  // Debian's default for mynetworks.
  const auto list = MatchList::open(MatchList::Kind::network, "127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128", {});
  BOOST_REQUIRE(list);
  for (const char* ours : {"127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"})
    BOOST_TEST(list->matches_address(ours).value(), ours);
  for (const char* other : {"192.0.2.1", "::2", "::ffff:192.0.2.1"})
    BOOST_TEST(!list->matches_address(other).value(), other);
}

BOOST_AUTO_TEST_CASE(lists_have_domains_in_any_case_and_either_form) {
  for (const auto kind : {MatchList::Kind::string, MatchList::Kind::domain, MatchList::Kind::host}) {
    const auto l = MatchList::open(kind, "bücher.example, xn--grn-ioa.example inline:{straße.example=x}", {});
    BOOST_REQUIRE(l);
    const auto has = [&](const char* name) {
      return kind == MatchList::Kind::host ? l->matches_host(name, "192.0.2.1").value() : l->matches(name).value();
    };
    for (const char* name : {"BÜCHER.example", "xn--bcher-kva.example", "grün.example", "GRÜN.EXAMPLE",
                             "XN--GRN-IOA.example", "STRASSE.example", "straße.example"})
      BOOST_TEST(has(name), name);
    for (const char* name : {"bucher.example", "xn--bcher-.example", "a.bücher.example"}) BOOST_TEST(!has(name), name);
  }
  const auto parents = MatchList::open(MatchList::Kind::domain, "bücher.example", {.parent_domains = true, .open = {}});
  BOOST_TEST(parents->matches("a.xn--bcher-kva.example").value());
  const auto dotted = MatchList::open(MatchList::Kind::domain, ".bücher.example", {});
  BOOST_TEST(dotted->matches("a.xn--bcher-kva.example").value());
  BOOST_TEST(!dotted->matches("xn--bcher-kva.example").value());
}
BOOST_AUTO_TEST_CASE(network_lists_match_both_families_negations_files_and_tables) {
  const auto file = dir.write("nets", "# ours\n198.51.100.0/24\n[2001:db8::]/32\n");
  const auto cidr = dir.write("c", "203.0.113.0/24 ok\n");
  auto l = MatchList::open(MatchList::Kind::network,
                           "!192.0.2.9, 192.0.2.0/24 127.0.0.0/8 [::1]/128 " + file + " cidr:" + cidr, {});
  BOOST_REQUIRE_MESSAGE(l.has_value(), (l ? "" : l.error().message()));
  for (const char* in :
       {"192.0.2.1", "127.0.0.1", "::1", "198.51.100.7", "2001:db8::9", "203.0.113.4", "::ffff:127.0.0.1"}) {
    BOOST_TEST(l->matches_address(in).value(), in);
  }
  for (const char* out : {"192.0.2.9", "10.0.0.1", "::2", "unknown"}) BOOST_TEST(!l->matches_address(out).value(), out);
  BOOST_TEST(MatchList::open(MatchList::Kind::network, "192.0.2.1/24", {}).error().is(NetworkError::syntax));
  BOOST_TEST(MatchList::open(MatchList::Kind::network, "192.0.2.0/33", {}).error().is(NetworkError::syntax));
}
BOOST_AUTO_TEST_CASE(a_network_that_cannot_be_read_may_be_an_error_of_those_that_are_compared_with_it) {
  const auto l = MatchList::open(MatchList::Kind::network, "127.0.0.0/8, [2001:db8::1]/64 10.0.0.0/8 192.0.2.1/24",
                                 {.open = {}, .keep_faulty = true});
  BOOST_REQUIRE(l);
  BOOST_REQUIRE(l->faults().size() == 2U);
  BOOST_TEST(l->faults()[0].find("write [2001:db8::]/64") != std::string::npos);
  BOOST_TEST(l->faults()[1].find("write 192.0.2.0/24") != std::string::npos);
  BOOST_TEST(l->matches_address("127.0.0.1").value());
  BOOST_TEST(l->matches_address("10.1.2.3").value());  // found before that entry is reached
  BOOST_TEST(!l->matches_address("192.0.2.9"));
  BOOST_TEST(!l->matches_address("2001:db8::1"));
  // An IPv6 pattern is never read for an IPv4 client.
  const auto six =
      MatchList::open(MatchList::Kind::host, "[2001:db8::1]/64 10.0.0.0/8", {.open = {}, .keep_faulty = true});
  BOOST_TEST(six->matches_host("a.example", "10.1.2.3").value());
  BOOST_TEST(!six->matches_host("a.example", "192.0.2.1").value());
}
BOOST_AUTO_TEST_CASE(domain_lists_match_subdomains_by_the_style_asked_for) {
  MatchList::Options parents;
  parents.parent_domains = true;
  auto implied = MatchList::open(MatchList::Kind::domain, "Example.org", parents);
  BOOST_TEST(implied->matches("a.b.example.ORG").value());
  BOOST_TEST(!implied->matches("badexample.org").value());
  auto dotted = MatchList::open(MatchList::Kind::domain, "example.org .example.net", {});
  BOOST_TEST(!dotted->matches("a.example.org").value());
  BOOST_TEST(dotted->matches("a.example.net").value());
  BOOST_TEST(!dotted->matches("example.net").value());
  auto plain = MatchList::open(MatchList::Kind::string, "example.org inline:{t.org=x}", parents);
  BOOST_TEST(!plain->matches("a.example.org").value());
  BOOST_TEST(plain->matches("T.org").value());
}
BOOST_AUTO_TEST_CASE(a_broken_table_in_a_list_is_an_error_and_not_a_no) {
  auto l = MatchList::open(MatchList::Kind::domain, "a.org fail:x", {});
  BOOST_TEST(l->matches("a.org").value());
  BOOST_TEST(!l->matches("b.org").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(table_text)

BOOST_AUTO_TEST_CASE(aliases_have_names_before_a_colon_and_may_be_quoted) {
  auto t = parse_aliases("Root: admin\n\"a : b\": c,\n   d\nlist: :include:/x, \"|cmd a, b\"\nbad\n: x\n", "aliases");
  BOOST_REQUIRE_EQUAL(t.entries.size(), 3U);
  BOOST_TEST(t.entries[0].key == "root");
  BOOST_TEST(t.entries[1].key == "a : b");
  BOOST_TEST(t.entries[1].value == "c,   d");
  BOOST_TEST(t.warnings.size() == 2U);
  BOOST_TEST(t.warnings[0].starts_with("aliases, line 5"));
}
BOOST_AUTO_TEST_CASE(a_name_with_a_domain_is_no_alias) {
  const auto t = parse_aliases("a@b.example: x\n\"c@d\": y\nAnn <a@b.example>: z\n", "f");
  BOOST_TEST_REQUIRE(t.entries.size() == 1U);
  BOOST_TEST(t.entries[0].key == "c@d");
  BOOST_TEST(t.warnings == (std::vector<std::string>{"f, line 1: name must be local", "f, line 3: name must be local"}),
             boost::test_tools::per_element());
}
BOOST_AUTO_TEST_CASE(lines_that_look_like_mistakes_are_told_and_taken) {
  const auto t = parse_table("# c\n  first x\nkey: value\n  more\nk v\n", "f");
  BOOST_TEST(t.entries.size() == 3U);
  BOOST_TEST(t.warnings.empty());
  BOOST_TEST(
      t.doubts == (std::vector<std::string>{"f, line 2: a line must not start with white space: \"first x\"",
                                            "f, line 3: record is in \"key: value\" format; is this an alias file?"}),
      boost::test_tools::per_element());
}
BOOST_AUTO_TEST_CASE(destinations_split_at_commas_outside_quotes) {
  const auto d = split_destinations("a@b, \"|cmd -x 'a, b'\", /file, :include:/l (note, here), \"x y\"@z, |prog");
  BOOST_REQUIRE_EQUAL(d.size(), 6U);
  BOOST_TEST(d[1] == "|cmd -x 'a, b'");
  BOOST_TEST(d[2] == "/file");
  BOOST_TEST(d[3] == ":include:/l");
  BOOST_TEST(d[4] == "\"x y\"@z");
  BOOST_TEST(d[5] == "|prog");
  BOOST_TEST(split_destinations("a, b, c", 3).size() == 3U);
  BOOST_TEST(split_destinations("a, b, c, d, e, f", 3).size() == 4U);
}
BOOST_AUTO_TEST_CASE(quoted_keys_of_tables_may_hold_spaces) {
  const auto t =
      parse_table("\"a b\"@c.org x\n\"just words\" y\na\" \"b z\nc\\ d e\n\"no end v\n\"a\\\"b c\" w\n", "t");
  std::vector<std::string> seen;
  for (const auto& e : t.entries) seen.push_back(e.key + "|" + e.value);
  const std::vector<std::string> wanted = {"\"a b\"@c.org|x", "\"just words\"|y", "a\" \"b|z", "c\\ d|e",
                                           "\"a\\\"b c\"|w"};
  BOOST_TEST(seen == wanted, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(t.warnings.size() == 1);
  BOOST_TEST(t.warnings[0] == "t, line 5: unbalanced '\"' in the key");
}
BOOST_AUTO_TEST_CASE(a_table_of_a_setting_that_is_not_the_programs_is_broken) {
  std::set<std::string> asked;
  permit_settings([&](std::string_view setting) {
    asked.emplace(setting);
    return setting == "ours";
  });
  const auto looked_up = [](std::string setting, std::string_view spec) {
    const OpenOptions options{.setting = std::move(setting)};
    const auto list = MapList::open(spec, options);
    BOOST_REQUIRE(list.has_value());
    return list->lookup("key");
  };
  BOOST_CHECK_EQUAL(looked_up("ours", "static:x").value().value_or(""), "x");
  BOOST_CHECK_EQUAL(looked_up("ours", "pipemap:{static:x, static:y}").value().value_or(""), "y");
  for (const char* spec : {"static:x", "pipemap:{static:x, static:y}"}) {
    const auto theirs = looked_up("theirs", spec);
    BOOST_REQUIRE(!theirs);
    BOOST_CHECK(theirs.error().is(MapError::undeclared));
    BOOST_CHECK(theirs.error().message().contains("reader of theirs"));
    BOOST_CHECK(looked_up("", spec).error().message().contains("without the name of its setting"));
  }
  // Asked of an empty list as well: what a program may open shows without a table.
  asked.clear();
  (void)MapList::open("", {.setting = "one"});
  (void)MatchList::open(MatchList::Kind::domain, "", {.open = {.setting = "two"}});
  BOOST_CHECK((asked == std::set<std::string>{"one", "two"}));
  BOOST_CHECK(declared("ours").has_value());
  BOOST_CHECK(!declared("theirs"));
  permit_settings({});
}

BOOST_AUTO_TEST_CASE(a_quoted_empty_key_is_warned_about_and_left_out) {
  const auto table = parse_table("\"\" c\nok x\n", "f");
  BOOST_TEST(table.entries.size() == 1u);
  BOOST_TEST(table.warnings.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(where_values_are_identities_a_table_that_others_serve_is_broken, Tables) {
  options.served = false;
  for (const std::string spec : {"socketmap:unix:/run/x:table", "tcp:127.0.0.1:9", "proxy:socketmap:unix:/run/x:table",
                                 "memcache:/x.cf", "unionmap:{inline:{x=y}, tcp:127.0.0.1:9}"}) {
    const auto m = must(spec);
    BOOST_TEST(shown(m->lookup("x")).find("not allowed in this setting") != std::string::npos, spec);
    BOOST_TEST(m->problem().has_value(), spec);
  }
}

BOOST_FIXTURE_TEST_CASE(a_table_behind_proxy_must_be_approved, Tables) {
  std::string asked;
  approve_proxied([&](const std::string& table) {
    asked = table;
    return table == "inline:{a=b}";
  });
  BOOST_TEST(shown(must("proxy:proxy:inline:{a=b}")->lookup("a")) == "b");
  const auto m = must("proxy:inline:{a=c}");
  BOOST_TEST(asked == "inline:{a=c}");
  BOOST_TEST(shown(m->lookup("a")).find("is not in proxy_read_maps") != std::string::npos);
  BOOST_TEST(m->problem()->is(MapError::unapproved));
  BOOST_TEST(shown(must("unionmap:{proxy:inline:{a=c}, static:x}")->lookup("a")).starts_with("error"));
  BOOST_TEST(shown(must("inline:{a=c}")->lookup("a")) == "c");
  options.served = false;  // opened directly, as in Postfix
  BOOST_TEST(shown(must("proxy:inline:{a=c}")->lookup("a")) == "c");
  approve_proxied({});
}

BOOST_FIXTURE_TEST_CASE(types_that_are_no_more_say_what_to_use, Tables) {
  for (const auto& [spec, wanted] :
       std::vector<std::pair<std::string, std::string>>{{"dbm:/x", "write hash: or lmdb:"},
                                                        {"sdbm:/x", "write hash: or lmdb:"},
                                                        {"nis:x", "unix:passwd.byname"},
                                                        {"nisplus:x", "niscat"},
                                                        {"netinfo:x", "hash:"}}) {
    const auto opened = map::open(spec);
    BOOST_REQUIRE(!opened);
    BOOST_TEST(opened.error().is(MapError::unknown_type));
    BOOST_TEST(opened.error().message().find(wanted) != std::string::npos, spec);
    BOOST_TEST(shown(list(spec).lookup("k")).find(wanted) != std::string::npos, spec);
  }
}

BOOST_FIXTURE_TEST_CASE(where_keys_may_not_come_into_values_a_table_that_does_it_is_broken, Tables) {
  options.substitute = false;
  const std::string bad = "/^x$/ fixed\n/^(.*)-list$/ bob+$1\n";
  const std::string good = "/^(.*)-list$/ bob$$1\n";
  for (const std::string type : {"regexp", "pcre"}) {
    const auto path = dir.write(type + "-bad", bad);
    for (const auto& spec : {type + ":" + path, "proxy:" + type + ":" + path, "unionmap:{" + type + ":" + path + "}",
                             "pipemap:{inline:{y-list=x-list, x=x}, " + type + ":" + path + "}"}) {
      const auto m = must(spec);
      for (const auto* key : {"y-list", "x"})
        BOOST_TEST(shown(m->lookup(key)).find("line 2: $number is not allowed in this table") != std::string::npos,
                   spec);
      BOOST_TEST(m->problem().has_value(), spec);
    }
    dir.write(type + "-whole", "/./ $0\n");
    BOOST_TEST(must(type + ":" + dir.file(type + "-whole"))->problem().has_value());
    dir.write(type + "-good", good);
    const auto m = must(type + ":" + dir.file(type + "-good"));
    BOOST_TEST(!m->problem());
    BOOST_TEST(shown(m->lookup("a-list")) == "bob$1");
  }
  for (const auto* spec : {"tcp:127.0.0.1:1", "unionmap:{tcp:127.0.0.1:1}"}) {
    const auto l = list(spec);
    BOOST_TEST(shown(l.lookup("x")).find("tcp: is not allowed") != std::string::npos, spec);
    BOOST_TEST(l.problems().size() == 1U, spec);
  }
}

BOOST_AUTO_TEST_SUITE_END()
