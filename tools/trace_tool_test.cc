#include "tools/trace_tool.h"

#include <boost/test/unit_test.hpp>

#include "tools/read_options.h"

namespace pen::tools {
namespace {

using namespace ipc::trace;
using Way = TraceTool::Way;

BOOST_AUTO_TEST_SUITE(trace_tool)

BOOST_AUTO_TEST_CASE(choices_gather_words) {
  const auto in = read_options<TraceTool>(
      {"in", "--client", "192.0.2.0/24,.example", "--client", "a.example", "--queue-id", "4jYB", "--count", "2", "-j"});
  BOOST_REQUIRE(in);
  BOOST_CHECK(in->way == Way::in);
  const std::vector<std::string> clients = {"192.0.2.0/24", ".example", "a.example"};
  BOOST_TEST(in->filter.clients == clients, boost::test_tools::per_element());
  BOOST_TEST(in->filter.queue_ids.size() == 1U);
  BOOST_TEST(in->count == 2);
  BOOST_TEST(in->json);
  const auto out = read_options<TraceTool>({"--recipient", "a@b.example", "out", "--domain", "b.example"});
  BOOST_REQUIRE(out);
  BOOST_CHECK(out->way == Way::out);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  BOOST_TEST(refusal<TraceTool>({"both"}).contains("in, out"));
  BOOST_TEST(refusal<TraceTool>({"in", "out"}).contains("in, out"));
  BOOST_TEST(refusal<TraceTool>({"out", "--client", "192.0.2.1"}).contains("--host"));
  BOOST_TEST(refusal<TraceTool>({"in", "--recipient", "nobody"}).contains("nobody"));
  BOOST_TEST(refusal<TraceTool>({"in", "--client", "192.0.2.1/8"}).contains("192.0.2.1/8"));
  BOOST_TEST(refusal<TraceTool>({"in", "--count", "0"}).contains("--count"));
}

BOOST_AUTO_TEST_CASE(a_line_is_one_line) {
  const Line line{.time = WallTime(microseconds(1'800'000'000'000'123)),
                  .session = "12-3",
                  .kind = Kind::received,
                  .text = "EHLO c.example"};
  const std::string text = TraceTool::shown(line, "smtp", false);
  BOOST_TEST(text.ends_with(".000123 smtp 12-3 < EHLO c.example\n"));
  const std::string json = TraceTool::shown(line, "smtp", true);
  BOOST_TEST(json.contains("\"kind\":\"received\""));
  BOOST_TEST(json.contains("\"session\":\"12-3\""));
  BOOST_TEST(TraceTool::shown(ipc::trace::Dropped{7}, "smtp", false).contains("7 lines"));
  BOOST_TEST(TraceTool::shown(ipc::trace::Dropped{7}, "smtp", true).contains("\"lines\":7"));
}

BOOST_AUTO_TEST_CASE(services_are_asked_at_the_sockets_that_are_there) {
  config::Surroundings surroundings;
  surroundings.hostname = "mx.example.org";
  const auto config = config::Config::parse({.directory = "/",
                                             .main_cf = "queue_directory = /q\n",
                                             .master_cf = "smtp inet n - n - - smtpd\n"
                                                          "10025 inet n - n - - smtpd -o smtpd_process_count=4\n"
                                                          "smtp unix - - n - - smtp -o smtp_process_count=2\n"
                                                          "lmtp unix n - n - - lmtp\n"
                                                          "local unix - n n - - local\n",
                                             .overrides = {}},
                                            surroundings);
  const std::vector<TraceTool::Place> in = {
      {"smtp", "/q/private/trace.smtp"}, {"10025", "/q/private/trace.10025"}, {"10025", "/q/private/trace.10025#2", 2}};
  const std::set<std::string> there = {"/q/private/trace.10025", "/q/private/trace.10025#2", "/q/private/smtp#2"};
  const auto exists = [&](const std::string& path) { return there.contains(path); };
  BOOST_CHECK(TraceTool::places(config, Way::in, exists) == in);
  const std::vector<TraceTool::Place> out = {
      {"smtp", "/q/private/smtp"}, {"smtp", "/q/private/smtp#2", 2}, {"lmtp", "/q/public/lmtp"}};
  BOOST_CHECK(TraceTool::places(config, Way::out, exists) == out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
