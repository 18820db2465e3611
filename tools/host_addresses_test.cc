#include "tools/host_addresses.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::tools;

BOOST_AUTO_TEST_SUITE(host_addresses)

namespace {

const HostAddresses kHost{.interfaces = {{"127.0.0.1", 8, false}, {"192.0.2.1", 24, false}, {"2001:db8::1", 64, true}},
                          .any_ipv4 = false,
                          .any_ipv6 = false};

/// "file:line: name: text" of all.
std::string found(const std::string& main, const std::string& master, const HostAddresses& host = kHost) {
  const auto config = config::Config::parse({"/etc/x", "myhostname = mx.example\n" + main, master, {}},
                                            {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  const auto plan =
      service::make_plan(config, {.has_program = [](const std::string&) { return true; },
                                  .port = [](const std::string&) { return std::optional<unsigned short>(25); },
                                  .addresses =
                                      [](const std::string& name) {
                                        return std::vector<std::string>{name == "far.example" ? "198.51.100.9" : name};
                                      }});
  std::string out;
  for (const auto& p : foreign_addresses(config, plan, host)) {
    const auto file = p.file.substr(p.file.rfind('/') + 1);
    out += file + ":" + std::to_string(p.line) + ": " + p.name + ": " + p.text + "\n";
    if (p.severity == config::Severity::error) out += "error\n";
  }
  return out;
}

const std::string kMaster = "smtp inet n - n - - smtpd\nsubmission inet n - n - - smtpd\nsmtp unix - - n - - smtp\n";

}  // namespace

BOOST_AUTO_TEST_CASE(an_address_to_listen_at_that_the_host_does_not_have_is_an_error_of_its_line) {
  const std::string text = "this host does not have the address 198.51.100.9: nothing starts that would listen there\n";
  BOOST_TEST(found("inet_interfaces = 198.51.100.9, 192.0.2.1\n", kMaster) ==
             "main.cf:2: inet_interfaces: " + text + "error\n");
  BOOST_TEST(found("inet_interfaces = far.example\n", kMaster) == "main.cf:2: inet_interfaces: " + text + "error\n");
  BOOST_TEST(found("", kMaster + "198.51.100.9:10025 inet n - n - - smtpd\n") ==
             "master.cf:4: 198.51.100.9:10025/inet: " + text + "error\n");
  BOOST_TEST(found("inet_interfaces = [2001:db8::2]\n", kMaster).contains("2001:db8::2"));
}

BOOST_AUTO_TEST_CASE(an_address_to_send_from_that_the_host_does_not_have_is_told) {
  BOOST_TEST(found("smtp_bind_address = 198.51.100.9\n", kMaster) ==
             "main.cf:2: smtp_bind_address: this host does not have the address 198.51.100.9: connections leave from "
             "any address of this host\n");
  BOOST_TEST(found("smtp_bind_address6 = [2001:db8::2]\nsmtp_bind_address_enforce = yes\n", kMaster) ==
             "main.cf:2: smtp_bind_address6: this host does not have the address 2001:db8::2: mail waits\n");
  BOOST_TEST(found("", kMaster + "out unix - - n - - smtp -o lmtp_bind_address=198.51.100.9\n")
                 .starts_with("master.cf:4: lmtp_bind_address: "));
}

BOOST_AUTO_TEST_CASE(what_can_be_bound_to_is_no_mistake) {
  const std::string main = "inet_interfaces = 192.0.2.1, 127.0.0.9, [2001:DB8:0::1]\nsmtp_bind_address = 192.0.2.1\n";
  BOOST_TEST(found(main, kMaster).empty());
  BOOST_TEST(found("inet_interfaces = all\n", kMaster).empty());
  BOOST_TEST(found("inet_interfaces = loopback-only\n", kMaster).empty());
  BOOST_TEST(found("smtp_bind_address = 0.0.0.0\n", kMaster).empty());
  HostAddresses shares = kHost;
  shares.any_ipv4 = true;
  BOOST_TEST(found("inet_interfaces = 198.51.100.9\nsmtp_bind_address = 198.51.100.9\n", kMaster, shares).empty());
  BOOST_TEST(found("smtp_bind_address = 198.51.100.9\n", kMaster, {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
