#include "lib/send/egress/choose.h"

#include <boost/test/unit_test.hpp>
#include <map>

namespace pen::egress {
namespace {

const char* const kText =
    "source a\nsource b\nsource c\nsource out weight=0\n"
    "pool p a*100 b*200 c*700 out\npool less a*100 c*700\n";

std::string first(const File& f, const char* pool, const std::string& queue_id) {
  return f.sources[order_of(f, *f.pool(pool), draw_of(queue_id)).front()].name;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(egress_choose)

BOOST_AUTO_TEST_CASE(a_message_has_the_same_order_every_time) {
  const File f = parse(kText).file;
  for (const char* id : {"4bGNsx3Ynxz1kGz8", "4bGNsx3Ynxz1kGz9", ""}) {
    const auto order = order_of(f, *f.pool("p"), draw_of(id));
    BOOST_TEST(order.size() == 3U);
    BOOST_TEST((order == order_of(parse(kText).file, *f.pool("p"), draw_of(id))));
  }
}

BOOST_AUTO_TEST_CASE(sources_have_their_share_by_weight_and_none_without) {
  const File f = parse(kText).file;
  std::map<std::string, int> count;
  for (int i = 0; i < 20000; ++i) ++count[first(f, "p", "4bG" + std::to_string(i))];
  BOOST_TEST(!count.contains("out"));
  BOOST_TEST((count["a"] > 1800 && count["a"] < 2200));
  BOOST_TEST((count["b"] > 3700 && count["b"] < 4300));
  BOOST_TEST((count["c"] > 13600 && count["c"] < 14400));
}

BOOST_AUTO_TEST_CASE(a_source_that_goes_moves_its_own_messages_only) {
  const File f = parse(kText).file;
  int moved = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = "4bG" + std::to_string(i);
    const std::string before = first(f, "p", id);
    if (before == "b")
      ++moved;
    else
      BOOST_TEST(first(f, "less", id) == before);
  }
  BOOST_TEST(moved > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::egress
