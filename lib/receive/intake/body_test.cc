/// Tests for how much of incoming content stays in memory.
#include "lib/receive/intake/body.h"

#include "lib/base/async/testing/run.h"
#include "lib/receive/intake/fakes.h"

namespace pen::intake {
namespace {

struct Fixture {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  fakes::MemoryQueue queue;
  BodyMemory memory{100'000};

  std::unique_ptr<Body> body(std::size_t size, std::uint64_t declared = 0) {
    auto b = std::make_unique<Body>(pool, queue, memory, ContentOptions{}, declared);
    b->content().line_end();  // an empty header
    feed(*b, size);
    return b;
  }
  static void feed(Body& b, std::size_t size) {
    for (const std::string line(98, 'x'); size >= 100; size -= 100) {
      b.content().text(line);
      b.content().line_end();
    }
  }
  async::Until soon() const { return {.deadline = loop.now() + seconds(10)}; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(body, Fixture)

BOOST_AUTO_TEST_CASE(one_body_gathers_a_large_piece_before_it_is_written) {
  memory = BodyMemory();
  const auto b = body(Body::kDrainAt - 1000);
  BOOST_TEST(!b->must_drain());
  feed(*b, 1100);
  BOOST_TEST(b->must_drain());
  BOOST_TEST(*memory.read_limit() == 0U);
}

BOOST_AUTO_TEST_CASE(a_buffer_that_was_written_gathers_what_comes_next) {
  memory = BodyMemory();
  const auto b = body(Body::kDrainAt);
  async::testing::run(loop, b->drain(soon()));
  BOOST_TEST(memory.used() < 1'000U);  // before that there was no content
  feed(*b, Body::kDrainAt);
  async::testing::run(loop, b->drain(soon()));
  BOOST_TEST(memory.used() >= Body::kDrainAt);
  BOOST_TEST(b->content().pending().empty());
}

BOOST_AUTO_TEST_CASE(many_bodies_write_smaller_pieces_and_read_less_at_once) {
  std::vector<std::unique_ptr<Body>> bodies;
  while (!memory.scarce()) {
    bodies.push_back(body(Body::kLeastDrain + 1000));
    BOOST_TEST(bodies.back()->must_drain() == memory.scarce());
  }
  BOOST_TEST(bodies.size() > 2U);
  BOOST_TEST(*memory.read_limit() > 0U);
  BOOST_TEST(*memory.read_limit() < Body::kLeastDrain);
  BOOST_TEST(bodies.front()->must_drain());
  const auto small = body(Body::kLeastDrain - 1000);
  BOOST_TEST(!small->must_drain());
}

BOOST_AUTO_TEST_CASE(headers_that_are_looked_at_take_bounded_memory_together) {
  BodyMemory headers(std::size_t{1} << 30, 100'000);
  const auto open = [&](std::size_t size) {
    ContentOptions options;
    options.map_address = [](std::string_view address, bool) -> Result<std::string> { return std::string(address); };
    auto b = std::make_unique<Body>(pool, queue, headers, std::move(options));
    b->content().text("X: " + std::string(size, 'x'));
    (void)b->must_drain();
    return b;
  };
  std::vector<std::unique_ptr<Body>> bodies;
  while (!headers.headers_scarce()) bodies.push_back(open(20'000));
  BOOST_TEST(bodies.size() > 2U);
  for (const auto& b : bodies) BOOST_TEST((b->problem() == Body::Problem::none));
  const auto late = open(20'000);
  BOOST_TEST((late->problem() == Body::Problem::no_space));
  late->content().text(std::string(1'000'000, 'x'));
  late->content().line_end();
  BOOST_TEST(!late->must_drain());
  BOOST_TEST((open(1000)->problem() == Body::Problem::none));  // most messages hold this little
  bodies.clear();
  BOOST_TEST(!headers.headers_scarce());
  BOOST_TEST((open(20'000)->problem() == Body::Problem::none));
}

BOOST_AUTO_TEST_CASE(what_may_stay_inline_is_not_written_however_scarce_memory_is) {
  queue.limit = 60'000;
  const auto large = body(200'000);
  BOOST_TEST(large->must_drain());
  const auto b = body(59'000);
  BOOST_TEST(!b->must_drain());
  feed(*b, 2'000);
  BOOST_TEST(b->must_drain());
}

BOOST_AUTO_TEST_CASE(written_and_destroyed_bodies_take_no_memory) {
  auto b = body(200'000);
  BOOST_TEST(b->must_drain());
  BOOST_TEST(memory.used() >= 200'000U);
  async::testing::run(loop, b->drain(soon()));
  BOOST_TEST(memory.used() < 1'000U);
  BOOST_TEST(!memory.scarce());
  BOOST_TEST(*memory.read_limit() == 0U);
  feed(*b, 50'000);
  BOOST_TEST(!b->must_drain());
  b.reset();
  BOOST_TEST(memory.used() == 0U);
}

BOOST_AUTO_TEST_CASE(the_file_is_leased_for_the_declared_size_when_there_is_something_to_write) {
  memory = BodyMemory();
  const auto b = body(0, 9'000'000);
  BOOST_TEST(queue.asked.empty());
  BOOST_TEST(memory.used() < 1'000U);
  feed(*b, Body::kDrainAt);
  async::testing::run(loop, b->drain(soon()));
  feed(*b, Body::kDrainAt);
  async::testing::run(loop, b->drain(soon()));
  BOOST_TEST(queue.asked == std::vector<std::uint64_t>{9'000'000});
}

BOOST_AUTO_TEST_CASE(more_than_was_declared_is_taken_all_the_same) {
  const auto b = body(3 * Body::kDrainAt, 1'000);
  async::testing::run(loop, b->drain(soon()));
  BOOST_TEST(queue.asked.size() == 1U);
  BOOST_TEST(queue.asked.at(0) >= 3 * Body::kDrainAt - 100);
  feed(*b, 50'000);
  async::testing::run(loop, b->finish(soon()));
  BOOST_TEST((b->problem() == Body::Problem::none));
  BOOST_TEST(b->facts().size > 3 * Body::kDrainAt);
}

BOOST_AUTO_TEST_CASE(what_is_all_here_needs_no_more_than_it_is) {
  memory = BodyMemory();
  const auto b = body(30'000, 9'000'000);
  async::testing::run(loop, b->finish(soon()));
  BOOST_TEST(queue.asked == std::vector<std::uint64_t>{b->facts().size});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::intake
