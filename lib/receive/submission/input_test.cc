#include "lib/receive/submission/input.h"

#include <boost/test/unit_test.hpp>

namespace pen::submission {
namespace {

/// The message in the input, when the input is cut into pieces of this many bytes.
std::string filtered(std::string_view in, bool dot_ends, std::size_t piece, InputFilter::CarriageReturn ends) {
  InputFilter filter({.dot_ends = dot_ends, .ends = ends});
  std::string out;
  while (!in.empty() && !filter.done()) {
    filter.feed(in.substr(0, piece), out);
    in.remove_prefix(std::min(piece, in.size()));
  }
  filter.finish(out);
  return out;
}
void check(std::string_view in, bool dot_ends, std::string_view wanted,
           InputFilter::CarriageReturn ends = InputFilter::CarriageReturn::always) {
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 1000U})
    BOOST_TEST(filtered(in, dot_ends, piece, ends) == wanted, "pieces of " << piece);
}

BOOST_AUTO_TEST_SUITE(submission_input)

BOOST_AUTO_TEST_CASE(a_line_of_one_dot_ends_the_message) {
  check("a\n\nb\n.\nc\n", true, "a\n\nb\n");
  check("a\r\n.\r\nc\r\n", true, "a\r\n");
  check(".\nx\n", true, "");
  check("a\n.", true, "a\n");
}

BOOST_AUTO_TEST_CASE(other_lines_with_dots_do_not) {
  check("a\n..\n.b\n. \nc.\n", true, "a\n..\n.b\n. \nc.\n");
  check(".\rx\n", true, ".\rx\n");
}

BOOST_AUTO_TEST_CASE(with_i_no_line_ends_it) { check("a\n.\nb\n", false, "a\n.\nb\n"); }

BOOST_AUTO_TEST_CASE(mailbox_separators_before_the_header_are_dropped) {
  check("From ada Sat Nov 21\n>From bob\nSubject: x\n\nFrom here\n", true, "Subject: x\n\nFrom here\n");
  check("From: ada\n", true, "From: ada\n");
  check(">Fro\n", true, ">Fro\n");
  check("From", true, "From");
}

BOOST_AUTO_TEST_CASE(a_cr_before_lf_is_part_of_the_end_always_or_as_in_the_first_line_or_never) {
  using enum InputFilter::CarriageReturn;
  check("a\r\nb\nc\r\n", true, "a\r\nb\nc\r\n", always);
  check("a\nb\r\n", true, "a\nb\r\n", always);
  check("a\r\nb\nc\r\n", true, "a\r\nb\nc\r\n", strict);
  check("a\nb\r\n\r\n", true, "a\nb\r\r\n\r\r\n", strict);
  check("From x\r\na\r\n", true, "a\r\n", strict);
  check("From x\na\r\n", true, "a\r\r\n", strict);
  check("\r\na\r\r\n", true, "\r\r\na\r\r\r\n", never);
}

BOOST_AUTO_TEST_CASE(a_dot_with_a_cr_that_is_content_ends_nothing) {
  using enum InputFilter::CarriageReturn;
  check("a\n.\r\nb\n.\nc\n", true, "a\n.\r\r\nb\n", strict);
  check("a\r\n.\r\nb\n", true, "a\r\n", strict);
  check(".\r\na\r\n.\n", true, ".\r\r\na\r\r\n", never);
}

BOOST_AUTO_TEST_CASE(nothing_is_nothing_and_a_last_line_keeps_its_missing_end) {
  check("", true, "");
  check("a", true, "a");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
