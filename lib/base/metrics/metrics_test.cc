#include "lib/base/metrics/metrics.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "lib/base/metrics/page.h"

using namespace pen;
using namespace pen::metrics;

namespace {

std::uint64_t sum_of(const Sums& sums, Id id) { return sums[family(id).first]; }

/// A page as master makes it, with the descriptor that penapi gets.
struct Shared {
  Fd page = create_page("smtp/inet").value();
  Fd read_only = reader_of(page.get()).value();
  Sums read() const {
    Sums sums(kSlots);
    BOOST_REQUIRE(Reader::open(read_only).value().add_to(sums));
    return sums;
  }
  /// Runs a program that counts there; killed when it has.
  template <class Work>
  void program(Work work) const {
    int pair[2];
    BOOST_REQUIRE_EQUAL(::pipe(pair), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const Fd own(::dup(page.get()));
      if (!adopt_page(own)) ::_exit(1);
      work();
      if (::write(pair[1], "x", 1) != 1) ::_exit(2);
      for (;;) ::pause();
    }
    char done = 0;
    ::close(pair[1]);
    BOOST_CHECK_EQUAL(::read(pair[0], &done, 1), 1);
    ::close(pair[0]);
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    BOOST_CHECK(WIFSIGNALED(status));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics_suite)

BOOST_AUTO_TEST_CASE(each_series_has_its_own_slots) {
  std::size_t next = 0;
  std::set<std::string_view> names;
  for (const Family& f : kFamilies) {
    BOOST_CHECK_EQUAL(f.first, next);
    next += f.series * f.slots_each();
    BOOST_CHECK_MESSAGE(names.insert(f.name).second, f.name);
    BOOST_CHECK_MESSAGE(f.help.ends_with('.'), f.name);
    for (std::size_t i = 1; i < f.bounds.size(); ++i) BOOST_CHECK_MESSAGE(f.bounds[i - 1] < f.bounds[i], f.name);
  }
  BOOST_CHECK_EQUAL(next, kSlots);
  BOOST_CHECK_EQUAL(metrics::detail::index_of(Stage::helo, Code::c450, Reason::rbl), (1 * 22 + 1) * 14 + 4);
}

BOOST_AUTO_TEST_CASE(each_label_has_a_word_for_each_value) {
  BOOST_CHECK_EQUAL(Label<Code>::values[static_cast<std::size_t>(Code::c5xx)], "5xx");
  BOOST_CHECK_EQUAL(Label<Stage>::values[static_cast<std::size_t>(Stage::other)], "other");
  BOOST_CHECK_EQUAL(Label<Reason>::values[static_cast<std::size_t>(Reason::other)], "other");
  BOOST_CHECK_EQUAL(Label<Agent>::values[static_cast<std::size_t>(Agent::other)], "other");
  BOOST_CHECK_EQUAL(Label<Reason>::values.size(), static_cast<std::size_t>(Reason::other) + 1);
  BOOST_CHECK_EQUAL(Label<Code>::values.size(), static_cast<std::size_t>(Code::c5xx) + 1);
}

BOOST_AUTO_TEST_CASE(words_of_the_log_become_labels) {
  BOOST_CHECK(code_of("450 4.7.1 later") == Code::c450);
  BOOST_CHECK(code_of("499 4.7.1 later") == Code::c4xx);
  BOOST_CHECK(code_of("599 5.7.1 no") == Code::c5xx);
  BOOST_CHECK(code_of("") == Code::c5xx);
  const auto dsn = [](std::string_view reply) {
    return Label<Enhanced>::values[static_cast<std::size_t>(enhanced_of(reply))];
  };
  BOOST_TEST(dsn("550 5.7.1 no") == "5.7.1");
  BOOST_TEST(dsn("450-4.1.10 later\r\n450 4.1.10 more") == "4.1.10");
  BOOST_TEST(dsn("550 5.7.999 no") == "other");
  BOOST_TEST(dsn("550 5.7.1extra") == "none");
  BOOST_TEST(dsn("550 no") == "none");
  BOOST_TEST(dsn("550 2.0.0 no") == "none");
  BOOST_TEST(dsn("5") == "none");
  BOOST_CHECK(stage_of("DATA (12 bytes)") == Stage::data);
  BOOST_CHECK(stage_of("EHLO") == Stage::helo);
  BOOST_CHECK(stage_of("VRFY") == Stage::other);
  BOOST_CHECK(version_of("TLSv1.3") == TlsVersion::tls13);
  BOOST_CHECK(version_of("DTLS") == TlsVersion::other);
  BOOST_CHECK(agent_of("virtual") == Agent::virtual_);
}

BOOST_AUTO_TEST_CASE(without_a_page_a_process_counts_for_itself) {
  const auto before = value(smtpd_tls_failures);
  smtpd_tls_failures.add();
  smtpd_tls_failures.add(2);
  BOOST_CHECK_EQUAL(value(smtpd_tls_failures), before + 3);
}

BOOST_AUTO_TEST_CASE(a_histogram_counts_in_the_bucket_that_holds_the_value) {
  const Shared shared;
  shared.program([] {
    queue_sync.observe(std::chrono::microseconds(100));  // the first bound itself
    queue_sync.observe(std::chrono::microseconds(101));  // the second
    queue_sync.observe(std::chrono::seconds(3600));      // above all
    queue_sync.observe(std::chrono::milliseconds(-5));   // a clock was set
  });
  const auto sums = shared.read();
  const Family& f = family(Id::queue_sync);
  BOOST_CHECK_EQUAL(sums[f.first], 2);
  BOOST_CHECK_EQUAL(sums[f.first + 1], 1);
  BOOST_CHECK_EQUAL(sums[f.first + f.bounds.size()], 1);
  BOOST_CHECK_EQUAL(sums[f.first + f.bounds.size() + 1], 3'600'000'201U);
}

BOOST_AUTO_TEST_CASE(a_histogram_of_sizes_counts_them_as_they_are) {
  const Shared shared;
  shared.program([] {
    queue_activated_recipients.observe(1);
    queue_activated_recipients.observe(3);
    queue_activated_recipients.observe(50'000);
  });
  const auto sums = shared.read();
  const Family& f = family(Id::queue_activated_recipients);
  BOOST_CHECK_EQUAL(sums[f.first], 1);
  BOOST_CHECK_EQUAL(sums[f.first + 2], 1);
  BOOST_CHECK_EQUAL(sums[f.first + f.bounds.size()], 1);
  BOOST_CHECK_EQUAL(sums[f.first + f.bounds.size() + 1], 50'004U);
}

BOOST_AUTO_TEST_CASE(counts_outlive_a_program_that_is_killed_and_its_successor_goes_on) {
  const Shared shared;
  shared.program([] { smtpd_connections.add(5); });
  BOOST_CHECK_EQUAL(sum_of(shared.read(), Id::smtpd_connections), 5);
  shared.program([] { smtpd_connections.add(); });
  BOOST_CHECK_EQUAL(sum_of(shared.read(), Id::smtpd_connections), 6);
}

BOOST_AUTO_TEST_CASE(what_was_counted_before_the_page_came_is_not_lost) {
  const Shared shared;
  shared.program([] {});
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto before = value(smtpd_messages);
    smtpd_messages.add(4);
    if (!adopt_page(shared.page)) ::_exit(1);
    smtpd_messages.add();
    ::_exit(before == 0 ? 0 : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  BOOST_CHECK_EQUAL(status, 0);
  BOOST_CHECK_EQUAL(sum_of(shared.read(), Id::smtpd_messages), 5);
}

BOOST_AUTO_TEST_CASE(pages_add_up_and_one_without_counts_adds_nothing) {
  const Shared one, two, unused;
  one.program([] { smtpd_rejects.add(Stage::rcpt, Code::c554, Reason::relay); });
  two.program([] { smtpd_rejects.add(Stage::rcpt, Code::c554, Reason::relay, 2); });
  Sums sums(kSlots);
  BOOST_CHECK(Reader::open(unused.read_only).value().add_to(sums));
  BOOST_CHECK(sums == Sums(kSlots));
  for (const Shared* s : {&one, &two}) BOOST_CHECK(Reader::open(s->read_only).value().add_to(sums));
  BOOST_CHECK_EQUAL(
      sums[family(Id::smtpd_rejects).first + metrics::detail::index_of(Stage::rcpt, Code::c554, Reason::relay)], 3);
}

BOOST_AUTO_TEST_CASE(a_reader_cannot_write_and_nobody_can_cut_a_page) {
  const Shared shared;
  BOOST_CHECK(::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.read_only.get(), 0) == MAP_FAILED);
  BOOST_CHECK_NE(::ftruncate(shared.page.get(), 0), 0);
}

BOOST_AUTO_TEST_CASE(a_page_of_another_version_is_passed_over) {
  const Shared shared;
  const std::uint64_t other = 12345;
  BOOST_REQUIRE_EQUAL(::pwrite(shared.page.get(), &other, sizeof other, 0), static_cast<ssize_t>(sizeof other));
  BOOST_CHECK(adopt_page(shared.page).error().is(PageError::foreign_layout));
  Sums sums(kSlots);
  BOOST_CHECK(Reader::open(shared.read_only).value().add_to(sums).error().is(PageError::foreign_layout));
  smtpd_tls_failures.add();  // still counts for itself
}

BOOST_AUTO_TEST_CASE(what_is_no_page_is_refused) {
  const Fd file(::memfd_create("small", MFD_CLOEXEC));
  BOOST_CHECK(adopt_page(file).error().is(PageError::not_a_page));
  BOOST_CHECK(Reader::open(file).error().is(PageError::not_a_page));
}

BOOST_AUTO_TEST_SUITE_END()
