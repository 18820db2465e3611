#include "lib/net/dns.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/base/idn/domain.h"
#include "lib/net/dns_cache.h"
#include "lib/net/dns_packet.h"
#include "lib/net/dns_sockets.h"
#include "lib/testing/dns_server.h"

using namespace pen;
using namespace pen::net;
using async::testing::run;
using pen::testing::DnsServer;

namespace {

std::string shown(const DnsAnswer& a) {
  static constexpr const char* kNames[] = {"found", "no data", "no domain", "temporary"};
  std::string out = kNames[static_cast<int>(a.outcome)];
  for (const auto& r : a.records) {
    out += " " + (r.type == RecordType::mx ? std::to_string(r.preference) + "/" : std::string()) +
           (r.data.empty() ? "." : r.data);
  }
  return out;
}

struct Client {
  DnsServer server;
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  ResolverOptions options;
  std::unique_ptr<Resolver> made;
  Client() {
    options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
    options.timeout = milliseconds(2000);
    options.tries = 1;
  }
  Resolver& dns() {
    if (!made) made = std::make_unique<Resolver>(loop, pool, options);
    return *made;
  }
  DnsAnswer answer(const std::string& name, RecordType type = RecordType::a) {
    return run(loop, dns().lookup(name, type));
  }
  std::string ask(const std::string& name, RecordType type = RecordType::a) { return shown(answer(name, type)); }
  /// Makes the server answer every question about the name with this reply.
  void reply(const std::string& name, DnsServer::Reply r) {
    server.on(name, [r](const DnsServer::Query& q) { return std::vector{DnsServer::wire(q, r)}; });
  }
  DnsServer::Reply one_a(const std::string& name, const std::string& address) {
    DnsServer::Reply r;
    r.answers.push_back({name, 1, 300, DnsServer::a_data(address)});
    return r;
  }
};

async::Task<void> count_found(Resolver& dns, std::string name, int* found) {
  const auto a = co_await dns.lookup(std::move(name), RecordType::a);
  if (a.outcome == DnsOutcome::found) ++*found;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(dns, Client)

BOOST_AUTO_TEST_CASE(records_of_each_type_are_read) {
  server.a("h.example", "192.0.2.1");
  server.a("h.example", "192.0.2.2");
  server.aaaa("h.example", "2001:db8::1");
  server.mx("d.example", 20, "B.example");
  server.mx("d.example", 10, "a.example");
  server.add({"t.example", 16, 300, std::string("\x03") + "abc" + "\x02" + "de"});
  server.add({"_25._tcp.h.example", 52, 300, std::string("\x03\x01\x01\xab\xcd", 5)});
  server.add({"1.2.0.192.in-addr.arpa", 12, 300, DnsServer::wire_name("h.example")});
  BOOST_TEST(ask("H.Example.") == "found 192.0.2.1 192.0.2.2");
  BOOST_TEST(ask("h.example", RecordType::aaaa) == "found 2001:db8::1");
  BOOST_TEST(ask("d.example", RecordType::mx) == "found 20/b.example 10/a.example");
  BOOST_TEST(ask("t.example", RecordType::txt) == "found abcde");
  BOOST_TEST(ask("_25._tcp.h.example", RecordType::tlsa) == "found 3 1 1 abcd");
  BOOST_TEST(shown(run(loop, dns().lookup_reverse("192.0.2.1"))) == "found h.example");
}
BOOST_AUTO_TEST_CASE(no_data_no_domain_and_server_failure_are_kept_apart) {
  server.a("h.example", "192.0.2.1");
  server.rcode("fail.example", 2);
  server.rcode("refuse.example", 5);
  BOOST_TEST(ask("h.example", RecordType::mx) == "no data");
  BOOST_TEST(ask("none.example") == "no domain");
  BOOST_TEST(ask("fail.example") == "temporary");
  BOOST_TEST(ask("refuse.example") == "temporary");
  server.mx("null.example", 0, "");
  BOOST_TEST(ask("null.example", RecordType::mx) == "found 0/.");
}
BOOST_AUTO_TEST_CASE(names_that_dns_cannot_hold_do_not_exist) {
  for (const std::string& bad : {std::string(), std::string("a..b"), std::string(64, 'x') + ".example",
                                 std::string("a b.example"), std::string("\\000.example"), std::string(".")}) {
    BOOST_TEST(ask(bad) == "no domain", bad);
  }
  BOOST_TEST(server.asked() == 0U);
}
BOOST_AUTO_TEST_CASE(names_beyond_ascii_are_asked_for_by_their_a_labels) {
  for (const bool old : {false, true}) {  // enable_idna2003_compatibility
    idn::convert_by_idna2003(old);
    BOOST_TEST(normal_name("stra\xc3\x9f"
                           "e.example")
                   .value() == (old ? "strasse.example" : "xn--strae-oqa.example"));
  }
  idn::convert_by_idna2003(false);
  server.a("xn--bcher-kva.example", "192.0.2.1");
  BOOST_TEST(ask("B\xc3\x9c"
                 "cher.example") == "found 192.0.2.1");
  BOOST_TEST(ask("b\xc3.example") == "no domain");
  BOOST_TEST(ask("b\xc3\xbc"
                 "cher..example") == "no domain");
}
BOOST_AUTO_TEST_CASE(aliases_are_followed_within_and_across_answers) {
  server.cname("www.example", "h.example");
  server.a("h.example", "192.0.2.1");
  BOOST_TEST(ask("www.example") == "found 192.0.2.1");
  BOOST_TEST(answer("www.example").name == "h.example");
  DnsServer::Reply alone;
  alone.answers.push_back({"lone.example", 5, 300, DnsServer::wire_name("h.example")});
  reply("lone.example", alone);
  BOOST_TEST(ask("lone.example") == "found 192.0.2.1");
  server.cname("dangling.example", "nowhere.example");
  BOOST_TEST(ask("dangling.example") == "no domain");
}
BOOST_AUTO_TEST_CASE(alias_loops_end) {
  server.cname("a.example", "b.example");
  server.cname("b.example", "a.example");
  BOOST_TEST(ask("a.example") == "temporary");
  // Each answer is one more alias, without end.
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example";
    DnsServer::Reply r;
    r.answers.push_back({name, 5, 300, DnsServer::wire_name("n" + std::to_string(i + 1) + ".example")});
    reply(name, r);
  }
  BOOST_TEST(ask("n0.example") == "temporary");
  BOOST_TEST(server.asked("n9.example") == 0U);
}
BOOST_AUTO_TEST_CASE(truncated_answers_are_asked_again_over_tcp) {
  server.on("big.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.truncated = !q.tcp;
    if (q.tcp) {
      for (int i = 0; i < 500; ++i) {
        r.answers.push_back({"big.example", 1, 300,
                             DnsServer::a_data("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250))});
      }
    }
    return std::vector{DnsServer::wire(q, r)};
  });
  BOOST_TEST(answer("big.example").records.size() == 500U);
  BOOST_TEST(dns().counts().over_tcp == 1U);
}
BOOST_AUTO_TEST_CASE(an_answer_that_stays_truncated_is_temporary) {
  DnsServer::Reply r;
  r.truncated = true;
  reply("cut.example", r);
  BOOST_TEST(ask("cut.example") == "temporary");
}
BOOST_AUTO_TEST_CASE(oversized_sets_are_bounded) {
  server.on("huge.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.truncated = !q.tcp;
    for (int i = 0; q.tcp && i < 2000; ++i)
      r.answers.push_back({"huge.example", 1, 300, DnsServer::a_data("10.0.0.1")});
    return std::vector{DnsServer::wire(q, r)};
  });
  BOOST_TEST(answer("huge.example").records.size() <= kMaxRecords);
}
BOOST_AUTO_TEST_CASE(wrong_ids_questions_and_garbage_are_passed_over_until_the_true_answer) {
  server.on("h.example", [this](const DnsServer::Query& q) {
    DnsServer::Query other_id = q;
    other_id.id = static_cast<std::uint16_t>(q.id + 1);
    DnsServer::Query other_name = q;
    other_name.question = DnsServer::wire_name("x.example") + std::string("\0\1\0\1", 4);
    DnsServer::Query other_type = q;
    other_type.question = DnsServer::wire_name("h.example") + std::string("\0\x10\0\1", 4);
    const auto evil = one_a("h.example", "203.0.113.66");
    std::string not_a_reply = DnsServer::wire(q, evil);
    not_a_reply[2] = static_cast<char>(not_a_reply[2] & 0x7f);
    return std::vector<std::string>{"",
                                    "x",
                                    std::string(1000, '\xff'),
                                    DnsServer::wire(other_id, evil),
                                    DnsServer::wire(other_name, evil),
                                    DnsServer::wire(other_type, evil),
                                    not_a_reply,
                                    DnsServer::wire(q, evil).substr(0, 40),
                                    DnsServer::wire(q, one_a("h.example", "192.0.2.1"))};
  });
  BOOST_TEST(ask("h.example") == "found 192.0.2.1");
  BOOST_TEST(dns().counts().refused_answers == 8U);
}
BOOST_AUTO_TEST_CASE(records_of_other_names_in_the_answer_are_not_believed) {
  auto r = one_a("other.example", "203.0.113.66");
  reply("h.example", r);
  BOOST_TEST(ask("h.example") == "no data");
  r.answers.push_back({"h.example", 1, 300, DnsServer::a_data("192.0.2.1")});
  reply("g.example", r);
  BOOST_TEST(ask("g.example") == "no data");
}
BOOST_AUTO_TEST_CASE(compression_loops_in_names_are_harmless) {
  server.on("loop.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.answers.push_back({"loop.example", 5, 300, std::string("\xc0\x0c", 2)});  // itself
    std::string self = DnsServer::wire(q, r);
    return std::vector{self};
  });
  BOOST_TEST(ask("loop.example") == "temporary");
  options.timeout = milliseconds(100);
  made.reset();
  server.on("tight.example", [](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.answers.push_back({"tight.example", 5, 300, std::string(2, '\0')});
    std::string w = DnsServer::wire(q, r);
    w.resize(w.size() - 2);
    const auto here = w.size();
    w += static_cast<char>(0xc0 | here >> 8);
    w += static_cast<char>(here & 255);  // a pointer to itself
    return std::vector{w};
  });
  BOOST_TEST(ask("tight.example") == "temporary");
}
BOOST_AUTO_TEST_CASE(names_no_host_has_are_dropped_from_answers) {
  DnsServer::Reply r;
  r.answers.push_back({"d.example", 15, 300,
                       std::string("\0\x0a\x03"
                                   "a b\0",
                                   7)});
  reply("d.example", r);
  BOOST_TEST(ask("d.example", RecordType::mx) == "temporary");
  r.answers.push_back({"d.example", 15, 300, DnsServer::mx_data(10, "good.example")});
  reply("e.example", r);
  r.answers[0].name = r.answers[1].name = "e.example";
  reply("e.example", r);
  BOOST_TEST(ask("e.example", RecordType::mx) == "found 10/good.example");
}
BOOST_AUTO_TEST_CASE(the_next_server_is_asked_when_one_fails_or_is_silent) {
  DnsServer bad;
  bad.rcode("h.example", 2);
  DnsServer silent;
  silent.on("h.example", [](const DnsServer::Query&) { return std::vector<std::string>{}; });
  server.a("h.example", "192.0.2.1");
  options.timeout = milliseconds(200);
  options.servers.insert(options.servers.begin(), {async::SocketAddress::inet("127.0.0.1", bad.port()),
                                                   async::SocketAddress::inet("127.0.0.1", silent.port())});
  BOOST_TEST(ask("h.example") == "found 192.0.2.1");
  BOOST_TEST(dns().counts().timed_out == 1U);
}
BOOST_AUTO_TEST_CASE(a_server_that_dislikes_edns_is_asked_without) {
  server.on("h.example", [this](const DnsServer::Query& q) {
    DnsServer::Reply r;
    r.rcode = 1;
    return std::vector{DnsServer::wire(q, q.edns ? r : one_a("h.example", "192.0.2.1"))};
  });
  BOOST_TEST(ask("h.example") == "found 192.0.2.1");
}
BOOST_AUTO_TEST_CASE(nobody_listening_is_temporary) {
  options.servers = {async::SocketAddress::inet("127.0.0.1", 1)};
  BOOST_TEST(ask("h.example") == "temporary");
}
BOOST_AUTO_TEST_CASE(identical_questions_under_way_are_asked_once_and_answers_cached) {
  server.a("h.example", "192.0.2.1");
  int found = 0;
  for (int i = 0; i < 50; ++i) loop.spawn("ask", count_found(dns(), "h.example", &found));
  while (found < 50) loop.run_once(milliseconds(50));
  BOOST_TEST(server.asked() == 1U);
  BOOST_TEST(dns().counts().joined == 49U);
  BOOST_TEST(ask("h.example") == "found 192.0.2.1");
  BOOST_TEST(server.asked() == 1U);
  BOOST_TEST(ask("none.example") == "no domain");
  BOOST_TEST(ask("none.example") == "no domain");
  BOOST_TEST(server.asked("none.example") == 1U);
}
BOOST_AUTO_TEST_CASE(many_different_questions_run_at_once_within_the_bound) {
  options.max_under_way = 10;
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "h" + std::to_string(i) + ".example";
    server.a(name, "192.0.2.1");
    loop.spawn("ask", count_found(dns(), name, &found));
  }
  while (found < 100) {
    loop.run_once(milliseconds(50));
    BOOST_REQUIRE(dns().counts().under_way <= 10U);
  }
}
BOOST_AUTO_TEST_CASE(a_question_in_wire_form_is_as_it_has_to_be) {
  const auto hex = [](const DnsQuestion& q, bool edns, bool dnssec) {
    const auto made = build_query(q, 0x1234, edns, dnssec);
    std::string out;
    for (const char c : made.value_or("")) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return out;
  };
  const DnsQuestion mx{"mx.example", RecordType::mx};
  const std::string name = "026d78076578616d706c6500000f0001";
  BOOST_TEST(hex(mx, false, false) == "123401000001000000000000" + name);
  BOOST_TEST(hex(mx, true, false) == "123401000001000000000001" + name + "00002904d0000000000000");
  BOOST_TEST(hex(mx, true, true) == "123401200001000000000001" + name + "00002904d0000080000000");
  for (const std::string& bad :
       {std::string(), std::string("a..b"), std::string("a."), std::string(64, 'x'),
        std::string(62, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c') + "." + std::string(63, 'd')})
    BOOST_TEST(hex({bad, RecordType::a}, true, true).empty(), bad);
}

BOOST_AUTO_TEST_CASE(questions_of_one_turn_have_ids_of_their_own_and_the_answers_find_them) {
  Client c;
  for (int i = 0; i < 100; ++i) c.server.a("n" + std::to_string(i) + ".example", "192.0.2." + std::to_string(i + 1));
  std::vector<std::string> said(100);
  const auto look = [](Resolver* dns, int i, std::string* out) -> async::Task<void> {
    *out = shown(co_await dns->lookup("n" + std::to_string(i) + ".example", RecordType::a));
  };
  for (int i = 0; i < 100; ++i) c.loop.spawn("look", look(&c.dns(), i, &said[static_cast<std::size_t>(i)]));
  c.loop.run();
  for (int i = 0; i < 100; ++i)
    BOOST_TEST(said[static_cast<std::size_t>(i)] == "found 192.0.2." + std::to_string(i + 1));
}

BOOST_AUTO_TEST_CASE(a_flood_of_datagrams_that_fit_nothing_ends_the_try_and_the_next_has_another_socket) {
  Client c;
  c.server.on("flood.example", [](const DnsServer::Query& q) {
    DnsServer::Query wrong = q;
    wrong.id ^= 1;
    return std::vector<std::string>(DnsSockets::kMaxMisfits + 10, DnsServer::wire(wrong, {}));
  });
  c.server.a("good.example", "192.0.2.1");
  c.options.timeout = milliseconds(60000);
  const SteadyTime began = c.loop.now();
  BOOST_TEST(c.ask("flood.example") == "temporary");
  BOOST_TEST((c.loop.now() - began < seconds(30)));
  BOOST_TEST(c.ask("good.example") == "found 192.0.2.1");
  BOOST_TEST(c.dns().counts().refused_answers >= DnsSockets::kMaxMisfits);
}

BOOST_AUTO_TEST_CASE(temporary_failures_are_not_cached) {
  server.rcode("h.example", 2);
  BOOST_TEST(ask("h.example") == "temporary");
  server.on("h.example", [this](const DnsServer::Query& q) {
    return std::vector{DnsServer::wire(q, one_a("h.example", "192.0.2.1"))};
  });
  BOOST_TEST(ask("h.example") == "found 192.0.2.1");
}
BOOST_AUTO_TEST_CASE(the_ad_bit_is_passed_on) {
  auto r = one_a("s.example", "192.0.2.1");
  r.authenticated = true;
  reply("s.example", r);
  options.dnssec = true;
  BOOST_TEST(answer("s.example").authenticated);
  server.a("p.example", "192.0.2.1");
  BOOST_TEST(!answer("p.example").authenticated);
}
BOOST_AUTO_TEST_CASE(ttls_are_the_smallest_on_the_way_and_bounded) {
  server.cname("www.example", "h.example", 50);
  server.a("h.example", "192.0.2.1", 4000000);
  BOOST_TEST(answer("www.example").ttl.count() == 50);
  BOOST_TEST(answer("h.example").ttl.count() == 3600);
  BOOST_TEST(answer("none.example").ttl.count() == 60);
}
BOOST_AUTO_TEST_CASE(the_native_look_up_knows_localhost) {
  const auto a = run(loop, dns().lookup_host("localhost", RecordType::a, HostLookup::dns_then_native));
  BOOST_TEST(shown(a) == "found 127.0.0.1");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(dns_parts)

BOOST_AUTO_TEST_CASE(the_cache_is_bounded_and_forgets_by_time_and_use) {
  DnsCache cache(2, 100000);
  DnsAnswer a;
  a.ttl = seconds(10);
  const SteadyTime t0{seconds(100)};
  cache.put("a", a, t0);
  cache.put("b", a, t0);
  BOOST_TEST(cache.get("a", t0 + seconds(4))->ttl.count() == 6);
  cache.put("c", a, t0);
  BOOST_TEST(!cache.get("b", t0).has_value());
  BOOST_TEST(cache.get("a", t0).has_value());
  BOOST_TEST(!cache.get("a", t0 + seconds(10)).has_value());
  a.ttl = seconds(0);
  cache.put("d", a, t0);
  BOOST_TEST(!cache.get("d", t0).has_value());
  DnsCache small(100, 2000);
  a.ttl = seconds(10);
  for (int i = 0; i < 50; ++i) small.put("k" + std::to_string(i), a, t0);
  BOOST_TEST(small.bytes() <= 2000U);
  BOOST_TEST(small.entries() < 10U);
}
BOOST_AUTO_TEST_CASE(server_lists_and_resolv_conf_are_read) {
  const auto s = parse_servers("192.0.2.53, [2001:db8::1]:5353 2001:db8::2 127.0.0.1:5300");
  BOOST_REQUIRE(s.has_value());
  BOOST_TEST((*s)[0].text() == "[192.0.2.53]:53");
  BOOST_TEST((*s)[1].port == 5353);
  BOOST_TEST((*s)[2].host == "2001:db8::2");
  BOOST_TEST((*s)[3].port == 5300);
  for (const char* bad : {"ns.example", "192.0.2.1:0", "192.0.2.1:99999", "[::1", "x:53"}) {
    BOOST_TEST(!parse_servers(bad).has_value(), bad);
  }
  ResolverOptions options;
  apply_resolv_conf(
      "# c\nsearch x\nnameserver 192.0.2.1\nnameserver bad\nnameserver ::1\noptions timeout:1 "
      "attempts:3 rotate\n",
      options);
  BOOST_TEST(options.servers.size() == 2U);
  BOOST_TEST(options.timeout.count() == 1000);
  BOOST_TEST(options.tries == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
