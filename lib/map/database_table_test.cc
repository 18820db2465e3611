// Table files: parameters and their defaults, what is asked for, how values are put together.
#include "lib/map/database_table.h"

#include <boost/test/unit_test.hpp>

#include "lib/map/utf8.h"

using namespace pen;
using namespace pen::map;
using database::Table;

namespace {

std::shared_ptr<Table> table(const std::string& type, const std::string& text) {
  auto read = database::read_table(type, text, "/x.cf", {});
  BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? std::string() : read.error().message()));
  return *std::move(read);
}
std::string problem(const std::string& type, const std::string& text) {
  const auto read = database::read_table(type, text, "/x.cf", {});
  return read ? "" : read.error().message();
}
std::string expanded(const Table& t, const std::string& name, const std::string& key) {
  return t.templates.at(name)
      .expand(KeyParts(key),
              [](std::string_view part, std::string& out) {
                out += part;
                return true;
              })
      .value_or("(none)");
}
std::string joined(const Table& t, const std::string& key, const std::vector<std::string>& values) {
  database::Values all(t, key);
  for (const auto& value : values)
    if (!all.add(value)) break;
  auto value = std::move(all).take();
  if (!value) return "error: " + value.error().message();
  return value->value_or("(none)");
}

BOOST_AUTO_TEST_SUITE(database_tables)

BOOST_AUTO_TEST_CASE(a_file_is_in_the_form_of_main_cf) {
  const auto t = table("mysql",
                       "# a comment\n\nhosts = unix:/s, inet:h:1\n  h2\nuser=u\npassword = p = q # no comment\n"
                       "query = SELECT a FROM t\n   WHERE k = '%s'\n");
  BOOST_TEST(database::setting(t->settings, "password") == "p = q # no comment");
  BOOST_TEST(expanded(*t, "query", "key") == "SELECT a FROM t   WHERE k = 'key'");
  BOOST_TEST(t->hosts.size() == 3U);
  BOOST_TEST(t->notes.empty());
}

BOOST_AUTO_TEST_CASE(a_query_can_be_written_the_old_way) {
  const std::string old =
      "dbname = d\ntable = t\nselect_field = a\nwhere_field = k\nadditional_conditions = AND x = 1\n";
  BOOST_TEST(expanded(*table("mysql", old), "query", "key") == "SELECT a FROM t WHERE k = 'key' AND x = 1");
  BOOST_TEST(expanded(*table("pgsql", old + "select_function = f\n"), "query", "key") == "SELECT f('key')");
  BOOST_TEST(expanded(*table("pgsql", old + "query = %u\n"), "query", "key") == "key");
  BOOST_TEST(problem("sqlite", "dbpath = /d\ntable = t\n").contains("select_field is missing"));
}

BOOST_AUTO_TEST_CASE(what_cannot_work_is_an_error_and_what_is_unknown_is_told) {
  BOOST_TEST(problem("sqlite", "query = x").contains("dbpath is missing"));
  BOOST_TEST(problem("pgsql", "query = x").contains("dbname is missing"));
  BOOST_TEST(problem("pgsql", "query = x\nhosts = postgresql://a/b") == "");
  BOOST_TEST(problem("ldap", "").contains("search_base is missing"));
  BOOST_TEST(problem("mysql", "query = %x").contains("/x.cf: query: %x"));
  BOOST_TEST(problem("mysql", "no equals sign").contains("line 1"));
  BOOST_TEST(problem("mysql", "query = x\nexpansion_limit = many").contains("expansion_limit"));
  BOOST_TEST(problem("mysql", "query = x\nretry_interval = 2w").contains("retry_interval"));
  BOOST_TEST(table("mysql", "query = x\nretry_interval = 2m")->retry_interval.count() == 120);
  const auto t = table("ldap", "search_base = dc=x\nquerry = y\ncache = no\nversion = 3\n");
  BOOST_REQUIRE(t->notes.size() == 2U);
  BOOST_TEST(t->notes[0].contains("cache"));
  BOOST_TEST(t->notes[1].contains("querry"));
}

BOOST_AUTO_TEST_CASE(a_filter_of_mongodb_has_its_key_where_it_is_compared) {
  const std::string server = "uri = mongodb://u:p@h/?tls=true\ndbname = d\ncollection = c\n";
  const std::string whole = server + "result_attribute = to\nquery_filter = {\"a\": \"%s\"}\n";
  const auto t = table("mongodb", whole);
  BOOST_TEST(t->hosts == std::vector<std::string>{"mongodb://u:p@h/?tls=true"}, boost::test_tools::per_element());
  BOOST_TEST(expanded(*t, "query_filter", "key") == "{\"a\": \"key\"}");
  BOOST_TEST(t->expansion_limit == 0U);
  BOOST_TEST(t->pool == table("mongodb", whole + "collection = other\n")->pool);
  BOOST_TEST(problem("mongodb", whole + "uri =\n").contains("uri is missing"));
  BOOST_TEST(problem("mongodb", whole + "dbname =\n").contains("dbname is missing"));
  BOOST_TEST(problem("mongodb", whole + "projection = {\"to\": 1}\n").contains("exactly one of"));
  BOOST_TEST(problem("mongodb", whole + "result_attribute =\n").contains("exactly one of"));
  BOOST_TEST(
      problem("mongodb", whole + "query_filter = {\"a\": %u}\n").contains("/x.cf: query_filter: a part of the key"));
  BOOST_TEST(problem("mongodb", whole + "query_filter = {\"$where\": \"%9\"}\n").contains("below $where"));
}

BOOST_AUTO_TEST_CASE(tables_share_a_pool_when_server_and_login_are_the_same) {
  const std::string login = "hosts = h\nuser = u\npassword = p\n";
  const auto a = table("mysql", login + "query = a\ndomain = x\nresult_format = %u\n");
  BOOST_TEST(a->pool == table("mysql", login + "query = b\n")->pool);
  BOOST_TEST(a->pool != table("mysql", "hosts = h\nuser = u\npassword = q\nquery = a\n")->pool);
  BOOST_TEST(a->pool != table("mysql", "hosts = h2\nuser = u\npassword = p\nquery = a\n")->pool);
  BOOST_TEST(a->pool != table("pgsql", login + "dbname = d\nquery = a\n")->pool);
}

BOOST_AUTO_TEST_CASE(only_keys_with_what_the_templates_use_are_asked_for) {
  const auto asks = [](const auto& t, const char* key) { return t->asks_for(key).value(); };
  const auto plain = table("mysql", "query = '%s'");
  BOOST_TEST(asks(plain, "user"));
  BOOST_TEST(asks(plain, "@x.org"));
  BOOST_TEST(!asks(plain, ""));
  const auto parts = table("mysql", "query = '%u'\nresult_format = %s@%D");
  BOOST_TEST(asks(parts, "a@x.org"));
  BOOST_TEST(!asks(parts, "user"));
  BOOST_TEST(!asks(parts, "@x.org"));
}

BOOST_AUTO_TEST_CASE(with_domain_only_addresses_in_these_domains_are_asked_for) {
  const auto t = table("mysql", "query = '%s'\ndomain = example.org, inline:{ other.example = 1 }");
  for (const char* key : {"a@example.org", "a@EXAMPLE.org", "a@other.example"}) BOOST_TEST(t->asks_for(key).value());
  for (const char* key : {"a@x.org", "a@sub.example.org", "@example.org", "example.org", "user", "a@"})
    BOOST_TEST(!t->asks_for(key).value());
  BOOST_TEST(!table("mysql", "query = '%s'\ndomain = fail:f")->asks_for("a@x.org").has_value());
}

BOOST_AUTO_TEST_CASE(values_are_joined_and_formatted) {
  const auto t = table("mysql", "query = '%s'\nresult_format = <%u:%d>");
  BOOST_TEST(joined(*t, "k", {"a@x", "plain", "", "b@y"}) == "<a:x>,<b:y>");
  BOOST_TEST(joined(*t, "k", {"plain"}) == "(none)");
  BOOST_TEST(joined(*t, "k", {}) == "(none)");
}

BOOST_AUTO_TEST_CASE(more_values_than_the_limit_are_an_error) {
  const auto t = table("mysql", "query = '%s'\nexpansion_limit = 2");
  BOOST_TEST(joined(*t, "k", {"a", "", "b"}) == "a,b");
  BOOST_TEST(joined(*t, "k", {"a", "b", "c"}).contains("expansion_limit 2 exceeded"));
  const auto open = table("mysql", "query = '%s'");
  BOOST_TEST(joined(*open, "k", std::vector<std::string>(600, std::string(2000, 'v'))).starts_with("error"));
}

BOOST_AUTO_TEST_CASE(utf8_is_told_from_other_bytes) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    BOOST_TEST(is_utf8(good));
  for (const char* bad : {"\xff", "\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "a\xe2\x82"})
    BOOST_TEST(!is_utf8(bad));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
