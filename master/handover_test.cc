#include "master/handover.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>

namespace pen::master {
namespace {

Handover sample() {
  Handover h;
  h.version = "1.2.3";
  h.directory = "/etc/penstock";
  h.master = 77;
  h.started = 1'700'000'000;
  h.log_round = 3;
  h.log_opened = 2;
  h.upgrades = 4;
  h.upgrade_from = "1.2.2";
  h.upgrade_lines = {"one", "two"};
  h.names = 99;
  h.board = "board";
  h.lease = "host/1";
  h.badge_secret = "0123abcd";
  h.sockets = {{"[::]:25", "l1"}, {"/spool/private/anvil", "l2"}};
  h.pages = {{"smtp/inet", "p3"}};
  h.numbers = {{"l1", 7}, {"s4", 9}};
  h.services = {{.label = "smtp/inet",
                 .program = "smtpd",
                 .restarts = 1,
                 .used = true,
                 .exclusive = false,
                 .last_end = "pid 5 exit status 1",
                 .programs = {{.pid = 12,
                               .fd = "s4",
                               .file = "f3",
                               .ready = true,
                               .draining = false,
                               .badged = true,
                               .confined = "files calls",
                               .version = "1.2.3",
                               .log_round = 3,
                               .log_sent = {3}}}}};
  return h;
}

std::string with(std::string json, const std::string& what, const std::string& other) {
  const auto at = json.find(what);
  BOOST_REQUIRE(at != std::string::npos);
  return json.replace(at, what.size(), other);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(handover)

BOOST_AUTO_TEST_CASE(what_one_master_writes_the_next_one_reads) {
  const auto read = Handover::parse(sample().to_json());
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->to_json() == sample().to_json());
  BOOST_TEST(read->services[0].programs[0].pid == 12);
  BOOST_TEST(read->services[0].programs[0].file == "f3");
  BOOST_TEST(read->numbers.at("s4") == 9);
}

// Of a release; a member that is taken away or changes its meaning needs another kFormat.
BOOST_AUTO_TEST_CASE(the_state_of_the_last_release_is_read) {
  const auto read = Handover::parse(
      R"({"handover":1,"version":"0.1.0","directory":"/etc/penstock","master":7,"started":1,"log_round":0,"log_opened":0,)"
      R"("upgrades":0,"upgrade_from":"","upgrade_lines":[],"names":5,"board":"board","lease":"","sockets":{"[::]:25":"l1"},)"
      R"("pages":{"smtp/inet":"p2"},"numbers":{"l1":6},"services":[{"label":"smtp/inet","program":"smtpd","restarts":0,)"
      R"("used":false,"exclusive":false,"last_end":"","programs":[{"pid":9,"fd":"s3","ready":true,"draining":false,)"
      R"("confined":"","version":"0.1.0","log_round":0,"log_sent":[]}]}],"later":true})");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->sockets.at("[::]:25") == "l1");
  BOOST_TEST(read->services[0].programs[0].fd == "s3");
  BOOST_TEST(!read->services[0].programs[0].badged);
  BOOST_TEST(read->services[0].programs[0].file == "");
  BOOST_TEST(read->badge_secret == "");
}

BOOST_AUTO_TEST_CASE(another_format_and_nonsense_are_refused) {
  const std::string json = sample().to_json();
  BOOST_TEST(Handover::parse(with(json, "\"handover\":1", "\"handover\":2")).error().is(HandoverError::other_format));
  for (const std::string& bad : {std::string(), std::string("[]"), std::string("{}"), json.substr(0, json.size() / 2),
                                 with(json, "\"pid\":12", "\"pid\":\"x\""), with(json, "\"names\":99", "\"n\":99")})
    BOOST_TEST(Handover::parse(bad).error().is(HandoverError::malformed), bad);
}

BOOST_AUTO_TEST_CASE(a_state_that_was_cut_leaves_the_one_before) {
  auto memory = StateMemory::create().value();
  BOOST_TEST(memory.read().error().is(HandoverError::malformed));
  const auto at = [&](int place) { return static_cast<off_t>(1024 * 1024) * place; };
  for (int i = 0; i < 5; ++i) {
    const std::string before = "state " + std::to_string(i), now = before + " and more";
    BOOST_TEST(memory.write(before).has_value());
    BOOST_TEST(memory.write(now).has_value());
    BOOST_TEST(memory.read().value() == now);
    // Writes go to the places in turn: the second of each round is the odd one.
    char byte = 0;
    BOOST_REQUIRE_EQUAL(::pread(memory.fd(), &byte, 1, at(1) + 24), 1);
    const char other = 'x';
    BOOST_REQUIRE_EQUAL(::pwrite(memory.fd(), &other, 1, at(1) + 24), 1);
    BOOST_TEST(memory.read().value() == before);
    BOOST_REQUIRE_EQUAL(::pwrite(memory.fd(), &byte, 1, at(1) + 24), 1);
  }
  const auto refused = memory.write(std::string(2 * 1024 * 1024, 'x'));
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().is_errno(EMSGSIZE));
  BOOST_TEST(memory.read().value() == "state 4 and more");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::master
