#include <fcntl.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "keeper/course.h"
#include "keeper/message.h"
#include "keeper/store.h"

namespace pen::keeper {
namespace {

BOOST_AUTO_TEST_SUITE(messages)

BOOST_AUTO_TEST_CASE(master_says_that_it_is_ready_or_stops) {
  const auto ready = parse("READY=1\nSTATUS=9 services\nMAINPID=7");
  BOOST_REQUIRE(ready);
  BOOST_TEST((ready->ready && !ready->stopping && !ready->keeps && !ready->forgets));
  const auto stopping = parse("STOPPING=1\nSTATUS=letting what is in hand finish\n");
  BOOST_REQUIRE(stopping);
  BOOST_TEST((stopping->stopping && !stopping->ready));
  const auto other = parse("RELOADING=1\nMONOTONIC_USEC=1234\nREADY=0");
  BOOST_REQUIRE(other);
  BOOST_TEST((!other->ready && !other->stopping));
}

BOOST_AUTO_TEST_CASE(a_descriptor_is_kept_and_forgotten_by_its_name) {
  const auto kept = parse("FDSTORE=1\nFDNAME=l12");
  BOOST_REQUIRE(kept);
  BOOST_TEST((kept->keeps && !kept->forgets));
  BOOST_TEST(kept->name == "l12");
  const auto gone = parse("FDSTOREREMOVE=1\nFDNAME=l12");
  BOOST_REQUIRE(gone);
  BOOST_TEST((gone->forgets && !gone->keeps));
}

BOOST_AUTO_TEST_CASE(what_is_no_message_counts_for_nothing) {
  BOOST_TEST(!parse(""));
  BOOST_TEST(!parse("\n\n"));
  BOOST_TEST(!parse("READY"));
  BOOST_TEST(!parse("READY=1\nwords"));
  BOOST_TEST(!parse("READY=1\nX=" + std::string(kMostText, 'x')));
  BOOST_TEST(!parse("FDSTORE=1"));
  // Two names to master.
  BOOST_TEST(!parse("FDSTORE=1\nFDNAME=l1:l2"));
  BOOST_TEST(!parse("FDSTORE=1\nFDNAME=" + std::string(kMostName + 1, 'x')));
  BOOST_TEST(!parse("FDSTOREREMOVE=1\nFDNAME="));
  BOOST_TEST(!parse(std::string_view("FDSTORE=1\nFDNAME=a\0b", 20)));
  BOOST_TEST(parse("FDSTORE=1\nFDNAME=" + std::string(kMostName, 'x')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(store)

/// A descriptor whose close shows: the read end sees the end of input.
struct Pipe {
  Fd read, write;
  Pipe() {
    int ends[2];
    BOOST_REQUIRE_EQUAL(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read = Fd(ends[0]);
    write = Fd(ends[1]);
  }
  bool closed() {
    char c = 0;
    return ::read(read.get(), &c, 1) == 0;
  }
};

BOOST_AUTO_TEST_CASE(what_is_forgotten_is_closed) {
  Pipe one, two, other;
  Store kept(3);
  BOOST_TEST(kept.keep("a", std::move(one.write)));
  BOOST_TEST(kept.keep("b", std::move(two.write)));
  BOOST_TEST(kept.names() == "a:b");
  kept.forget("a");
  kept.forget("nobody");
  BOOST_TEST((one.closed() && !two.closed()));
  BOOST_TEST(kept.keep("b", std::move(other.write)));  // in place of the former
  BOOST_TEST((two.closed() && !other.closed()));
  BOOST_TEST(kept.size() == 1U);
  kept.let_go();
  BOOST_TEST(other.closed());
  BOOST_TEST(kept.names().empty());
}

BOOST_AUTO_TEST_CASE(there_is_room_for_so_many) {
  Pipe one, two, three;
  Store kept(2);
  BOOST_TEST(kept.keep("a", std::move(one.write)));
  BOOST_TEST(kept.keep("b", std::move(two.write)));
  BOOST_TEST(!kept.keep("c", std::move(three.write)));
  BOOST_TEST((three.closed() && !one.closed() && !two.closed()));
  Pipe again;
  BOOST_TEST(kept.keep("a", std::move(again.write)));
  kept.forget("b");
  Pipe last;
  BOOST_TEST(kept.keep("c", std::move(last.write)));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(course)

constexpr End kCrash{.killed = true, .value = SIGSEGV, .ready = true, .served = seconds(0)};
constexpr End kLateCrash{.killed = true, .value = SIGSEGV, .ready = true, .served = seconds(1)};
constexpr End kError{.value = EX_CONFIG};

BOOST_AUTO_TEST_CASE(an_end_that_is_meant_ends_the_keeper) {
  Course course;
  (void)course.after(kLateCrash, true);
  const Next stopped = course.after({.value = EX_OK, .meant = true, .ready = true}, false);
  BOOST_TEST((!stopped.start && stopped.status == EX_OK));
  // As by SIGQUIT, of which it says nothing.
  const Next aborted = course.after({.value = EX_OK, .ready = true}, true);
  BOOST_TEST((!aborted.start && aborted.status == EX_OK));
  // It was told to stop, and somebody lost patience.
  const Next killed = course.after({.killed = true, .value = SIGKILL, .meant = true, .ready = true}, true);
  BOOST_TEST((!killed.start && killed.status == EX_SOFTWARE));
}

BOOST_AUTO_TEST_CASE(a_first_master_that_does_not_come_to_serve_has_no_next_one) {
  const Next refused = Course().after(kError, false);
  BOOST_TEST((!refused.start && refused.status == EX_CONFIG));
  const Next killed = Course().after({.killed = true, .value = SIGSEGV}, true);
  BOOST_TEST((!killed.start && killed.status == EX_SOFTWARE));
}

BOOST_AUTO_TEST_CASE(one_that_served_has_its_next_one_at_once_however_often) {
  Course course;
  End end = kLateCrash;
  for (int i = 0; i < 100; ++i) {
    end.at += kWindow / (kLetsGo - 1) + milliseconds(1);  // the first of five is out of the window just so
    const Next next = course.after(end, true);
    BOOST_TEST((next.start && !next.let_go));
    BOOST_TEST(next.pause.count() == 0);
  }
}

BOOST_AUTO_TEST_CASE(one_that_serves_and_is_killed_five_times_in_a_minute_has_nothing_kept_for_the_next_one) {
  Course course;
  End end = kLateCrash;
  for (int round = 0; round < 3; ++round)  // it counts anew then
    for (int i = 1; i <= kLetsGo; ++i) {
      end.at += kWindow / (kLetsGo - 1);
      const Next next = course.after(end, true);
      BOOST_TEST((next.start && next.pause.count() == 0));
      BOOST_TEST(next.let_go == (i == kLetsGo));
    }
}

BOOST_AUTO_TEST_CASE(one_that_lived_long_was_ready_though_nobody_heard_it) {
  const End unheard{.killed = true, .value = SIGSEGV, .lived = kSurelyReady};
  Course course;
  const Next next = course.after(unheard, true);
  BOOST_TEST((next.start && next.pause.count() == 0));
  BOOST_TEST(course.in_a_row() == 0);
  BOOST_TEST(course.after(kCrash, true).start);
  const Next sooner = Course().after({.killed = true, .value = SIGSEGV, .lived = kSurelyReady - milliseconds(1)}, true);
  BOOST_TEST(!sooner.start);
}

BOOST_AUTO_TEST_CASE(one_that_dies_again_and_again_is_paced_then_gets_nothing_then_has_no_next_one) {
  Course course;
  (void)course.after(kLateCrash, true);
  const int pauses[] = {0, 1, 2, 4, 8, 16, 32, 60, 60};
  End end = kCrash;
  for (int i = 0; i < kMost - 1; ++i) {
    end.at += kWindow;  // it takes long to be ready
    const Next next = course.after(end, true);
    BOOST_TEST(next.start);
    BOOST_TEST((next.pause == seconds(pauses[i])));
    BOOST_TEST(next.let_go == (i + 1 >= kLetsGo));
  }
  const Next last = course.after(end, true);
  BOOST_TEST((!last.start && last.status == EX_SOFTWARE));
}

BOOST_AUTO_TEST_CASE(one_that_serves_for_a_second_ends_the_row) {
  Course course;
  (void)course.after(kLateCrash, true);
  const End later{.killed = true, .value = SIGSEGV, .ready = true, .served = seconds(1), .at = SteadyTime(2 * kWindow)};
  for (int i = 0; i < kLetsGo - 2; ++i) BOOST_TEST(!course.after(kCrash, true).let_go);
  BOOST_TEST(course.in_a_row() == kLetsGo - 2);
  BOOST_TEST((course.after(later, true).pause == seconds(0)));
  BOOST_TEST(course.in_a_row() == 0);
}

BOOST_AUTO_TEST_CASE(an_error_that_may_be_mended_is_tried_again_for_as_long_as_programs_serve) {
  Course course;
  (void)course.after(kLateCrash, true);
  for (int i = 0; i < 100; ++i) {
    const Next next = course.after(kError, true);
    BOOST_TEST((next.start && !next.let_go));
    BOOST_TEST((next.pause <= kLongest));
  }
  const Next last = course.after(kError, false);
  BOOST_TEST((!last.start && last.status == EX_CONFIG));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::keeper
