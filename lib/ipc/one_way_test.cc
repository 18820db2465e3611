#include "lib/ipc/tls_reports.h"

#include <boost/test/unit_test.hpp>

using namespace pen;

BOOST_AUTO_TEST_SUITE(one_way)

BOOST_AUTO_TEST_CASE(what_nobody_reads_is_bounded_and_counted) {
  async::Loop loop;
  ipc::TlsReports reports(loop, "/nonexistent/tlsrpt");
  ipc::tls_report::Attempt attempt;
  attempt.domain = "example.org";
  for (std::size_t i = 0; i < ipc::TlsReports::kMost; ++i) reports.tell(attempt);
  BOOST_TEST(reports.lost() == 0u);
  for (int i = 0; i < 500; ++i) reports.tell(attempt);
  BOOST_TEST(reports.lost() == 500u);
  BOOST_TEST(reports.told() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
