#include "smtp/deliveries.h"

#include <boost/test/unit_test.hpp>

#include "lib/map/status_filter.h"
#include "smtp/deliveries_fixture.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;
using mail::Action;

namespace {

std::string large(char c) {
  std::string text;
  while (text.size() < 3'000'000) {
    text += ".line of " + std::string(60, c) + "\r\n";
    if (text.size() % 7 == 0) text += "..\r\n\r\n";
  }
  return text;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(smtp_deliveries, DeliveriesFixture)

BOOST_AUTO_TEST_CASE(messages_inline_and_from_a_file_arrive_byte_for_byte) {
  for (const bool chunking : {false, true}) {
    for (const bool pipelining : {false, true}) {
      BOOST_TEST_CONTEXT(chunking << pipelining) {
        PeerOptions o;
        o.chunking = chunking;
        o.pipelining = pipelining;
        results.clear();
        closed.clear();
        start();
        Host host(loop, o);
        open(1, host.port);
        const std::vector<std::string> bodies{"a\r\n", large('x'), ".\r\n..\r\n", large('y'), "end\r\n"};
        std::vector<std::uint64_t> ids;
        for (const auto& body : bodies) ids.push_back(job(1, body, body.size() > 1000));
        until([&] { return results.size() == bodies.size(); });
        for (std::size_t i = 0; i < bodies.size(); ++i) {
          BOOST_TEST((status(ids[i]).action == Action::delivered));
          BOOST_TEST(status(ids[i]).text == "250 2.0.0 Ok: queued");
          BOOST_REQUIRE(host.peers.at(0)->ledger().size() == bodies.size());
          BOOST_TEST((host.peers[0]->ledger()[i].content == bodies[i]), "content of message " << i);
          BOOST_TEST(stages[ids[i] % 64] == static_cast<std::uint8_t>(ipc::delivery::Stage::committed));
        }
        BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{1}));
        until([&] { return closed.size() == 1 && host.ended == 1 && deliveries->connections() == 0; });
        BOOST_TEST(host.peers[0]->quit());
        BOOST_TEST((closed[0].trouble == Trouble::none));
        BOOST_TEST(closed[0].unstarted.empty());
        deliveries.reset();
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_refused_connection_hands_its_jobs_back) {
  start();
  unsigned short port = 0;
  {
    Fd unused = Host::listen();
    port = async::local_address(unused.get())->port;
  }
  open(1, port);
  const auto id = job(1, "x\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST(!closed[0].opened);
  BOOST_TEST((closed[0].trouble == Trouble::refused));
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{id}, boost::test_tools::per_element());
  BOOST_TEST(closed[0].status.text ==
             "connect to mx.example[127.0.0.1]:" + std::to_string(port) + ": Connection refused");
  BOOST_TEST(closed[0].status.dsn == "4.4.1");
  BOOST_TEST(results.empty());
}

BOOST_AUTO_TEST_CASE(smtp_bind_address_enforce_decides_whether_mail_waits_for_its_source_address) {
  settings.bind_address = "192.0.2.1";  // no address of this host
  start();
  Host host(loop, {});
  open(1, host.port);
  const auto id = job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(id).action == Action::delivered));
  deliveries.reset();
  settings.bind_enforce = true;
  start();
  open(2, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::local));
  BOOST_TEST(closed[0].status.dsn == "4.4.1");
}

BOOST_AUTO_TEST_CASE(smtp_reply_filter_changes_lines_before_they_are_read) {
  const auto table = [&](std::string_view spec) {
    auto maps = map::MapList::open(spec);
    BOOST_REQUIRE(maps.has_value());
    settings.reply_filter = std::make_shared<const map::MapList>(*std::move(maps));
  };
  PeerOptions o;
  o.fault = [](std::string_view command) {
    return command.starts_with("rcpt ") ? std::string("250 2.1.5 Ok but no") : "";
  };
  table("inline:{ { 250 2.1.5 Ok but no = 550 5.1.1 filtered away } }");
  start();
  Host host(loop, o);
  open(1, host.port);
  auto id = job(1, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(id).action == Action::failed));
  BOOST_TEST(status(id).text.contains("said: 550 5.1.1 filtered away"));
  // Of a table that is broken nobody knows what it would have said.
  deliveries.reset();
  table("fail:broken");
  start();
  open(2, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].status.action == Action::deferred));
  BOOST_TEST(!closed[0].opened);
}

BOOST_AUTO_TEST_CASE(smtp_discard_ehlo_keyword_address_maps_is_of_the_servers_address) {
  for (const bool listed : {false, true}) {
    results.clear();
    settings.discard_keywords = {"8BITMIME"};
    auto maps =
        map::MapList::open(listed ? "inline:{ { 127.0.0.1 = chunking, Pipelining } }" : "inline:{ 192.0.2.1=size }");
    BOOST_REQUIRE(maps.has_value());
    settings.discard_by_address = std::make_shared<const map::MapList>(*std::move(maps));
    start();
    Host host(loop, {});
    open(1, host.port);
    job(1, "x\r\n");
    until([&] { return results.size() == 1; });
    const auto& said = host.peers.at(0)->commands();
    BOOST_TEST(std::ranges::any_of(said, [](const auto& c) { return c.starts_with("BDAT"); }) == !listed);
    deliveries.reset();
  }
}

BOOST_AUTO_TEST_CASE(smtp_connection_reuse_count_limit_ends_a_connection_and_hands_the_rest_back) {
  settings.reuse_limit = 1;  // two messages
  start();
  Host host(loop, {});
  open(1, host.port);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(job(1, "x\r\n"));
  until([&] { return closed.size() == 1 && host.ended == 1; });
  BOOST_TEST(results.size() == 2u);
  BOOST_TEST((closed[0].trouble == Trouble::none));
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>(ids.begin() + 2, ids.end()),
             boost::test_tools::per_element());
  BOOST_TEST(host.peers.at(0)->ledger().size() == 2u);
  BOOST_TEST(host.peers[0]->quit());
}

BOOST_AUTO_TEST_CASE(smtp_skip_5xx_greeting_decides_whether_mail_is_returned) {
  PeerOptions o;
  o.fault = [](std::string_view command) { return command == "greeting" ? std::string("554 5.7.1 not you") : ""; };
  start();
  Host host(loop, o);
  open(1, host.port);
  const auto kept = job(1, "x\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::greeting_5xx));
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{kept}, boost::test_tools::per_element());
  deliveries.reset();
  settings.skip_5xx_greeting = false;
  start();
  open(2, host.port);
  const auto returned = job(2, "x\r\n");
  until([&] { return results.size() == 1; });
  BOOST_TEST((status(returned).action == Action::failed));
  BOOST_TEST(status(returned).dsn == "5.7.1");
  BOOST_TEST(status(returned).text == "host mx.example[127.0.0.1] refused to talk to me: 554 5.7.1 not you");
}

BOOST_AUTO_TEST_CASE(a_silent_peer_is_given_up_after_the_time_out) {
  settings.helo_timeout = milliseconds(300);
  start();
  Host host(loop, {});
  host.silent = true;
  open(1, host.port);
  const auto id = job(1, "x\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::timed_out));
  BOOST_TEST(closed[0].status.text ==
             "conversation with mx.example[127.0.0.1] timed out while receiving the initial server "
             "greeting");
  BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{id}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(each_stage_has_its_own_time_out) {
  struct Stage {
    const char* fault;
    milliseconds Settings::* timeout;
    const char* doing;
  };
  const Stage stages_of_a_session[] = {
      {"ehlo", &Settings::helo_timeout, "performing the EHLO handshake"},
      {"mail", &Settings::mail_timeout, "sending MAIL FROM"},
      {"rcpt", &Settings::rcpt_timeout, "sending RCPT TO"},
      {"data", &Settings::data_init_timeout, "sending DATA command"},
      {"dot", &Settings::data_done_timeout, "sending end of data -- message may be sent more than once"},
  };
  for (const auto& stage : stages_of_a_session) {
    BOOST_TEST_CONTEXT(stage.fault) {
      results.clear();
      closed.clear();
      settings = Settings();
      settings.*stage.timeout = milliseconds(200);
      start();
      PeerOptions o;
      o.chunking = o.pipelining = false;
      o.fault = [&](std::string_view c) -> std::string { return c.starts_with(stage.fault) ? "swallow" : ""; };
      Host host(loop, o);
      open(1, host.port);
      const auto id = job(1, "x\r\n");
      until([&] { return closed.size() == 1; });
      BOOST_TEST((closed[0].trouble == Trouble::timed_out));
      const std::string text = "conversation with mx.example[127.0.0.1] timed out while " + std::string(stage.doing);
      if (closed[0].opened) {
        BOOST_TEST(status(id).text == text);
        BOOST_TEST((status(id).action == Action::deferred));
        BOOST_TEST(status(id).dsn == "4.4.2");
      } else {
        BOOST_TEST(closed[0].status.text == text);
        BOOST_TEST(closed[0].unstarted.size() == 1u);
      }
      deliveries.reset();
    }
  }
}

BOOST_AUTO_TEST_CASE(lines_over_the_limit_are_broken_whatever_the_peer_offers) {
  const std::string header = "To: " + std::string(600, 'a') + "@x.example,";
  const std::string next = " " + std::string(600, 'b') + "@x.example\r\n";
  const std::string x(998, 'x'), y(500, 'y');
  const std::string sent = header + next + "\r\n" + x + y + "\r\n";
  const std::string broken = header + "\r\n" + next + "\r\n" + x + "\r\n " + y + "\r\n";
  for (const bool chunking : {false, true}) {
    for (const bool by_file : {false, true}) {
      for (const std::size_t limit : {998U, 0U}) {
        BOOST_TEST_CONTEXT(chunking << by_file << limit) {
          results.clear();
          closed.clear();
          settings.line_length_limit = limit;
          facts.longest_line = 1498;
          start();
          PeerOptions o;
          o.chunking = chunking;
          Host host(loop, o);
          open(1, host.port);
          const auto id = job(1, sent, by_file);
          until([&] { return results.size() == 1; });
          BOOST_TEST((status(id).action == Action::delivered));
          BOOST_REQUIRE(host.peers.at(0)->ledger().size() == 1u);
          BOOST_TEST((host.peers[0]->ledger()[0].content == (limit == 0 ? sent : broken)));
          deliveries.reset();
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_finished_delivery_is_told_of_while_the_peer_hangs_at_the_next_group) {
  for (const std::string_view stage : {"mail", "rcpt", "data"}) {
    BOOST_TEST_CONTEXT(stage) {
      results.clear();
      closed.clear();
      settings.mail_timeout = settings.rcpt_timeout = settings.data_init_timeout = seconds(60);
      start();
      PeerOptions o;
      o.chunking = false;
      bool hangs = false;
      int taken = 0;
      o.fault = [&](std::string_view command) -> std::string {
        if (command == "dot") ++taken;
        hangs = hangs || (taken > 0 && command.starts_with(stage));
        return hangs ? "swallow" : "";
      };
      Host host(loop, o);
      open(1, host.port);
      const auto first = job(1, "x\r\n");
      job(1, "y\r\n");
      until([&] { return !results.empty(); });
      BOOST_TEST(closed.empty());
      BOOST_TEST(results.size() == 1u);
      BOOST_TEST(status(first).dsn.front() == '2');
      deliveries.reset();
    }
  }
}

namespace {
async::Task<void> send_for_ever(async::Loop* loop, async::Listener* listener, async::Gate* gate, std::string what) {
  const async::Until until{.deadline = kNever, .cancel = &gate->cancel()};
  auto accepted = co_await listener->accept(until);
  if (!accepted) co_return;
  accepted->stream.write("220 tarpit ESMTP\r\n");
  for (;;) {
    accepted->stream.write(what);
    if (!co_await accepted->stream.flush(until)) co_return;
    if (!co_await loop->sleep(milliseconds(20), until)) co_return;
  }
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_reply_whose_lines_never_end_is_given_up_after_the_time_out) {
  for (const std::string& what :
       {std::string("250-still thinking\r\n"), "250-" + std::string(4096, '2'), std::string(4096, '2')}) {
    settings.helo_timeout = milliseconds(300);
    start();
    async::Listener listener(loop, Host::listen(), 10);
    async::Gate gate(loop);
    gate.spawn("tarpit", send_for_ever(&loop, &listener, &gate, what));
    open(1, async::local_address(listener.fd())->port);
    const auto id = job(1, "x\r\n");
    until([&] { return closed.size() == 1; });
    const bool replies = what.starts_with("250");  // else it is no reply, and there is nothing to wait for
    BOOST_TEST((closed[0].trouble == Trouble::timed_out) == replies);
    BOOST_TEST(closed[0].unstarted == std::vector<std::uint64_t>{id});
    deliveries.reset();
    closed.clear();
  }
}

BOOST_AUTO_TEST_CASE(with_a_deadline_content_that_is_taken_too_slowly_is_given_up) {
  settings.request_deadline = true;
  settings.min_data_rate = 1'000'000'000;
  settings.data_xfer_timeout = seconds(1);
  start();
  Host host(loop, PeerOptions());
  host.pause = milliseconds(50);
  open(1, host.port);
  const auto id = job(1, std::string(32 << 20, 'x'), true);
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::timed_out));
  BOOST_TEST(status(id).text == "conversation with mx.example[127.0.0.1] timed out while sending message body");
  BOOST_TEST(results[id].cut_short);
}

BOOST_AUTO_TEST_CASE(a_connection_that_says_quit_is_gone_when_it_is_closed_on_the_wire) {
  start();
  Host host(loop, PeerOptions());
  open(1, host.port);
  const auto id = job(1, "x\r\n");
  until([&] { return results.contains(id); });
  BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{1}));
  until([&] { return closed.size() == 1; });
  BOOST_TEST(closed[0].lingers);
  BOOST_TEST(gone.empty());
  until([&] { return !gone.empty(); });
  BOOST_TEST(gone == std::vector<std::uint64_t>{1});
  BOOST_TEST(host.ended == 1);
  // Cut by the peer, it is closed at once and reported so.
  open(2, host.port);
  until([&] { return opened.size() == 2; });
  host.cut_after = 0;
  job(2, "y\r\n");
  until([&] { return closed.size() == 2; });
  BOOST_TEST(!closed[1].lingers);
}

BOOST_AUTO_TEST_CASE(what_another_host_may_take_is_handed_back_and_not_told_of_as_deferred) {
  for (const bool others : {false, true}) {
    for (const std::string_view fault : {"451 4.3.0 not now", "421 4.3.2 going away", "drop", "550 5.7.1 no"}) {
      BOOST_TEST_CONTEXT(fault << (others ? " with other hosts" : "")) {
        results.clear();
        closed.clear();
        start();
        PeerOptions o;
        o.fault = [&](std::string_view command) -> std::string {
          return command.starts_with("rcpt") ? std::string(fault) : "";
        };
        Host host(loop, o);
        open(1, host.port);
        const auto id = job(1, "x\r\n", false, false, others);
        until([&] { return results.contains(id); });
        const bool refused = fault.starts_with('5');
        BOOST_TEST(results[id].results[0].try_next_host == (others && !refused));
        BOOST_TEST((status(id).action == (refused ? Action::failed : Action::deferred)));
        BOOST_TEST(results[id].cut_short == (fault == "drop" || fault.starts_with("421")));
        deliveries.reset();
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(unreadable_content_is_deferred_and_never_sent_short) {
  for (const bool chunking : {false, true}) {
    results.clear();
    closed.clear();
    start();
    PeerOptions o;
    o.chunking = chunking;
    Host host(loop, o);
    open(1, host.port);
    const auto id = job(1, std::string(200'000, 'x') + "\r\n", true, true);
    until([&] { return closed.size() == 1; });
    BOOST_TEST((status(id).action == Action::deferred));
    BOOST_TEST(status(id).dsn == "4.3.0");
    BOOST_TEST((closed[0].trouble == Trouble::local));
    BOOST_TEST(host.peers[0]->ledger().empty());
    BOOST_TEST(stages[id % 64] != static_cast<std::uint8_t>(ipc::delivery::Stage::committed));
    deliveries.reset();
  }
}

BOOST_AUTO_TEST_CASE(when_qmgr_goes_a_message_under_way_is_never_completed) {
  start();
  PeerOptions o;
  o.chunking = false;
  o.fault = [](std::string_view c) -> std::string { return c == "data" ? "swallow" : ""; };  // holds the client at DATA
  Host host(loop, o);
  open(1, host.port);
  job(1, "x\r\n");
  until([&] {
    return !host.peers.empty() && !host.peers[0]->commands().empty() && host.peers[0]->commands().back() == "DATA";
  });
  deliveries.reset();
  until([&] { return host.ended == 1; });
  BOOST_TEST(host.peers[0]->ledger().empty());
}

BOOST_AUTO_TEST_CASE(a_job_that_crosses_the_end_of_its_connection_had_no_effect) {
  start();
  PeerOptions o;
  o.fault = [](std::string_view c) -> std::string { return c == "greeting" ? "554 5.7.1 go away" : ""; };
  Host host(loop, o);
  open(1, host.port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::greeting_5xx));
  const auto id = job(1, "x\r\n");
  until([&] { return closed.size() == 2; });
  BOOST_TEST(closed[1].unstarted == std::vector<std::uint64_t>{id}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(hundreds_of_connections_work_side_by_side) {
  start();
  PeerOptions o;
  o.chunking = false;
  Host host(loop, o);
  for (std::uint64_t c = 1; c <= 300; ++c) {
    open(c, host.port);
    for (int i = 0; i < 3; ++i) job(c, "message\r\n");
  }
  until([&] { return results.size() == 900; });
  for (const auto& [id, r] : results) BOOST_TEST((r.results[0].status.action == Action::delivered));
  for (std::uint64_t c = 1; c <= 300; ++c) BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{c}));
  until([&] { return closed.size() == 300 && deliveries->connections() == 0; });
}

BOOST_AUTO_TEST_CASE(a_peer_that_spoils_its_replies_is_spoken_to_in_turn_next_time) {
  start();
  PeerOptions o;
  int dots = 0;
  o.chunking = false;
  o.fault = [&](std::string_view c) -> std::string { return c == "dot" && dots++ == 0 ? "twice" : ""; };
  Host host(loop, o);
  open(1, host.port);
  for (int i = 0; i < 4; ++i) job(1, "message\r\n");
  until([&] { return closed.size() == 1; });
  BOOST_TEST((closed[0].trouble == Trouble::lost));
  open(2, host.port);
  until([&] { return opened.size() == 2; });
  BOOST_TEST(opened[0].features.window == 4u);
  BOOST_TEST(opened[1].features.window == 2u);
  const auto id = job(2, "again\r\n");
  until([&] { return results.contains(id); });
  BOOST_TEST((status(id).action == Action::delivered));
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_or_resets_at_any_byte_has_every_job_end_once_and_truly) {
  start();
  for (const bool reset : {false, true}) {
    for (std::size_t at = 1; at < 400; ++at) {
      BOOST_TEST_CONTEXT((reset ? "reset" : "close") << " after " << at << " bytes") {
        Host host(loop, {});
        host.cut_after = at;
        host.reset = reset;
        const std::uint64_t connection = next_job;
        opened.clear();
        closed.clear();
        results.clear();
        open(connection, host.port);
        const std::vector<std::uint64_t> jobs{job(connection, "one\r\n"), job(connection, "two\r\n"),
                                              job(connection, "three\r\n")};
        BOOST_REQUIRE(hand(ipc::delivery::CloseConnection{connection}));
        until([&] { return closed.size() == 1; });
        std::size_t taken = 0;
        for (const auto& p : host.peers) taken += p->ledger().size();
        std::size_t delivered = 0;
        for (const std::uint64_t id : jobs) {
          const auto& unstarted = closed[0].unstarted;
          const bool back = std::find(unstarted.begin(), unstarted.end(), id) != unstarted.end();
          BOOST_TEST(back != results.contains(id));
          bool has = false;
          for (const auto& p : host.peers)
            for (const auto& t : p->ledger()) has = has || t.recipients[0] == "r" + std::to_string(id) + "@x.example";
          if (back) BOOST_TEST(!has, "handed back, though the peer took it");
          if (!results.contains(id)) continue;
          const bool good = status(id).action == Action::delivered || status(id).action == Action::relayed;
          if (good) ++delivered;
          if (good) BOOST_TEST(has, "credited, but never taken");
        }
        BOOST_TEST(delivered <= taken);
        until([&] { return deliveries->connections() == 0; });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(draining_finishes_what_is_in_hand_and_takes_nothing_new) {
  start();
  Host host(loop, {});
  open(1, host.port);
  const auto id = job(1, "x\r\n");
  deliveries->drain();
  until([&] { return closed.size() == 1 && deliveries->connections() == 0; });
  BOOST_TEST((status(id).action == Action::delivered));
  open(2, host.port);
  until([&] { return closed.size() == 2; });
  BOOST_TEST((closed[1].trouble == Trouble::replaced));
  BOOST_TEST(deliveries->idle());
}

BOOST_AUTO_TEST_CASE(a_status_filter_says_what_is_told_of_mail_and_of_connections) {
  auto filter = map::StatusFilter::open(
      {"inline:{ { 2.0.0 250 2.0.0 Ok: queued = 2.6.0 there } "
       "{ 4.2.2 host mx.example[127.0.0.1] said: 450 4.2.2 full (in reply to RCPT TO command) = "
       "5.2.2 for good } }"},
      {});
  BOOST_REQUIRE(filter);
  settings.filter = std::make_shared<const map::StatusFilter>(*std::move(filter));
  start();
  PeerOptions o;
  o.fault = [](std::string_view c) {
    return c == "rcpt r2@x.example" || c == "rcpt r3@x.example" ? "450 4.2.2 full" : "";
  };
  Host host(loop, o);
  open(1, host.port);
  const auto good = job(1, "x\r\n"), full = job(1, "y\r\n");
  // With other hosts that may have room, the job waits.
  const auto elsewhere = job(1, "z\r\n", false, false, true);
  until([&] { return results.size() == 3; });
  BOOST_TEST((status(elsewhere).action == Action::deferred));
  BOOST_TEST(status(elsewhere).dsn == "4.2.2");
  BOOST_TEST(status(good).dsn == "2.6.0");
  BOOST_TEST(status(good).text == "there");
  BOOST_TEST((status(good).action == Action::delivered));
  BOOST_TEST(status(full).text == "for good");
  BOOST_TEST((status(full).action == Action::failed));
  BOOST_TEST(status(full).diagnostic == "smtp; 450 4.2.2 full");

  // A host that cannot be reached: the text alone, for other mail waits for it.
  deliveries.reset();
  auto hard = map::StatusFilter::open({"static:{5.9.9 nobody there}"}, {});
  BOOST_REQUIRE(hard);
  settings.filter = std::make_shared<const map::StatusFilter>(*std::move(hard));
  start();
  unsigned short port = 0;
  {
    Fd unused = Host::listen();
    port = async::local_address(unused.get())->port;
  }
  closed.clear();
  open(1, port);
  until([&] { return closed.size() == 1; });
  BOOST_TEST(closed[0].status.text == "nobody there");
  BOOST_TEST(closed[0].status.dsn == "4.4.1");
  BOOST_TEST((closed[0].status.action == Action::deferred));
  // For mail that requires TLS not even that: qmgr recognises such trouble by its text.
  open(2, port, false, true);
  until([&] { return closed.size() == 2; });
  BOOST_TEST(closed[1].status.text.find("refused") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_broken_conversation_is_an_error) {
  start();
  Host host(loop, {});
  open(1, host.port);
  ipc::delivery::OpenConnection again;
  again.connection = 1;
  BOOST_TEST(!hand(again));
  ipc::delivery::Job j;
  j.connection = 1;
  j.body.size = 10;  // and no content
  BOOST_TEST(!hand(std::move(j)));
  BOOST_TEST(!hand(ipc::delivery::StagePage{8}));
}

BOOST_AUTO_TEST_SUITE_END()
