#include "trivial-rewrite/conversation.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/testing/dns_server.h"
#include "lib/testing/scratch.h"
#include "trivial-rewrite/transports.h"

using namespace pen;
using namespace pen::rewrite;
using async::Task;
using pen::testing::DnsServer;

namespace {

const char* const kMasterCf =
    "smtp inet n - n - - smtpd\n127.0.0.1:2525 inet n - n - - smtpd\n"
    "smtp unix - - n - - smtp\nrelay unix - - n - - smtp -o smtp_fallback_relay= -o "
    "smtp_tcp_port=26\n"
    "lmtp unix - - n - - lmtp\nlocal unix - n n - - local\nerror unix - - n - - error\nretry unix "
    "- - n - - error\n";

config::Config configured(const std::string& main_cf) {
  config::Surroundings here;
  here.hostname = "mx.example.org";
  return config::Config::parse(
      {.directory = "/nonexistent", .main_cf = main_cf, .master_cf = kMasterCf, .overrides = {}}, here);
}

struct Asked {
  std::vector<std::string> answers;
  bool done = false;
};
Task<void> ask_all(async::Loop* loop, std::string path, std::vector<std::string> recipients, Asked* out) {
  auto channel = co_await ipc::connect_channel<ipc::route::FromRewrite, ipc::route::ToRewrite>(
      *loop, path, ipc::route::kName, {.deadline = loop->now() + seconds(10)});
  BOOST_REQUIRE(channel.has_value());
  for (std::size_t i = 0; i < recipients.size(); ++i) {
    ipc::route::Route request;
    request.request = i;
    request.recipient = recipients[i];
    BOOST_REQUIRE(channel->send(request).has_value());
  }
  out->answers.resize(recipients.size());
  for (std::size_t i = 0; i < recipients.size(); ++i) {
    auto received = co_await channel->receive({.deadline = loop->now() + seconds(20)});
    BOOST_REQUIRE_MESSAGE(received.has_value(), (received ? "" : received.error().message()));
    const auto& routed = std::get<ipc::route::Routed>(received->message);
    BOOST_REQUIRE(routed.request < recipients.size());
    std::string& slot = out->answers[routed.request];
    BOOST_REQUIRE(slot.empty());
    if (const auto* yes = std::get_if<ipc::route::Resolved>(&routed.answer)) {
      slot = yes->levels.at(0).destinations.at(0).shown();
    } else {
      slot = std::get<ipc::route::Unroutable>(routed.answer).status.dsn;
    }
  }
  out->done = true;
}
Task<void> serve_one(async::Loop* loop, async::Listener* listener, Router* router, ConversationCounts* counts,
                     async::Cancel* stop, Result<void>* ended) {
  auto accepted = co_await listener->accept();
  BOOST_REQUIRE(accepted.has_value());
  auto opening = co_await ipc::greet(std::move(accepted->stream), {});
  BOOST_REQUIRE(opening.has_value());
  *ended = co_await serve_routes(*loop, *router, *std::move(opening), *counts, *stop);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conversation)

BOOST_AUTO_TEST_CASE(many_requests_at_once_are_each_answered_once_and_slow_names_hold_up_nobody) {
  DnsServer server;
  async::Loop loop;
  async::HandlerPool pool(loop, 2);
  net::ResolverOptions dns_options;
  dns_options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
  dns_options.timeout = seconds(2);
  dns_options.tries = 3;  // so many questions at once overflow the server's socket on a busy machine
  net::Resolver dns(loop, pool, dns_options);
  resolve::Options settings;
  settings.myorigin = settings.myhostname = settings.mydestination = "example.org";
  auto resolving = resolve::Resolve::open(settings);
  BOOST_REQUIRE(resolving.has_value());
  auto transports = read_transports(configured("defer_transports = lmtp\n"), {});
  BOOST_REQUIRE(transports.has_value());
  map::Asker tables(loop);
  BOOST_TEST(transports->at("lmtp").deferred);
  BOOST_TEST(!transports->at("smtp").deferred);
  Router router(
      loop, tables, dns, *resolving,
      [&](const std::string& name) {
        const auto t = transports->find(name);
        return t == transports->end() ? nullptr : &t->second;
      },
      7);
  std::vector<std::string> recipients, expected;
  for (int i = 0; i < 500; ++i) {
    const std::string domain = "d" + std::to_string(i) + ".example";
    recipients.push_back("u@" + domain);
    if (i % 5 == 0) {
      server.on(domain, [](const DnsServer::Query&) { return std::vector<std::string>{}; });
      expected.emplace_back("4.4.3");
    } else if (i % 5 == 1) {
      expected.emplace_back("5.4.4");
    } else {
      server.a(domain, "198.51.100.1");
      expected.push_back(domain + "[198.51.100.1]:25");
    }
  }
  pen::testing::ScratchDir dir;
  const std::string path = dir.file("rewrite");
  async::Listener listener(loop, *async::listen_on(async::SocketAddress::unix(path)), 10);
  ConversationCounts counts;
  async::Cancel stop;
  Asked asked;
  Result<void> ended = fail(async::WaitError::timed_out);
  loop.spawn("serve", serve_one(&loop, &listener, &router, &counts, &stop, &ended));
  loop.spawn("ask", ask_all(&loop, path, recipients, &asked));
  for (int i = 0; i < 20000 && (!asked.done || !ended); ++i) loop.run_once(milliseconds(20));
  BOOST_REQUIRE(asked.done);
  BOOST_TEST(asked.answers == expected, boost::test_tools::per_element());
  BOOST_TEST(ended.has_value());
  BOOST_TEST(counts.requests == 500U);
  BOOST_TEST(counts.resolved == 300U);
  BOOST_TEST(counts.under_way == 0U);
}

BOOST_AUTO_TEST_CASE(transports_take_their_own_overrides_of_master_cf) {
  const auto t = read_transports(configured("smtp_fallback_relay = [back.example]\nsmtp_host_lookup = native, "
                                            "dns\ninet_protocols = ipv4\n"),
                                 {"192.0.2.1"});
  BOOST_REQUIRE_MESSAGE(t.has_value(), (t ? "" : t.error().message()));
  BOOST_TEST(t->at("smtp").hosts.fallback_relay == "[back.example]");
  BOOST_TEST(t->at("relay").hosts.fallback_relay.empty());
  BOOST_TEST(t->at("relay").hosts.default_port == 26);
  BOOST_TEST(t->at("lmtp").hosts.default_port == 24);
  BOOST_TEST(t->at("lmtp").hosts.lmtp);
  BOOST_TEST(!t->at("smtp").hosts.ipv6);
  BOOST_TEST((t->at("smtp").hosts.lookup == net::HostLookup::native_then_dns));
  BOOST_TEST((t->at("smtp").hosts.own_ports == std::set<unsigned short>{25, 2525}));
  BOOST_TEST((t->at("local").program == Transport::Program::other));
  BOOST_TEST(!read_transports(configured("smtp_tcp_port = nonsense-port\n"), {}).has_value());
}
BOOST_AUTO_TEST_CASE(name_servers_come_from_the_setting_or_resolv_conf) {
  const auto set = resolve::name_servers(configured("dns_resolver_addresses = 127.0.0.1:5300\n").settings(),
                                         "nameserver 192.0.2.1\n");
  BOOST_REQUIRE(set.has_value());
  BOOST_TEST(set->servers.at(0).text() == "[127.0.0.1]:5300");
  BOOST_TEST(resolve::name_servers(configured("").settings(), "nameserver 192.0.2.1\n")->servers.at(0).host ==
             "192.0.2.1");
  BOOST_TEST(!resolve::name_servers(configured("dns_resolver_addresses = ns.example\n").settings(), "").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
