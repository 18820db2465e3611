// A table's file: kept over a restart, by one process at a time; damage is set aside.
#include "lib/suite/remembered/written_behind.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using pen::remembered::Table;
using pen::remembered::WrittenBehind;

BOOST_AUTO_TEST_SUITE(written_behind)

namespace {

struct Words final : Table {
  std::map<std::string, std::string> known;
  std::set<std::string> fresh;
  void put(const std::string& key, const std::string& value) {
    known[key] = value;
    fresh.insert(key);
  }
  void remove(const std::string& key) {
    known.erase(key);
    fresh.insert(key);
  }
  void take(std::string_view key, std::string_view value) override {
    known.try_emplace(std::string(key), value);
    if (value == "unreadable") remove(std::string(key));
  }
  bool changed() const override { return !fresh.empty(); }
  std::vector<lmdb::Change> take_changes(std::size_t most) override {
    std::vector<lmdb::Change> out;
    while (!fresh.empty() && out.size() < most) {
      const auto node = fresh.extract(fresh.begin());
      const auto at = known.find(node.value());
      out.push_back({node.value(), at == known.end() ? std::nullopt : std::optional(at->second)});
    }
    return out;
  }
};

struct Fixture {
  std::unique_ptr<WrittenBehind> file_of(Words& words) {
    return std::make_unique<WrittenBehind>(
        loop, words,
        WrittenBehind::Options{.directory = directory(),
                               .map_size = std::size_t{1} << 20,
                               .words = {"all begins anew", "known here only", "forgotten at the next restart"}},
        [this](const std::string& line) { warnings.push_back(line); });
  }
  std::unique_ptr<WrittenBehind> loaded(Words& words) {
    auto file = file_of(words);
    file->start();
    await(file->loaded());
    return file;
  }
  /// Lets time pass until the task is done.
  void await(async::Task<void> task) { async::testing::run_in_time(loop, clock, std::move(task)); }
  template <class Done>
  void pass_until(Done done) {
    async::testing::pass_until(loop, clock, done);
  }
  /// What a process finds that starts after a kill: the file as it stands now.
  std::map<std::string, std::string> stored() {
    pen::testing::ScratchDir copy;
    std::filesystem::copy(directory(), copy.path() / "words", std::filesystem::copy_options::recursive);
    std::map<std::string, std::string> out;
    const auto store = lmdb::HintStore::open((copy.path() / "words").string(), "", std::size_t{1} << 20).value();
    BOOST_TEST(store->each([&](std::string_view key, std::string_view value) { out.emplace(key, value); }).has_value());
    return out;
  }
  std::string directory() { return (scratch.path() / "words").string(); }

  pen::testing::ScratchDir scratch;
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  std::vector<std::string> warnings;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(what_was_learnt_is_there_after_a_restart_and_what_was_removed_is_not) {
  {
    Words words;
    const auto file = loaded(words);
    words.put("a", "1");
    words.put("b", "2");
    words.put("c", "unreadable");
    await(file->finish());
  }
  {
    Words words;
    const auto file = loaded(words);
    BOOST_TEST(words.known.size() == 2U);
    words.remove("b");
    await(file->finish());
  }
  Words words;
  const auto file = loaded(words);
  BOOST_TEST(words.known.size() == 1U);
  BOOST_TEST(words.known["a"] == "1");
  await(file->finish());
  BOOST_TEST(warnings.empty());
}

BOOST_AUTO_TEST_CASE(changes_are_written_while_the_process_goes_on) {
  Words words;
  const auto file = loaded(words);
  words.put("a", "1");
  file->write_soon();
  pass_until([&] { return !words.changed(); });
  words.put("b", "2");
  file->write_soon();
  BOOST_TEST(words.changed());  // not at once: many changes are one transaction
  pass_until([&] { return !words.changed() && stored().size() == 2U; });
  await(file->finish());
}

BOOST_AUTO_TEST_CASE(what_is_learnt_while_the_file_is_read_counts_before_what_is_stored) {
  {
    Words words;
    const auto file = loaded(words);
    words.put("a", "old");
    await(file->finish());
  }
  Words words;
  const auto file = file_of(words);
  file->start();
  words.put("a", "new");
  await(file->loaded());
  BOOST_TEST(words.known["a"] == "new");
  await(file->finish());
  BOOST_TEST(stored()["a"] == "new");
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside) {
  {
    Words words;
    const auto file = loaded(words);
    words.put("a", "1");
    await(file->finish());
  }
  const std::string data = directory() + "/data.mdb";
  std::filesystem::resize_file(data, std::filesystem::file_size(data) / 2);
  Words words;
  const auto file = loaded(words);
  BOOST_TEST(words.known.empty());
  BOOST_TEST(std::filesystem::exists(directory() + "/damaged"));
  BOOST_TEST_REQUIRE(warnings.size() == 1U);
  BOOST_TEST(warnings[0].ends_with("all begins anew"));
  words.put("b", "2");
  await(file->finish());
  BOOST_TEST(stored().size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_next_process_waits_for_the_last_one) {
  Words first, second;
  const auto file = loaded(first);
  first.put("a", "1");
  const auto next = file_of(second);
  next->start();
  async::testing::run(loop,
                      file->finish());  // no time passes: how long its thread takes is not the patience of the next
  await(next->loaded());
  BOOST_TEST(second.known.size() == 1U);
  BOOST_TEST(warnings.empty());
  await(next->finish());
}

BOOST_AUTO_TEST_CASE(a_process_that_does_not_get_the_file_goes_on_without_it) {
  Words first, second;
  const auto file = loaded(first);
  const SteadyTime began = clock.now();
  const auto other = loaded(second);
  BOOST_TEST(bool(clock.now() - began >= WrittenBehind::kPatience));
  BOOST_TEST_REQUIRE(warnings.size() == 1U);
  BOOST_TEST(warnings[0].ends_with("known here only"));
  second.put("a", "1");
  await(other->finish());
  BOOST_TEST(!second.changed());  // not kept, and not waiting to be
  await(file->finish());
  BOOST_TEST(stored().empty());
}

BOOST_AUTO_TEST_CASE(a_full_file_is_told_once_and_the_rest_stays_in_memory) {
  Words words;
  const auto file = loaded(words);
  for (int i = 0; i < 2000; ++i) words.put("key" + std::to_string(i), std::string(2000, 'x'));
  file->write_soon();
  pass_until([&] { return !words.changed() && !warnings.empty(); });
  words.put("another", std::string(2000, 'x'));
  words.put("key1", "y");
  await(file->finish());
  BOOST_TEST_REQUIRE(warnings.size() >= 1U);
  BOOST_TEST(warnings[0].ends_with("forgotten at the next restart"));
  BOOST_TEST(words.known.size() == 2001U);
}

BOOST_AUTO_TEST_CASE(without_a_directory_nothing_is_kept_and_nobody_waits) {
  Words words;
  WrittenBehind file(loop, words, {}, [this](const std::string& line) { warnings.push_back(line); });
  file.start();
  await(file.loaded());
  words.put("a", "1");
  await(file.finish());
  BOOST_TEST(warnings.empty());
  BOOST_TEST(!words.changed());
}

BOOST_AUTO_TEST_SUITE_END()
