// The cache's file: kept over a restart (lib/suite/remembered/written_behind_test.cc has the rest).
#include "verify/file.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

using namespace pen;
using pen::verify::Cache;
using pen::verify::cache_directory;
using pen::verify::File;
using pen::verify::State;

BOOST_AUTO_TEST_SUITE(verify_file)

namespace {

struct Fixture {
  /// Lets time pass until the task is done.
  void await(async::Task<void> task) { async::testing::run_in_time(loop, clock, std::move(task)); }
  WallTime now() { return clock.wall_now(); }
  std::string directory() { return (scratch.path() / "verify_cache").string(); }

  pen::testing::ScratchDir scratch;
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(results_are_there_after_a_restart_and_forgotten_ones_are_not) {
  {
    Cache cache{{}};
    File file(loop, directory(), cache);
    await(file.open());
    cache.result("good@x", State::good, "ok", now());
    cache.result("bad@x", State::bad, "no", now());
    cache.result("gone@x", State::bad, "no", now());
    file.write_soon();
    await(file.finish());
  }
  {
    Cache cache{{}};
    File file(loop, directory(), cache);
    await(file.open());
    BOOST_TEST(cache.size() == 3U);
    BOOST_TEST(cache.forget("gone@x"));
    await(file.finish());
  }
  Cache cache{{}};
  File file(loop, directory(), cache);
  await(file.open());
  BOOST_TEST(cache.size() == 2U);
  BOOST_TEST((cache.find("good@x", now())->state == State::good));
  BOOST_TEST(cache.find("bad@x", now())->text == "no");
  await(file.finish());
}

BOOST_AUTO_TEST_CASE(the_place_is_named_as_in_postfix) {
  BOOST_TEST(cache_directory("btree:/var/lib/x/verify_cache").value() == "/var/lib/x/verify_cache");
  BOOST_TEST(cache_directory("proxy:btree:/var/lib/x").value() == "/var/lib/x");
  BOOST_TEST(cache_directory("lmdb:/x").value() == "/x");
  BOOST_TEST(cache_directory(" ").value() == "");
  for (const char* wrong : {"memcache:/etc/x.cf", "btree:relative", "hash:", "nonsense"})
    BOOST_TEST(!cache_directory(wrong).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
