// The rules that are shipped, against replies of the providers (testdata/replies.txt).
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <set>

#include "lib/base/text.h"
#include "lib/queue/shaping/repeated.h"
#include "lib/queue/shaping/rules_file.h"

namespace pen::shaping {

BOOST_AUTO_TEST_SUITE(shipped_rules)

BOOST_AUTO_TEST_CASE(each_reply_is_taken_for_what_it_says) {
  const auto rules = read_rules_files({"conf/shaping.rules"});
  BOOST_REQUIRE_MESSAGE(rules, (rules ? "" : rules.error().message()));
  std::ifstream file("lib/queue/shaping/testdata/replies.txt");
  std::string line;
  std::map<std::string, int> providers;
  std::set<std::string> fitted;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    const auto first = line.find(" | "), second = line.find(" | ", first + 3);
    BOOST_REQUIRE_MESSAGE(second != std::string::npos, line);
    const Provider* p = rules->provider_of(line.substr(0, first), {});
    const Rule* r = rules->classify(p, own_words(line.substr(second + 3), {}));
    std::string found = "-";
    if (r != nullptr) {
      fitted.insert(r->name);
      found = word(r->cls);
      if (r->cls != Class::none && r->cls != Class::configuration) found += " " + std::string(word(r->scope));
    }
    BOOST_TEST(found == line.substr(first + 3, second - first - 3),
               line << "\n  " << found << (r != nullptr ? " by " + r->name : ""));
    ++providers[p != nullptr ? p->name : ""];
  }
  for (const char* name :
       {"google", "yahoo", "outlook", "office", "apple", "orange", "united", "netease", "tencent", "comcast", ""})
    BOOST_TEST(providers[name] > 0, name);
  for (const Rule& rule : rules->rules()) BOOST_TEST(fitted.contains(rule.name), "no reply for rule " << rule.name);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::shaping
