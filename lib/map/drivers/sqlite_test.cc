// Tables in databases as programs use them, with the module for SQLite: hits, misses, hostile keys, broken files.
#include <sqlite3.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/loop.h"
#include "lib/base/async/testing/run.h"
#include "lib/map/ask.h"
#include "lib/map/database_modules.h"
#include "lib/map/database_table.h"
#include "lib/map/map.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::map;

namespace {

std::string shown(const Value& v) {
  if (!v) return "error: " + v.error().message();
  return v->value_or("(none)");
}

struct Fixture {
  Fixture() {
    database::modules_in(PEN_TEST_MODULES);
    fill("db",
         "CREATE TABLE t(k TEXT, v TEXT, n TEXT);"
         "INSERT INTO t VALUES('key','value','x'),('two','a','x'),('two','b','x'),('null',NULL,'x'),('empty','','x'),"
         "('o''brien@x.org','apostrophe','x'),('%s','percent','x'),('a@x.org','at','x');");
  }
  void fill(const std::string& name, const std::string& sql) const {
    sqlite3* db = nullptr;
    BOOST_REQUIRE(sqlite3_open(dir.file(name).c_str(), &db) == SQLITE_OK);
    BOOST_REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
  }
  std::shared_ptr<Map> table(const std::string& more = "", OpenOptions options = {}) const {
    const std::string text = "dbpath = " + dir.file("db") + "\nquery = SELECT v, n FROM t WHERE k = '%s'\n" + more;
    return *map::open("sqlite:" + dir.write("t.cf", text), options);
  }
  testing::ScratchDir dir;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(sqlite_tables, Fixture)

BOOST_AUTO_TEST_CASE(keys_are_found_and_not_found) {
  const auto t = table();
  BOOST_TEST(!t->problem());
  BOOST_TEST(t->blocking());
  BOOST_TEST(shown(t->lookup("key")) == "value");
  BOOST_TEST(shown(t->lookup("KEY")) == "value");
  BOOST_TEST(shown(t->lookup("two")) == "a,b");
  for (const char* key : {"absent", "null", "empty", "\xff", ""}) BOOST_TEST(shown(t->lookup(key)) == "(none)");
  BOOST_TEST(shown(t->lookup(std::string(kMaxKey + 1, 'k'))) == "(none)");
}

BOOST_AUTO_TEST_CASE(a_key_cannot_become_a_part_of_the_query) {
  const auto t = table();
  BOOST_TEST(shown(t->lookup("o'brien@x.org")) == "apostrophe");
  BOOST_TEST(shown(t->lookup("%s")) == "percent");
  for (const char* key : {"' OR '1'='1", "'; DROP TABLE t; --", "\\' OR 1=1 --", "key' --", "''"})
    BOOST_TEST(shown(t->lookup(key)) == "(none)");
  BOOST_TEST(shown(t->lookup(std::string_view("key\0'", 5))).starts_with("error"));
  BOOST_TEST(shown(t->lookup("key")) == "value");
}

BOOST_AUTO_TEST_CASE(nothing_can_be_written) {
  const auto t = table("query = DELETE FROM t WHERE k <> '%s'\n");
  BOOST_TEST(shown(t->lookup("key")).contains("readonly"));
  BOOST_TEST(shown(table("query = ATTACH '/tmp/%s' AS x\n")->lookup("key")).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(what_is_broken_is_an_error_and_never_a_miss) {
  BOOST_TEST(shown(table("query = SELECT no_such FROM t\n")->lookup("key")).contains("no such column: no_such"));
  const auto none = *map::open("sqlite:" + dir.file("none.cf"));
  BOOST_TEST(shown(none->lookup("key")).starts_with("error"));
  BOOST_TEST(none->problem()->is_errno(ENOENT));
  BOOST_TEST(shown(table("dbpath = " + dir.file("none") + "\n")->lookup("key")).contains("unable to open"));
  dir.write("text", std::string(5000, 'x'));
  BOOST_TEST(shown(table("dbpath = " + dir.file("text") + "\n")->lookup("key")).contains("not a database"));
  BOOST_TEST(shown(table("query =\n")->lookup("key")).contains("table is missing"));
  database::modules_in(dir.file(""));
  const auto other = *map::open("ldap:" + dir.write("l.cf", "search_base = dc=x"));
  BOOST_TEST(other->problem()->is(MapError::unknown_type));
  BOOST_TEST(other->problem()->message().contains("install the part of Penstock for ldap tables"));
}

BOOST_AUTO_TEST_CASE(a_query_without_end_is_ended) {
  testing::ManualClock clock;
  const auto endless = "query = WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n\n";
  const auto driver = database::find_driver("sqlite");
  BOOST_REQUIRE(driver.has_value());
  const auto read = *database::read_table("sqlite", "dbpath = " + dir.file("db") + "\n" + endless, "f", {});
  database::Report report;
  const auto connection = (*driver)->connect(read->settings, dir.file("db"), kNever, report);
  BOOST_REQUIRE(connection);
  const database::Lookup lookup{
      read->settings,
      [&](std::string_view, const database::Quote&) { return database::setting(read->settings, "query"); },
      [](std::string_view) { return true; }, system_clock().now() + milliseconds(20)};
  BOOST_TEST((connection->ask(lookup).outcome == database::Outcome::timed_out));
}

BOOST_AUTO_TEST_CASE(a_table_and_a_database_that_are_replaced_are_read_again) {
  testing::ManualClock clock;
  const auto t = table("", {.clock = &clock});
  BOOST_TEST(shown(t->lookup("key")) == "value");
  fill("new", "CREATE TABLE t(k TEXT, v TEXT, n TEXT); INSERT INTO t VALUES('key','new value','x');");
  BOOST_REQUIRE(::rename(dir.file("new").c_str(), dir.file("db").c_str()) == 0);
  BOOST_TEST(shown(t->lookup("key")) == "new value");
  (void)table("result_format = <%s>\n");
  clock.advance(seconds(2));
  BOOST_TEST(shown(t->lookup("key")) == "<new value>");
}

BOOST_AUTO_TEST_CASE(settings_that_name_files_and_users_may_have_them_and_the_owner_is_that_of_the_file) {
  const auto t = table("", {.substitute = false, .served = false});
  BOOST_TEST(shown(t->lookup("key")) == "value");
  BOOST_TEST(*t->owner() == ::geteuid());
}

BOOST_AUTO_TEST_CASE(the_old_form_has_its_parameters_in_main_cf) {
  database::ask_main_cf([this](const std::string& name) -> std::optional<std::string> {
    if (name == "x_dbpath") return dir.file("db");
    if (name == "x_query") return "SELECT v FROM t WHERE k = '%s'";
    return std::nullopt;
  });
  BOOST_TEST(shown((*map::open("sqlite:x"))->lookup("key")) == "value");
  BOOST_TEST(shown((*map::open("sqlite:y"))->lookup("key")).contains("y_"));
  database::ask_main_cf({});
  BOOST_TEST(shown((*map::open("sqlite:x"))->lookup("key")).contains("expected the path of a file"));
}

BOOST_AUTO_TEST_CASE(an_asker_asks_in_threads_and_once_for_all_who_ask_the_same) {
  const auto direct = table(), proxied = *map::open("proxy:" + direct->name());
  async::Loop loop;
  Asker tables(loop);
  std::vector<std::optional<Value>> out(50);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto t = i % 2 == 0 ? direct : proxied;
    loop.spawn("ask", async::testing::store_result(tables.ask([t] { return t->lookup("two"); }), &out[i]));
  }
  for (int i = 0; i < 100000 && tables.counts().asked - tables.counts().under_way < 50; ++i) {
    loop.run_once(milliseconds(50));
    if (std::ranges::all_of(out, [](const auto& one) { return one.has_value(); })) break;
  }
  for (const auto& one : out) BOOST_TEST(shown(*one) == "a,b");
  BOOST_TEST(tables.counts().joined == 49U);
}

BOOST_AUTO_TEST_SUITE_END()
