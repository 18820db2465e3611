// The greylist, the quotas and their file: kept over a restart (lib/suite/remembered/written_behind_test.cc has the
// rest).
#include "anvil/memory.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using pen::anvil::Greylist;
using pen::anvil::Memory;

BOOST_AUTO_TEST_SUITE(memory)

namespace {

struct Fixture {
  std::unique_ptr<Memory> begin() {
    return std::make_unique<Memory>(loop, scratch.path().string(),
                                    [this](const std::string& line) { warnings.push_back(line); });
  }
  /// Lets time pass until the task is done.
  void await(async::Task<void> task) { async::testing::run_in_time(loop, clock, std::move(task)); }
  static Greylist::Question question() {
    Greylist::Question q;
    q.client = "192.0.2.0";
    q.delay = 300;
    q.window = q.keep = 100'000;
    return q;
  }
  static pen::anvil::Quotas::Question quota() {
    pen::anvil::Quotas::Question q;
    q.messages = q.recipients = 1;
    q.users.push_back({.name = "login:ada", .messages_per_day = 1});
    return q;
  }
  pen::testing::ScratchDir scratch;
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  std::vector<std::string> warnings;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(what_was_learned_is_there_after_a_restart) {
  auto first = begin();
  await(first->ready());
  BOOST_TEST(first->ask(question()).wait == 300u);
  BOOST_TEST((first->ask(quota()).exceeded == ipc::sender_memory::QuotaLimit::none));
  await(first->finish());
  first.reset();
  clock.advance(seconds(400));
  auto second = begin();
  await(second->ready());
  BOOST_TEST(second->ask(question()).delayed >= 400u);
  BOOST_TEST((second->ask(quota()).exceeded == ipc::sender_memory::QuotaLimit::messages_per_day));
  await(second->finish());
  BOOST_TEST(warnings.empty());
}

BOOST_AUTO_TEST_SUITE_END()
