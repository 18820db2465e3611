// Queries of redis: tables: words and quotes, keys that stay in their word, commands that are refused.
#include "lib/map/redis_query.h"

#include <boost/test/unit_test.hpp>

#include "lib/map/database_table.h"

using namespace pen;
using namespace pen::map;

namespace {

using Words = std::vector<std::string>;

std::string problem(const std::string& text, const OpenOptions& options = {}) {
  const auto read = database::read_table("redis", text, "/x.cf", options);
  return read ? "" : read.error().message();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_queries)

BOOST_AUTO_TEST_CASE(words_are_split_as_a_shell_does) {
  const auto check = [](std::string_view text, const Words& wanted) {
    const auto words = split_redis(text);
    BOOST_REQUIRE_MESSAGE(words.has_value(), text);
    BOOST_TEST(*words == wanted, boost::test_tools::per_element());
  };
  check(" HGET  mail\tjo ", {"HGET", "mail", "jo"});
  check("GET \"a b\"'c d'e", {"GET", "a bc de"});
  check("GET '' \"\"", {"GET", "", ""});
  check("GET a\\ b \\\" '\\''", {"GET", "a b", "\"", "'"});
  for (const char* text : {"GET 'a", "GET \"a'", "GET a\\"}) BOOST_TEST(!split_redis(text), text);
}

BOOST_AUTO_TEST_CASE(a_key_stays_in_its_word_whatever_it_is) {
  for (const std::string key : {"jo@x.org", "a b", "' b", "\" b", "\\", "a\\' \"b", "\t", "\r\nDEL x"}) {
    for (const std::string quotes : {"", "'", "\""}) {
      std::string query = "GET " + quotes + "mail:";
      BOOST_TEST(quote_redis(key, query));
      query += quotes;
      const auto words = split_redis(query);
      BOOST_REQUIRE(words.has_value());
      BOOST_TEST(*words == (Words{"GET", "mail:" + key}), boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(only_commands_that_read_are_taken) {
  BOOST_TEST(problem("query = GET %s\n") == "");
  BOOST_TEST(problem("query = hget mail %u\nport = 7000\ndb = 3\nhosts = h1 inet:h2:1 unix:/s\n") == "");
  for (const char* command : {"SET %s x", "DEL %s", "SUBSCRIBE %s", "MONITOR", "%s", "EVAL x 0", "MULTI", "BLPOP %s 0"})
    BOOST_TEST(problem(std::string("query = ") + command + "\n").contains("only read"), command);
  BOOST_TEST(problem("hosts = h\n").contains("query is missing"));
  BOOST_TEST(problem("query = GET '%s\n").contains("has no end"));
  BOOST_TEST(problem("query = GET %s\nport = x\n").contains("port"));
  BOOST_TEST(problem("query = GET %s\nusername = u\n").contains("username without password"));
}

BOOST_AUTO_TEST_CASE(where_values_are_identities_the_server_must_ask_for_a_password) {
  BOOST_TEST(problem("query = GET %s\n", {.served = false}).contains("asks for no password"));
  BOOST_TEST(problem("query = GET %s\npassword = p\n", {.served = false}) == "");
}

BOOST_AUTO_TEST_CASE(tables_of_one_server_and_login_share_their_connections) {
  const auto pool = [](const std::string& more) {
    return (*database::read_table("redis", "query = GET %s\n" + more, "f", {}))->pool;
  };
  BOOST_TEST(pool("query = HGET a %s\nresult_format = x%s\n") == pool(""));
  for (const char* more : {"password = p\n", "db = 1\n", "port = 1\n", "hosts = h\n"})
    BOOST_TEST(pool(more) != pool(""), more);
}

BOOST_AUTO_TEST_SUITE_END()
