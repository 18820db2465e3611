#include "qmgr/testing/scenario.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>

namespace pen::qmgr::scenario {

const std::string& Arguments::at(std::size_t n) const {
  BOOST_REQUIRE_MESSAGE(n < words_.size(), "a word is missing at the end");
  return words_[n];
}

std::uint32_t Arguments::number(std::size_t n) const { return static_cast<std::uint32_t>(std::stoul(at(n))); }

milliseconds Arguments::duration(std::size_t n) const {
  std::size_t used = 0;
  const double value = std::stod(at(n), &used);
  const std::string unit = at(n).substr(used);
  const double scale = unit == "ms" ? 1 : unit == "s" ? 1000 : unit == "m" ? 60'000 : unit == "h" ? 3'600'000 : -1;
  BOOST_REQUIRE_MESSAGE(scale > 0, "duration without unit: " << at(n));
  return milliseconds(static_cast<long long>(value * scale));
}

std::vector<std::string> Arguments::list(std::size_t from) const {
  if (from >= words_.size()) return {};
  return {words_.begin() + static_cast<std::ptrdiff_t>(from), words_.end()};
}

std::string Arguments::rest(std::size_t from, const std::string& otherwise) const {
  std::string out;
  for (const std::string& word : list(from)) out += (out.empty() ? "" : " ") + word;
  return out.empty() ? otherwise : out;
}

std::vector<Statement> read_scenario(const std::filesystem::path& file) {
  std::vector<Statement> out;
  std::ifstream in(file);
  BOOST_REQUIRE_MESSAGE(in.is_open(), file << " cannot be read");
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (const auto hash = line.find('#'); hash != std::string::npos) line.resize(hash);
    std::istringstream words(line);
    std::string verb;
    if (!(words >> verb)) continue;
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    out.push_back({file.filename().string() + ":" + std::to_string(number), line, verb, Arguments(std::move(rest))});
  }
  return out;
}

}  // namespace pen::qmgr::scenario
