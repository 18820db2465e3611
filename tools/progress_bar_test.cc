#include "tools/progress_bar.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "lib/base/fd.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using tools::ProgressBar;

namespace {

/// Replaces standard error during its lifetime.
class StandardError {
 public:
  explicit StandardError(int instead) : before_(::dup(STDERR_FILENO)) { ::dup2(instead, STDERR_FILENO); }
  ~StandardError() { ::dup2(before_.get(), STDERR_FILENO); }

 private:
  Fd before_;
};

/// Reads at least `size` bytes and all that came with them: a terminal passes text on when it likes.
std::string arrived(int fd, std::size_t size) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string all;
  for (;;) {
    char bytes[4096];
    const auto n = ::read(fd, bytes, sizeof bytes);
    if (n > 0) all.append(bytes, static_cast<std::size_t>(n));
    if (all.size() >= size) return all;
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 20'000) <= 0) return all;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(progress_bar)

BOOST_AUTO_TEST_CASE(the_line_tells_the_part_that_is_done_and_the_messages) {
  BOOST_TEST(ProgressBar::line("Deleting", 0, 40, 0) == "Deleting: [..............................]   0%  0 messages");
  BOOST_TEST(ProgressBar::line("Deleting", 10, 40, 1) == "Deleting: [#######.......................]  25%  1 message");
  BOOST_TEST(ProgressBar::line("Deleting", 40, 40, 123456) ==
             "Deleting: [##############################] 100%  123456 messages");
  // The queue grows while it is searched.
  BOOST_TEST(ProgressBar::line("Deleting", 50, 40, 2).find("] 100%") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_terminal_sees_one_line_drawn_over_itself_and_taken_away) {
  const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  BOOST_REQUIRE(::grantpt(terminal.get()) == 0 && ::unlockpt(terminal.get()) == 0);
  const Fd slave(::open(::ptsname(terminal.get()), O_RDWR | O_NOCTTY));
  BOOST_REQUIRE(slave.get() >= 0);
  const std::string first = "\r" + ProgressBar::line("Deleting", 1, 4, 5) + "\033[K";
  const std::string second = "\r" + ProgressBar::line("Deleting", 2, 4, 7) + "\033[K";
  const std::string away = "\r\033[K";
  std::string drawn, taken_away;
  {
    const StandardError instead(slave.get());
    ProgressBar bar("Deleting");
    bar.show(0, 0, 0);  // it is not known yet how much there is to do
    bar.show(1, 4, 5);
    bar.show(2, 4, 7);
    drawn = arrived(terminal.get(), first.size() + second.size());
    bar.clear();
    taken_away = arrived(terminal.get(), away.size());
  }
  BOOST_TEST(drawn == first + second);
  BOOST_TEST(taken_away == away);
}

BOOST_AUTO_TEST_CASE(a_patient_bar_is_drawn_after_two_seconds_and_not_too_often) {
  const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  BOOST_REQUIRE(::grantpt(terminal.get()) == 0 && ::unlockpt(terminal.get()) == 0);
  const Fd slave(::open(::ptsname(terminal.get()), O_RDWR | O_NOCTTY));
  BOOST_REQUIRE(slave.get() >= 0);
  testing::ManualClock clock;
  const auto form = ProgressBar::patient("entry", "entries");
  const auto drawn = [&](std::uint64_t count) {
    return "\r" + ProgressBar::line("Making t.lmdb", count, 10, count, form) + "\033[K";
  };
  BOOST_TEST(drawn(1).find("  1 entry\033") != std::string::npos);
  BOOST_TEST(drawn(2).find("  2 entries\033") != std::string::npos);
  const std::string all = drawn(3) + drawn(5) + "\r\033[K";
  {
    const StandardError instead(slave.get());
    ProgressBar bar("Making t.lmdb", form, clock);
    bar.show(1, 10, 1);
    clock.advance(milliseconds(1999));
    bar.show(2, 10, 2);
    clock.advance(milliseconds(1));
    bar.show(3, 10, 3);
    clock.advance(milliseconds(249));
    bar.show(4, 10, 4);
    clock.advance(milliseconds(1));
    bar.show(5, 10, 5);
  }
  BOOST_TEST(arrived(terminal.get(), all.size()) == all);
}

BOOST_AUTO_TEST_CASE(what_is_no_terminal_gets_nothing) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const Fd reader(ends[0]), writer(ends[1]);
  {
    const StandardError instead(writer.get());
    ProgressBar bar("Deleting");
    bar.show(1, 4, 5);
  }
  BOOST_TEST(arrived(reader.get(), 0) == "");
}

BOOST_AUTO_TEST_SUITE_END()
