#include "lib/suite/service/board.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "lib/base/metrics/page.h"

using namespace pen;
using namespace pen::service;

BOOST_AUTO_TEST_SUITE(board)

BOOST_AUTO_TEST_CASE(a_reader_sees_the_last_text) {
  const Fd board = create_board().value();
  const Fd reader = metrics::reader_of(board.get()).value();
  BOOST_CHECK_EQUAL(read_board(reader.get()).value(), "");
  BOOST_REQUIRE(write_board(board.get(), "a longer text"));
  BOOST_CHECK_EQUAL(read_board(reader.get()).value(), "a longer text");
  BOOST_REQUIRE(write_board(board.get(), "short"));
  BOOST_CHECK_EQUAL(read_board(reader.get()).value(), "short");
}

BOOST_AUTO_TEST_CASE(a_reader_cannot_write) {
  const Fd board = create_board().value();
  const Fd reader = metrics::reader_of(board.get()).value();
  BOOST_CHECK(write_board(reader.get(), "x").error().is_errno(EBADF));
}

BOOST_AUTO_TEST_CASE(a_text_that_does_not_fit_leaves_the_one_before) {
  const Fd board = create_board().value();
  BOOST_REQUIRE(write_board(board.get(), "before"));
  BOOST_CHECK(write_board(board.get(), std::string(kBoardBytes, 'x')).error().is_errno(EMSGSIZE));
  BOOST_CHECK_EQUAL(read_board(board.get()).value(), "before");
}

BOOST_AUTO_TEST_CASE(a_writer_that_died_half_way_is_said_and_its_successor_mends_it) {
  const Fd board = create_board().value();
  BOOST_REQUIRE(write_board(board.get(), "before"));
  const std::uint64_t odd = 3;
  BOOST_REQUIRE_EQUAL(::pwrite(board.get(), &odd, sizeof odd, 0), 8);
  BOOST_CHECK(read_board(board.get()).error().is_errno(EAGAIN));
  BOOST_REQUIRE(write_board(board.get(), "after"));
  BOOST_CHECK_EQUAL(read_board(board.get()).value(), "after");
}

BOOST_AUTO_TEST_SUITE_END()
