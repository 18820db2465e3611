// Answers on disk: after a kill, and from process to process.
#include "penapi/kept_answers.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/async/testing/run.h"
#include "lib/base/log.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(kept_answers)

namespace {

struct Fixture {
  std::unique_ptr<KeptAnswers> process(async::Cancel* draining, const std::string& directory) {
    auto made = std::make_unique<KeptAnswers>(
        loop, KeptAnswers::Options{.directory = directory, .limit = 100'000, .time = seconds(3600)}, draining);
    made->start();
    return made;
  }
  std::unique_ptr<KeptAnswers> process(async::Cancel* draining) { return process(draining, directory()); }
  template <class Task>
  void await(Task task) {
    async::testing::run_in_time(loop, clock, drop(std::move(task)));
  }
  template <class Task>
  static async::Task<void> drop(Task task) {
    BOOST_TEST((co_await std::move(task)).has_value());
  }
  Answered answer(std::string body) {
    return {.certain = true,
            .digest = "d",
            .at = clock.wall_now(),
            .queue_id = "id",
            .status = 202,
            .body = std::move(body)};
  }
  std::string directory() { return (scratch.path() / "answers").string(); }

  pen::testing::ScratchDir scratch;
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  const std::string key = answer_key("token", "a");
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_keep_returned_for_is_there_after_a_kill, Fixture) {
  async::Cancel draining;
  const auto first = process(&draining);
  await(first->loaded({}));
  await(first->keep(key, answer("one")));
  // The file as it stands now: the process has not ended.
  pen::testing::ScratchDir copy;
  const std::string at = (copy.path() / "answers").string();
  std::filesystem::copy(directory(), at, std::filesystem::copy_options::recursive);
  async::Cancel other;
  const auto next = process(&other, at);
  await(next->loaded({}));
  BOOST_REQUIRE(next->find(key) != nullptr);
  BOOST_TEST(next->find(key)->body == "one");
  await(next->forget(key));
  BOOST_TEST(next->find(key) == nullptr);
}

BOOST_FIXTURE_TEST_CASE(one_request_has_a_key_at_a_time, Fixture) {
  async::Cancel draining;
  const auto answers = process(&draining);
  {
    const KeptAnswers::Turn first(*answers, key);
    BOOST_TEST(bool(first));
    const KeptAnswers::Turn second(*answers, key);
    BOOST_TEST(!bool(second));
    BOOST_TEST(bool(KeptAnswers::Turn(*answers, answer_key("token", "b"))));
  }
  BOOST_TEST(bool(KeptAnswers::Turn(*answers, key)));
}

BOOST_FIXTURE_TEST_CASE(the_next_process_waits_for_the_requests_of_the_one_before, Fixture) {
  async::Cancel draining, later;
  const auto before = process(&draining);
  await(before->loaded({}));
  auto turn = std::make_unique<KeptAnswers::Turn>(*before, key);
  draining.raise();
  const auto next = process(&later);
  for (int i = 0; i < 20; ++i) {
    clock.advance(milliseconds(60));
    for (int j = 0; j < 20; ++j) loop.run_once();
  }
  BOOST_TEST(!next->open());
  await(before->keep(key, answer("last")));
  turn.reset();
  await(next->loaded({}));
  BOOST_TEST(next->find(key)->body == "last");
  BOOST_TEST(!before->open());
  async::testing::run_in_time(loop, clock, [](KeptAnswers* old) -> async::Task<void> {
    BOOST_TEST(!(co_await old->loaded({})).has_value());  // its clients are told to ask again
  }(before.get()));
}

BOOST_FIXTURE_TEST_CASE(a_file_that_cannot_be_read_is_asked_again_and_no_key_is_new_meanwhile, Fixture) {
  async::Cancel draining, later;
  auto before = process(&draining);
  await(before->loaded({}));
  await(before->keep(key, answer("one")));
  draining.raise();
  async::testing::pass_until(loop, clock, [&] { return !before->open(); });
  const auto failures = std::make_shared<std::atomic<int>>(0);
  KeptAnswers next(loop,
                   {.directory = directory(),
                    .limit = 100'000,
                    .time = seconds(3600),
                    .read = [failures](const lmdb::HintStore& store) -> Result<AnswerRecords> {
                      if (++*failures < 3) return fail_errno("read", EIO);
                      return read_answers(store);
                    }},
                   &later);
  next.start();
  async::testing::pass_until(loop, clock, [&] { return *failures == 1; });
  async::testing::run_in_time(loop, clock, [](KeptAnswers* answers, SteadyTime soon) -> async::Task<void> {
    BOOST_TEST(!(co_await answers->loaded({.deadline = soon})).has_value());
  }(&next, loop.now() + seconds(1)));
  await(next.loaded({}));
  BOOST_TEST(*failures == 3);
  BOOST_REQUIRE(next.find(key) != nullptr);
  BOOST_TEST(next.find(key)->body == "one");
}

BOOST_FIXTURE_TEST_CASE(a_process_that_drains_gives_up_a_file_that_cannot_be_read, Fixture) {
  async::Cancel draining, later;
  KeptAnswers before(loop,
                     {.directory = directory(),
                      .limit = 100'000,
                      .time = seconds(3600),
                      .read = [](const lmdb::HintStore&) -> Result<AnswerRecords> { return fail_errno("read", EIO); }},
                     &draining);
  before.start();
  async::testing::pass_until(loop, clock, [&] { return before.open(); });
  draining.raise();
  const auto next = process(&later);
  await(next->loaded({}));
}

BOOST_FIXTURE_TEST_CASE(what_is_no_answer_is_counted_and_leaves_the_file, Fixture) {
  const std::string odd = answer_key("token", "odd");
  {
    const auto store = lmdb::HintStore::open(directory(), "", std::size_t{32} << 20).value();
    BOOST_TEST(store->write({{odd, "odd"}, {key, encode(answer("one"))}}).has_value());
  }
  const std::string path = scratch.file("log");
  BOOST_REQUIRE(log::open({.program = "penapi", .hostname = {}, .target = log::Target::file, .path = path}));
  async::Cancel draining;
  const auto answers = process(&draining);
  await(answers->loaded({}));
  BOOST_TEST(answers->find(key)->body == "one");
  BOOST_TEST(answers->find(odd) == nullptr);
  draining.raise();
  async::testing::pass_until(loop, clock, [&] { return !answers->open(); });
  BOOST_REQUIRE(log::open({.program = "penapi", .hostname = {}, .target = log::Target::file, .path = "/dev/null"}));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  BOOST_TEST(text.str().contains("1 of 2 answers"));
  const auto store = lmdb::HintStore::open(directory(), "", std::size_t{32} << 20).value();
  BOOST_TEST(!store->find(odd).value());
  BOOST_TEST(store->find(key).value().has_value());
}

BOOST_FIXTURE_TEST_CASE(what_is_too_old_leaves_the_file, Fixture) {
  async::Cancel draining;
  auto answers = process(&draining);
  await(answers->loaded({}));
  await(answers->keep(key, answer("old")));
  clock.advance(seconds(3601));
  BOOST_TEST(answers->find(key) == nullptr);
  for (int i = 0; i < 50; ++i) {
    clock.advance(seconds(1));
    for (int j = 0; j < 20; ++j) loop.run_once();
  }
  draining.raise();
  async::testing::pass_until(loop, clock, [&] { return !answers->open(); });
  const auto store = lmdb::HintStore::open(directory(), "", std::size_t{32} << 20).value();
  std::size_t records = 0;
  BOOST_TEST(store->each([&](std::string_view, std::string_view) { ++records; }).has_value());
  BOOST_TEST(records == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
