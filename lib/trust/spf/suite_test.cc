// The published SPF test suite (testdata/rfc7208-suite.txt).
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <memory>

#include "lib/base/async/testing/run.h"
#include "lib/net/testing/zone.h"
#include "lib/trust/spf/check.h"

using namespace pen;
using namespace pen::spf;

namespace {

std::string unescaped(std::string_view text) {
  if (text == "-") return {};
  std::string out;
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text.starts_with("\\x")) {
      out += static_cast<char>(std::stoi(std::string(text.substr(2, 2)), nullptr, 16));
      text.remove_prefix(3);
    } else {
      out += text.front();
    }
  }
  return out;
}

/// Cuts off the first word.
std::string word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  std::string out(line.substr(0, end));
  line.remove_prefix(std::min(end + 1, line.size()));
  return out;
}

struct Case {
  std::string name, results, explanation;
  bool explained = false;
  Question question;
};

struct Suite {
  std::string name;
  net::testing::Zone zone;
  std::vector<Case> cases;
};

std::vector<std::unique_ptr<Suite>> read() {
  std::vector<std::unique_ptr<Suite>> out;
  std::ifstream file("lib/trust/spf/testdata/rfc7208-suite.txt");
  for (std::string text; std::getline(file, text);) {
    std::string_view line = text;
    const std::string kind = word(line);
    if (kind == "suite") {
      out.push_back(std::make_unique<Suite>());
      out.back()->name = line;
    } else if (kind == "rr") {
      const std::string name = word(line), type = word(line);
      out.back()->zone.add(unescaped(name), type, unescaped(line));
    } else if (kind == "explanation") {
      out.back()->cases.back().explanation = line == "DEFAULT" ? "" : unescaped(line);
      out.back()->cases.back().explained = true;
    } else if (kind == "test") {
      Case test;
      test.name = word(line);
      const auto client = parse_ip(word(line));
      BOOST_TEST_REQUIRE(client.has_value());
      test.question.client = *client;
      test.question.helo = unescaped(word(line));
      const std::string sender = unescaped(word(line));
      test.question.sender = sender.empty() ? "postmaster@" + test.question.helo : sender;
      test.results = line;
      out.back()->cases.push_back(std::move(test));
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spf_suite)

BOOST_AUTO_TEST_CASE(every_case_of_the_published_suite_has_its_result) {
  async::Loop loop;
  std::size_t count = 0;
  for (const auto& suite : read()) {
    const Records records = suite->zone.records();
    for (const auto& test : suite->cases) {
      const auto outcome = async::testing::run(loop, check(records, test.question, {}));
      const std::string word(verdict_word(outcome.verdict));
      BOOST_TEST(("|" + test.results + "|").contains("|" + word + "|"), suite->name << ": " << test.name << ": " << word
                                                                                    << " and not " << test.results
                                                                                    << " (" << outcome.reason << ")");
      if (test.explained)  // the case of hexadecimal digits is free
        BOOST_TEST(iequals(outcome.explanation, test.explanation), suite->name << ": " << test.name << ": explanation");
      ++count;
    }
  }
  BOOST_TEST(count == 203u);
}

BOOST_AUTO_TEST_SUITE_END()
