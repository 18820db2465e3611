#include "lib/suite/service/plan.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/socket.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::service {
BOOST_AUTO_TEST_SUITE(plan)

namespace {

struct Fixture {
  Machine machine{.has_program = [](const std::string& p) { return p != "missing" && p != "cleanup"; },
                  .port = [](const std::string& text) -> std::optional<unsigned short> {
                    if (text == "smtp") return 25;
                    if (text == "2525") return 2525;
                    return std::nullopt;
                  },
                  .addresses = [](const std::string& host) -> std::vector<std::string> {
                    if (host == "two.example") return {"192.0.2.1", "fd00::1"};
                    return {host};
                  }};
  Plan plan(const std::string& master_cf, const std::string& main_cf = "") {
    config::Sources sources;
    sources.directory = "/etc/x";
    sources.main_cf = "queue_directory = /q\n" + main_cf;
    sources.master_cf = master_cf;
    config::Surroundings here;
    here.hostname = "host.example";
    return make_plan(config::Config::parse(std::move(sources), here), machine);
  }
  static constexpr std::string_view kTrace = "/q/private/trace.";
  /// Where the service is served; not where it is traced.
  static std::vector<std::string> addresses(const Planned& p) {
    std::vector<std::string> out;
    for (const auto& a : p.sockets)
      if (!a.text().starts_with(kTrace)) out.push_back(a.text());
    return out;
  }
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(master_service_disable_leaves_services_out) {
  const auto left = [&](const std::string& list) {
    std::string labels;
    const Plan p = this->plan("2525 inet n - n - - smtpd\nsmtp inet n - n - - smtpd\nqmgr unix n - n 300 1 qmgr\n",
                              "master_service_disable = " + list + "\n");
    BOOST_TEST(p.skipped.empty());  // it was asked for: nothing to warn of
    for (const auto& s : p.services) labels += (labels.empty() ? "" : " ") + s.label;
    return labels;
  };
  BOOST_TEST(left("") == "2525/inet smtp/inet qmgr/unix");
  BOOST_TEST(left("2525/inet") == "smtp/inet qmgr/unix");
  BOOST_TEST(left("inet") == "qmgr/unix");
  BOOST_TEST(left("!smtp/inet, inet") == "smtp/inet qmgr/unix");
  BOOST_TEST(left("inet, !smtp/inet") == "qmgr/unix");  // the first word that fits
  BOOST_TEST(left("unix pass") == "2525/inet smtp/inet");
}

BOOST_AUTO_TEST_CASE(the_eight_columns_become_arguments) {
  const Plan p = this->plan(
      "smtp inet n n n 30? 50 smtpd -o a=b -o { c = d e } -v\n"
      "qmgr unix n - n 300 1 qmgr\n");
  BOOST_REQUIRE(p.services.size() == 2U);
  const Planned& smtp = p.services[0];
  BOOST_TEST(smtp.label == "smtp/inet");
  BOOST_TEST(smtp.program == "smtpd");
  BOOST_TEST(smtp.at_once);
  BOOST_TEST(!smtp.exclusive);
  BOOST_TEST(!smtp.arguments.unprivileged);
  BOOST_TEST(smtp.arguments.limit == 50U);
  BOOST_TEST(smtp.wakeup.count() == 30);
  BOOST_TEST(smtp.wakeup_if_used);
  BOOST_REQUIRE(smtp.arguments.overrides.size() == 2U);
  BOOST_TEST(smtp.arguments.overrides[1].name == "c");
  BOOST_TEST(smtp.arguments.overrides[1].value == "d e");
  BOOST_TEST(Arguments::parse(smtp.arguments.to_words())->debug);
  const Planned& qmgr = p.services[1];
  BOOST_TEST(qmgr.exclusive);
  BOOST_TEST(qmgr.at_once);
  BOOST_TEST(addresses(qmgr) == std::vector<std::string>{"/q/public/qmgr"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(inet_interfaces_and_protocols_decide_where_a_bare_port_listens) {
  const std::string line = "smtp inet n - n - - smtpd\n";
  const auto at = [&](const std::string& main_cf) { return addresses(this->plan(line, main_cf).services.at(0)); };
  using Strings = std::vector<std::string>;
  BOOST_TEST(at("") == (Strings{"[0.0.0.0]:25", "[::]:25"}), boost::test_tools::per_element());
  BOOST_TEST(at("inet_protocols = ipv4\n") == Strings{"[0.0.0.0]:25"}, boost::test_tools::per_element());
  BOOST_TEST(at("inet_interfaces = loopback-only\n") == (Strings{"[127.0.0.1]:25", "[::1]:25"}),
             boost::test_tools::per_element());
  BOOST_TEST(at("inet_interfaces = two.example\n") == (Strings{"[192.0.2.1]:25", "[fd00::1]:25"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_service_may_name_its_own_address) {
  const Plan p = this->plan("127.0.0.1:2525 inet n - n - - smtpd\n[::1]:2525 inet n - n - - smtpd\n");
  BOOST_TEST(addresses(p.services.at(0)) == std::vector<std::string>{"[127.0.0.1]:2525"},
             boost::test_tools::per_element());
  BOOST_TEST(addresses(p.services.at(1)) == std::vector<std::string>{"[::1]:2525"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(each_service_of_smtpd_has_a_socket_for_traces_where_its_name_is_short_enough) {
  const Plan p = this->plan("smtp inet n - n - - smtpd\nfilter unix - - n - - smtpd\nsmtp unix - - n - - smtp\n");
  BOOST_REQUIRE(p.services.size() == 3U);
  BOOST_TEST(p.services[0].sockets.back().text() == "/q/private/trace.smtp");
  BOOST_TEST(p.services[1].sockets.front().text() == "/q/private/filter");
  BOOST_TEST(p.services[1].sockets.back().text() == "/q/private/trace.filter");
  BOOST_TEST(p.services[1].at_once);
  BOOST_TEST(p.services[2].sockets.size() == 1U);
  const std::string deep = "/" + std::string(150, 'q');
  const Plan deeper = this->plan("smtp inet n - n - - smtpd\n", "queue_directory = " + deep + "\n");
  BOOST_TEST(deeper.services.at(0).sockets.back().text() == deep + "/private/trace.smtp");
  const std::string name(kLongestSocketName - 2, 'n');
  const Plan longer = this->plan(name + " unix - - n - - smtpd\n", "queue_directory = " + deep + "\n");
  BOOST_TEST(longer.services.at(0).sockets.size() == 1U);
  BOOST_TEST(socket_fault(longer.services.at(0)).empty());
}

BOOST_AUTO_TEST_CASE(a_socket_is_known_by_its_place_in_a_directory_of_any_depth) {
  const pen::testing::ScratchDir dir;
  const std::string here = dir.path().string(), deep = here + "/" + std::string(120, 'd');
  BOOST_REQUIRE(::mkdir(deep.c_str(), 0700) == 0);
  for (const std::string& directory : {here, deep}) {
    const auto fd = async::listen_on(async::SocketAddress::unix(directory + "/stream"));
    BOOST_REQUIRE(fd.has_value());
    const auto own = async::local_address(fd->get()).value();
    BOOST_TEST(is_at(own, directory + "/stream"));
    BOOST_TEST(is_at(own, "stream"));
    BOOST_TEST(!is_at(own, directory + "/streams"));
    BOOST_TEST(!is_at(own, "eam"));
  }
  BOOST_TEST(!is_at(async::SocketAddress::inet("127.0.0.1", 25), "stream"));
}

BOOST_AUTO_TEST_CASE(a_name_that_no_socket_can_have_is_a_fault) {
  const std::string name(kLongestSocketName - 1, 'n');
  const std::string two = name + " unix - - n - - smtp -o smtp_process_count=2\n";
  const std::string deep = "/" + std::string(20, 'q');
  const Plan p = this->plan(two, "queue_directory = " + deep + "\n");
  BOOST_REQUIRE(p.services.size() == 2U);
  BOOST_TEST(socket_fault(p.services[0]).empty());
  BOOST_TEST(socket_fault(p.services[1]).contains("more than 86 bytes"));
  BOOST_TEST(socket_fault(p.services[1]).ends_with(deep + "/private/" + name + "#2"));
  const Plan shallow = this->plan(two);  // its whole path fits
  BOOST_TEST(socket_fault(shallow.services.at(1)).empty());
}

BOOST_AUTO_TEST_CASE(several_processes_of_smtpd_share_sockets_and_the_limit) {
  machine.processors = 4;
  const std::string some = " inet n - n - 10 smtpd -o smtpd_process_count=3\n";
  const Plan p = this->plan("smtp" + some + "relay unix - - n - - relay\n");
  BOOST_REQUIRE(p.services.size() == 4U);
  std::size_t places = 0;
  for (unsigned i = 0; i < 3; ++i) {
    const Planned& one = p.services[i];
    BOOST_TEST(one.arguments.service == "smtp");
    BOOST_TEST((one.arguments.process == i + 1 && one.arguments.processes == 3U));
    BOOST_TEST(one.entry() == "smtp/inet");
    BOOST_TEST(addresses(one) == addresses(p.services[0]), boost::test_tools::per_element());
    places += one.arguments.limit;
    const auto parsed = Arguments::parse(one.arguments.to_words());
    BOOST_REQUIRE(parsed.has_value());
    BOOST_TEST((parsed->process == i + 1 && parsed->processes == 3U));
  }
  BOOST_TEST(places == 10U);
  BOOST_TEST(p.services[1].label == "smtp/inet#2");
  BOOST_TEST(p.services[1].sockets.back().text() == "/q/private/trace.smtp#2");
  BOOST_TEST(p.services[3].entry() == "relay/unix");

  const auto count = [&](const std::string& master, const std::string& main = "") {
    return this->plan(master, main).services.size();
  };
  BOOST_TEST(count("smtp inet n - n - - smtpd\n") == 1U);
  BOOST_TEST(count("smtp inet n - n - - smtpd\n", "smtpd_process_count = 0\n") == 4U);
  BOOST_TEST(count("smtp inet n - n - - smtpd -o smtpd_process_count=2\n", "smtpd_process_count = 0\n") == 2U);
  BOOST_TEST(count("smtp inet n - n - 0 smtpd\n", "smtpd_process_count = 0\n") == 4U);
  BOOST_TEST(this->plan("smtp inet n - n - 0 smtpd\n", "smtpd_process_count = 2\n").services[1].arguments.limit == 0U);
  // One session at a time is served by one process, and so are clients that are tested.
  BOOST_TEST(count("smtp inet n - n - 1 smtpd\n", "smtpd_process_count = 0\n") == 1U);
  BOOST_TEST(count("smtp inet n - y - 1 postscreen\nsmtpd pass - - y - 30 smtpd\n", "smtpd_process_count = 0\n") == 1U);
  BOOST_TEST(count("qmgr unix n - n 300 - qmgr\n", "smtpd_process_count = 0\n") == 1U);
}

BOOST_AUTO_TEST_CASE(several_processes_of_smtp_have_a_socket_each) {
  const Plan p = this->plan("relay unix - - n - 50 smtp -o smtp_process_count=3\nbox unix - - n - - lmtp\n",
                            "lmtp_process_count = 2\n");
  BOOST_REQUIRE(p.services.size() == 5U);
  std::vector<std::string> at;
  for (const Planned& one : p.services) at.push_back(one.label + " " + addresses(one).at(0));
  BOOST_TEST(at == (std::vector<std::string>{"relay/unix /q/private/relay", "relay/unix#2 /q/private/relay#2",
                                             "relay/unix#3 /q/private/relay#3", "box/unix /q/private/box",
                                             "box/unix#2 /q/private/box#2"}),
             boost::test_tools::per_element());
  BOOST_TEST((p.services[1].arguments.limit == 50U && !p.services[1].at_once));
  // qmgr asks below private/ alone.
  BOOST_TEST(this->plan("box unix n - n - - lmtp\n", "lmtp_process_count = 2\n").services.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_process_is_one_of_those_that_there_are) {
  const auto good = [](const std::string& text) { return Arguments::parse({"-n", "smtp", "-i", text}).has_value(); };
  BOOST_TEST((good("1/1") && good("2/2") && good("1/256")));
  for (const char* bad : {"", "1", "0/1", "3/2", "1/", "/2", "a/b", "1/2x", "-1/2"}) BOOST_TEST(!good(bad));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_started_is_told_and_the_rest_goes_on) {
  const Plan p = this->plan(
      "nowhere inet n - n - - smtpd\nold fifo n - n - - smtpd\ncleanup unix n - n - 0 cleanup\n"
      "own unix - n n - - missing\nsmtp unix - - n - - smtp\n");
  BOOST_TEST(p.skipped.size() == 4U);
  BOOST_REQUIRE(p.services.size() == 1U);
  BOOST_TEST(!p.services[0].at_once);
  BOOST_TEST(p.services[0].arguments.limit == 100U);
}

BOOST_AUTO_TEST_CASE(fifo_services_of_old_files_are_unix_services) {
  const Plan p = this->plan("qmgr fifo n - n 300 1 qmgr\npickup fifo n - n 60 1 pickup\n");
  BOOST_TEST(p.skipped.empty());
  BOOST_REQUIRE(p.services.size() == 2U);
  BOOST_TEST(p.services[0].label == "qmgr/unix");
  BOOST_TEST(p.services[0].arguments.type == "unix");
  BOOST_TEST(addresses(p.services[1]).front() == "/q/public/pickup");
}

BOOST_AUTO_TEST_CASE(a_second_queue_manager_is_never_started) {
  for (const char* master : {"qmgr unix n - n 300 1 qmgr\nwatchdog_qmgr fifo n - n 300 1 qmgr\n",
                             "watchdog_qmgr fifo n - n 300 1 oqmgr\nqmgr unix n - n 300 1 qmgr\n"}) {
    const Plan p = this->plan(master);
    BOOST_REQUIRE(p.services.size() == 1U);
    BOOST_TEST(p.services[0].label == "qmgr/unix");
    BOOST_REQUIRE(p.skipped.size() == 1U);
    BOOST_TEST(p.skipped[0].label == "watchdog_qmgr/unix");
  }
}

BOOST_AUTO_TEST_CASE(the_first_pickup_has_a_socket_for_submission_too_and_is_there_for_it) {
  const std::vector<std::string> both{"/q/public/pickup", "/q/open/submit"};
  const Plan p = this->plan("pickup unix n - n - 1 pickup\nother unix n - n - 1 pickup\n");
  BOOST_REQUIRE(p.services.size() == 2U);
  BOOST_TEST(addresses(p.services[0]) == both, boost::test_tools::per_element());
  BOOST_TEST(p.services[0].at_once);
  BOOST_TEST(addresses(p.services[1]).size() == 1U);
  const Plan without = this->plan("pickup unix n - n - 1 pickup\n", "submission_socket = no\n");
  BOOST_TEST(addresses(without.services[0]).size() == 1U);
}

BOOST_AUTO_TEST_CASE(smtpd_tests_clients_where_postscreen_stands_as_the_pass_service_says) {
  const Plan p = this->plan(
      "smtp inet n - y - 1 postscreen -o postscreen_greet_wait=2s -o respectful_logging=no -o smtpd_banner=x\n"
      "smtpd pass - - y - 30 smtpd -o soft_bounce=yes\n"
      "2525 inet n - y - 1 postscreen -o smtpd_service_name=other\n"
      "other pass - - y - - smtpd -o smtpd_banner=other\n");
  BOOST_TEST(p.skipped.size() == 2U);  // what nobody hands connections to
  BOOST_REQUIRE(p.services.size() == 2U);
  const Planned& smtp = p.services[0];
  BOOST_TEST(smtp.label == "smtp/inet");
  BOOST_TEST(smtp.program == "smtpd");
  BOOST_TEST(!smtp.exclusive);
  BOOST_TEST(smtp.arguments.limit == 30U);
  BOOST_REQUIRE(smtp.arguments.overrides.size() == 3U);
  BOOST_TEST(smtp.arguments.overrides[0].name == "soft_bounce");
  BOOST_TEST(smtp.arguments.overrides[1].name == "postscreen_greet_wait");
  BOOST_TEST(smtp.arguments.overrides[2].name == "respectful_logging");
  BOOST_TEST(Arguments::parse(smtp.arguments.to_words())->screens);
  BOOST_TEST(p.services[1].arguments.limit == 100U);
  BOOST_TEST(p.services[1].arguments.overrides.at(0).name == "smtpd_banner");
  const Plan other = this->plan("smtp inet n - n - - smtpd\n");
  BOOST_TEST(!Arguments::parse(other.services.at(0).arguments.to_words())->screens);
}

BOOST_AUTO_TEST_CASE(what_cleanup_is_told_holds_for_the_programs_that_take_mail_in) {
  const Plan p = this->plan(
      "smtp inet n - n - - smtpd\n"
      "2525 inet n - n - - smtpd -o cleanup_service_name=subcleanup -o header_checks=texthash:/a\n"
      "pickup unix n - n 60 1 pickup\n127.0.0.1:2525 inet n - n - - qmqpd\nlocal unix - n n - - local\nsmtp unix - - n "
      "- - smtp\n"
      "cleanup unix n - n - 0 cleanup -o always_bcc=all@example.org\n"
      "subcleanup unix n - n - 0 cleanup -o syslog_name=x -o header_checks=pcre:/b\n");
  const auto own = [&](std::string_view label) {
    std::string out;
    for (const Planned& s : p.services) {
      if (s.label != label) continue;
      for (const auto& o : s.arguments.overrides) out += o.name + "=" + o.value + " ";
    }
    return out;
  };
  BOOST_TEST(own("smtp/inet") == "always_bcc=all@example.org ");
  BOOST_TEST(own("2525/inet") == "cleanup_service_name=subcleanup header_checks=texthash:/a header_checks=pcre:/b ");
  BOOST_TEST(own("pickup/unix") == "always_bcc=all@example.org ");
  BOOST_TEST(own("127.0.0.1:2525/inet") == "always_bcc=all@example.org ");
  BOOST_TEST(own("local/unix") == "always_bcc=all@example.org ");
  BOOST_TEST(own("smtp/unix") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::service
