#include "master/badge_maker.h"

#include <boost/test/unit_test.hpp>
#include <set>

namespace pen::master {
namespace {

service::Planned planned(std::string label, std::string program, std::vector<std::string> sockets) {
  service::Planned p;
  p.label = std::move(label);
  p.program = std::move(program);
  for (auto& path : sockets) p.sockets.push_back(async::SocketAddress::unix(std::move(path)));
  return p;
}

struct Host {
  BadgeMaker maker{"a secret"};
  std::vector<service::Planned> all = {
      planned("smtp/inet", "smtpd", {"/q/private/trace.smtp"}), planned("qmgr/unix", "qmgr", {"/q/public/qmgr"}),
      planned("anvil/unix", "anvil", {"/q/private/anvil"}), planned("local/unix", "local", {"/q/private/local"}),
      planned("check/unix", "verify", {"/q/private/check"})};
  ipc::Badges of(std::size_t i) const { return maker.badges_for(all[i], all, true); }
};

BOOST_FIXTURE_TEST_SUITE(badge_maker, Host)

BOOST_AUTO_TEST_CASE(a_client_and_the_services_that_it_may_talk_to_have_the_same_badge) {
  const ipc::Badges smtpd = of(0);
  BOOST_TEST(of(1).shows("smtpd", smtpd.for_socket("/q/public/qmgr")));
  BOOST_TEST(of(2).shows("smtpd", smtpd.for_socket("/q/private/anvil")));
  BOOST_TEST(of(4).shows("smtpd", smtpd.for_socket("/q/private/check")));  // under whatever name it runs
  BOOST_TEST(of(3).shows("qmgr", of(1).for_socket("/q/private/local")));
  BOOST_TEST(smtpd.program == "smtpd");
}

BOOST_AUTO_TEST_CASE(all_processes_of_a_service_know_the_same_badges) {
  service::Planned second = all[2];
  second.label += "#2";
  second.arguments.process = second.arguments.processes = 2;
  all.push_back(second);
  BOOST_TEST(of(5).shows("smtpd", of(0).for_socket("/q/private/anvil")));
}

BOOST_AUTO_TEST_CASE(there_is_none_where_the_table_has_nothing) {
  BOOST_TEST(of(0).for_socket("/q/private/local") == "");
  BOOST_TEST(of(0).known.empty());  // root alone traces
  BOOST_TEST(of(3).known.size() == 1U);
  BOOST_TEST(of(2).for_socket("/q/public/qmgr") == "");
}

BOOST_AUTO_TEST_CASE(no_badge_serves_twice) {
  std::set<std::string> seen;
  std::size_t made = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& worn : of(i).worn) {
      seen.insert(worn.badge);
      BOOST_TEST(worn.badge.size() == ipc::kBadgeSize);
      ++made;
    }
  }
  BOOST_TEST(seen.size() == made);
  BOOST_TEST(made == 8U);
}

BOOST_AUTO_TEST_CASE(the_next_master_makes_the_same_and_another_instance_others) {
  BOOST_TEST(BadgeMaker(maker.secret()).badge("qmgr/unix", "smtpd") == maker.badge("qmgr/unix", "smtpd"));
  BOOST_TEST(BadgeMaker("another").badge("qmgr/unix", "smtpd") != maker.badge("qmgr/unix", "smtpd"));
  BOOST_TEST(BadgeMaker::new_secret() != BadgeMaker::new_secret());
  BOOST_TEST(BadgeMaker::new_secret().size() == 64U);
  // No name continues another.
  BOOST_TEST(maker.badge("a", "bc") != maker.badge("ab", "c"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::master
