#include "tools/map_options.h"

#include <boost/test/unit_test.hpp>

namespace pen::tools {
namespace {

auto read(std::vector<const char*> words) {
  words.insert(words.begin(), "penmap");
  return MapOptions::read(static_cast<int>(words.size()), words.data(), "penmap", Source::table);
}

BOOST_AUTO_TEST_SUITE(map_options)

BOOST_AUTO_TEST_CASE(a_table_is_made_with_the_options_that_are_given) {
  const auto o = read({"-roFpf", "-c", "dir", "hash:one", "two"});
  BOOST_REQUIRE(o);
  BOOST_TEST((o->tables == std::vector<std::string>{"hash:one", "two"}));
  BOOST_CHECK(o->build.duplicates == map::BuildOptions::Duplicates::replace);
  BOOST_TEST((o->keep_root && o->values_are_files && !o->inherit_mode && !o->build.fold_keys));
  BOOST_TEST(o->directory == "dir");
  const auto plain = read({"one"});
  BOOST_REQUIRE(plain);
  BOOST_TEST((!plain->keep_root && plain->inherit_mode && plain->build.fold_keys));
  BOOST_CHECK(plain->build.duplicates == map::BuildOptions::Duplicates::warn);
}

BOOST_AUTO_TEST_CASE(keys_may_come_from_a_message) {
  const auto o = read({"-hmq", "-", "regexp:rules"});
  BOOST_REQUIRE(o);
  BOOST_TEST((o->message.header && o->message.mime && !o->message.body));
  BOOST_TEST(o->query.value() == "-");
}

BOOST_AUTO_TEST_CASE(all_tables_are_made_without_a_name_and_without_another_task) {
  BOOST_TEST(read({"--all"})->all);
  for (const auto& words : std::vector<std::vector<const char*>>{
           {}, {"--all", "one"}, {"--all", "-s"}, {"-s", "-i", "one"}, {"-q", "a", "-d", "a", "one"}})
    BOOST_TEST(read(words).error().text.starts_with("usage: penmap "));
}

BOOST_AUTO_TEST_CASE(a_key_may_be_empty_as_for_postmap) {
  BOOST_TEST(read({"-q", "", "one"})->query.value() == "");
  BOOST_TEST(read({"-d", "", "one"})->remove.value() == "");
}

BOOST_AUTO_TEST_CASE(options_without_what_they_are_about_are_refused) {
  BOOST_TEST(read({"-h", "one"}).error().text.starts_with("penmap: -h and -b take the keys"));
  BOOST_TEST(read({"-b", "-q", "key", "one"}).error().text.starts_with("penmap: -h and -b"));
  BOOST_TEST(read({"-m", "-q", "-", "one"}).error().text.starts_with("penmap: -m says what"));
  BOOST_TEST(read({"-j", "one"}).error().text.starts_with("penmap: -j is for what is printed"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
