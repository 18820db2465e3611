// Content that is not committed yet, read back as it will be stored.
#include "lib/receive/intake/held_content.h"

#include <unistd.h>

#include "lib/base/async/testing/run.h"
#include "lib/receive/intake/fakes.h"
#include "lib/testing/suite.h"

namespace pen::intake {
BOOST_AUTO_TEST_SUITE(held_content)

namespace {

struct Fixture {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  fakes::MemoryQueue queue;
  BodyMemory memory;
  Body body{pool, queue, memory, {}};
  async::Until soon() const { return {.deadline = loop.now() + seconds(10)}; }

  /// Fills the body with so many lines; returns the whole content.
  std::string fill(std::size_t lines) {
    std::string all = "X: y\r\n\r\n";
    body.content().add_field("X: y");
    body.content().line_end();
    for (std::size_t i = 0; i < lines; ++i) {
      const std::string line = std::to_string(i) + std::string(90, 'x');
      body.content().text(line);
      body.content().line_end();
      all += line + "\r\n";
    }
    return all;
  }
  async::Task<void> finish() {
    while (body.must_drain()) co_await body.drain(soon());
    co_await body.finish(soon());
  }
  /// Reads to the end, or to the first error.
  async::Task<Result<std::string>> read_all(std::size_t& pieces) {
    HeldContent content(pool, body);
    std::string all;
    for (;;) {
      auto piece = co_await content.next();
      if (!piece) co_return std::unexpected(std::move(piece).error());
      if (piece->empty()) co_return all;
      ++pieces;
      all += *piece;
    }
  }
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(content_is_read_as_it_is_stored_in_memory_and_in_a_spool_file) {
  for (const std::size_t lines : {std::size_t{3}, std::size_t{5000}}) {
    Fixture f;
    const std::string all = f.fill(lines);
    async::testing::run(f.loop, f.finish());
    BOOST_TEST((f.body.lease() != nullptr) == (lines > 3));
    std::size_t pieces = 0;
    const auto read = async::testing::run(f.loop, f.read_all(pieces));
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST((*read == all));
    BOOST_TEST(pieces == (all.size() + HeldContent::kPiece - 1) / HeldContent::kPiece);
  }
}

BOOST_AUTO_TEST_CASE(a_spool_file_that_was_cut_short_is_an_error) {
  fill(5000);
  async::testing::run(loop, finish());
  BOOST_TEST_REQUIRE(body.lease() != nullptr);
  BOOST_TEST_REQUIRE(::ftruncate(body.lease()->fd(), 200'000) == 0);
  std::size_t pieces = 0;
  const auto read = async::testing::run(loop, read_all(pieces));
  BOOST_TEST_REQUIRE(!read.has_value());
  BOOST_TEST(read.error().is(HeldContentError::cut_short));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::intake
