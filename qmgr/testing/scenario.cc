#include "qmgr/testing/scenario.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

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

void no_such(std::string_view kind, std::string_view name) {
  throw std::invalid_argument("no such " + std::string(kind) + ": " + std::string(name));
}

std::string page_line(std::string_view before, std::string_view name, std::string_view arguments,
                      std::string_view meaning) {
  std::string statement = std::string(before) + std::string(name);
  if (!arguments.empty()) statement += " " + std::string(arguments);
  for (std::size_t at = 0; (at = statement.find('|', at)) != std::string::npos; at += 2) statement.insert(at, "\\");
  return "| `" + statement + "` | " + std::string(meaning) + " |\n";
}

Cases::Cases(const std::filesystem::path& folder, void (*run)(const std::filesystem::path& file)) {
  std::vector<std::filesystem::path> files;
  std::error_code none;  // run elsewhere: --list_content
  for (const auto& f : std::filesystem::directory_iterator(folder, none)) {
    if (f.path().extension() == ".scn") files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& f : files) {
    boost::unit_test::ut_detail::auto_test_unit_registrar(
        boost::unit_test::make_test_case([run, f] { run(f); }, f.stem().string(), f.string(), 1),
        boost::unit_test::decorator::collector_t::instance());
  }
}

void check_page(const std::filesystem::path& page, const std::string& text) {
  if (const char* update = std::getenv("PEN_SCENARIO_PAGE"); update != nullptr && std::string(update) == "update")
    std::ofstream(page) << text;
  std::ifstream in(page);
  const std::string stands{std::istreambuf_iterator<char>(in), {}};
  BOOST_CHECK_MESSAGE(stands == text, page << " is stale: build the target scenario_page_update");
}

}  // namespace pen::qmgr::scenario
