/// Probes on connections that carry messages: they deliver nothing, and do not disturb the messages.
#include <boost/test/unit_test.hpp>

#include "smtp/engine.h"
#include "smtp/testing/engine_ledger.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;

namespace {
bool is_probe(int n) { return n % 3 == 1; }

/// Messages, with probes between them: 0, probe, 2, 3, probe, 5, …
void fill_mixed(Harness& h, int jobs, int recipients) {
  fill(h, jobs, recipients);
  for (int n = 0; n < jobs; ++n)
    if (is_probe(n)) h.jobs[static_cast<std::size_t>(n)]->job.purpose = mail::Purpose::probe;
}
std::size_t count(const ScriptedPeer& peer, std::string_view command) {
  return static_cast<std::size_t>(
      std::ranges::count_if(peer.commands(), [&](const auto& c) { return c.starts_with(command); }));
}
}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_engine_probes)

BOOST_AUTO_TEST_CASE(a_probe_says_mail_and_rcpt_and_takes_them_back) {
  for (int bits = 0; bits < 32; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      Harness h(settings(bits));
      auto& probe = h.job("ada@a.example", {"yes@b.example", "no@b.example", "later@b.example"}, content(0));
      probe.job.purpose = mail::Purpose::probe;
      probe.job.recipients[0].recipient.notify = mail::notify::kSuccess;
      auto o = offers(bits);
      o.fault = [](std::string_view c) -> std::string {
        if (c == "rcpt no@b.example") return "550 5.1.1 nobody";
        if (c == "rcpt later@b.example") return "450 4.2.1 busy";
        return {};
      };
      ScriptedPeer peer(o);
      h.run(peer);
      check_ledger(h, peer);
      BOOST_TEST(peer.ledger().empty());
      BOOST_TEST(count(peer, "DATA") + count(peer, "BDAT") == 0U);
      BOOST_REQUIRE(probe.done);
      const auto& r = probe.done->results;
      // Even if the peer offers DSN: it has not taken responsibility for anything.
      BOOST_TEST((r[0].action == Action::delivered));
      BOOST_TEST(r[0].text == "250 2.1.5 Ok");
      BOOST_TEST(r[0].remote_mta == "peer.example");
      BOOST_TEST((r[1].action == Action::failed));
      BOOST_TEST(r[1].diagnostic == "smtp; 550 5.1.1 nobody");
      BOOST_TEST((r[2].action == Action::deferred));
      const auto& said = peer.commands();
      BOOST_REQUIRE(said.size() >= 3U);
      BOOST_TEST(said[said.size() - 2] == "RSET");
      BOOST_TEST(said.back() == "QUIT");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_probe_may_ask_up_to_data_and_then_hangs_up_without_content) {
  for (int bits = 0; bits < 32; ++bits) {
    for (const bool refuses : {false, true}) {
      BOOST_TEST_CONTEXT(mode(bits)) {
        auto s = settings(bits);
        s.probe_data = true;
        Harness h(s);
        auto& probe = h.job("ada@a.example", {"yes@b.example", "no@b.example"}, content(0));
        probe.job.purpose = mail::Purpose::verification;
        auto o = offers(bits);
        o.fault = [&](std::string_view c) -> std::string {
          if (c == "rcpt no@b.example") return "550 5.1.1 nobody";
          return refuses && c == "data" ? "554 5.1.1 no valid recipients" : "";
        };
        ScriptedPeer peer(o);
        h.run(peer);
        check_ledger(h, peer);
        BOOST_TEST(peer.ledger().empty());
        BOOST_TEST(count(peer, "DATA") == 1U);
        BOOST_REQUIRE(probe.done);
        const auto& r = probe.done->results;
        BOOST_TEST((r[0].action == (refuses ? Action::failed : Action::delivered)));
        BOOST_TEST((r[1].action == Action::failed));
        BOOST_TEST(r[1].diagnostic == "smtp; 550 5.1.1 nobody");
        if (refuses) BOOST_TEST(r[0].text.contains("in reply to DATA command"));
        BOOST_TEST((peer.commands().back() == "DATA") == !refuses);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_probe_up_to_data_whose_recipients_are_refused_says_no_data) {
  for (int bits = 0; bits < 32; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      auto s = settings(bits);
      s.probe_data = true;
      Harness h(s);
      auto& probe = h.job("ada@a.example", {"no@b.example"}, content(0));
      probe.job.purpose = mail::Purpose::verification;
      auto& message = h.job("ada@a.example", {"yes@b.example"}, content(1));
      auto o = offers(bits);
      o.fault = [&](std::string_view c) -> std::string { return c == "rcpt no@b.example" ? "550 5.1.1 nobody" : ""; };
      ScriptedPeer peer(o);
      h.run(peer);
      check_ledger(h, peer);
      BOOST_REQUIRE(probe.done);
      BOOST_TEST((probe.done->results[0].action == Action::failed));
      BOOST_REQUIRE(message.done);
      BOOST_TEST(peer.ledger().size() == 1U);
    }
  }
}

BOOST_AUTO_TEST_CASE(messages_around_probes_arrive_as_if_there_were_none) {
  for (int bits = 0; bits < 32; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      Harness h(settings(bits));
      fill_mixed(h, 40, 3);
      ScriptedPeer peer(offers(bits));
      h.run(peer);
      check_ledger(h, peer);
      BOOST_TEST(peer.ledger().size() == 27U);
      for (const auto& j : h.jobs)
        for (const auto& r : j->done->results) BOOST_TEST((r.action == Action::delivered));
    }
  }
}

BOOST_AUTO_TEST_CASE(commands_behind_a_probe_go_in_its_group_and_content_after_its_reset) {
  for (const int bits : {1, 3}) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      Harness h(settings(bits));
      h.job("p@a.example", {"x@b.example"}, content(0)).job.purpose = mail::Purpose::probe;
      h.job("m@a.example", {"y@b.example"}, content(1));
      ScriptedPeer peer(offers(bits));
      h.input(peer.take_output());
      peer.input(h.output());
      h.input(peer.take_output());
      h.collect();
      h.submit_some();
      const std::string group = h.output();
      BOOST_TEST(group.starts_with("MAIL FROM:<p@a.example>"));
      BOOST_TEST(group.contains("RCPT TO:<x@b.example>\r\nRSET\r\nMAIL FROM:<m@a.example>"));
      BOOST_TEST(group.ends_with(bits == 3 ? "RCPT TO:<y@b.example>\r\n" : "\r\nDATA\r\n"));
      if (bits != 3) continue;
      h.input("250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n");
      BOOST_TEST(h.output() == "");
      h.input("250 2.0.0 Ok\r\n");
      BOOST_TEST(h.output().starts_with("BDAT "));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_probe_behind_a_message_keeps_no_refused_recipients_for_the_next) {
  for (int bits = 0; bits < 16; ++bits) {
    for (const bool go_ahead : {false, true}) {
      BOOST_TEST_CONTEXT(mode(bits) << go_ahead) {
        Harness h(settings(bits));
        fill_mixed(h, 8, 2);
        auto o = offers(bits);
        o.data_without_recipients_354 = go_ahead;
        o.fault = [](std::string_view c) -> std::string {
          // The recipients of one message and one probe.
          return c.starts_with("rcpt r0-") || c.starts_with("rcpt r4-") ? "550 5.1.1 unknown" : "";
        };
        ScriptedPeer peer(o);
        h.run(peer);
        check_ledger(h, peer);
        if (go_ahead && (bits & 8) != 0) continue;  // LMTP: the connection ends there
        BOOST_TEST(peer.ledger().size() == 4U);
        for (const auto& r : h.jobs[4]->done->results) BOOST_TEST((r.action == Action::failed));
        for (const auto& r : h.jobs[1]->done->results) BOOST_TEST((r.action == Action::delivered));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fault_in_a_probe_or_beside_one_is_credited_to_nobody_else) {
  const auto at_stage = [](std::string_view stage, std::string_view command) {
    if (stage == "end") return command.starts_with("dot") || command.starts_with("bdat");
    return command.starts_with(stage);
  };
  for (int bits = 0; bits < 16; ++bits) {
    for (const std::string stage : {"mail", "rcpt", "data", "end", "rset"}) {
      for (const std::string fault : {"450 4.1.0 not now", "500 5.5.2 what", "502 5.5.1 not here", "503 5.5.1 now",
                                      "550 5.1.0 never", "drop", "421"}) {
        for (int nth = 0; nth < 8; ++nth) {
          BOOST_TEST_CONTEXT(mode(bits) << " " << stage << " " << fault << " at " << nth) {
            Harness h(settings(bits));
            fill_mixed(h, 8, 2);
            auto o = offers(bits);
            int seen = 0;
            o.fault = [&](std::string_view command) -> std::string {
              return at_stage(stage, command) && seen++ == nth ? fault : "";
            };
            ScriptedPeer peer(o);
            h.run(peer);
            check_ledger(h, peer);
            BOOST_TEST(!h.timed_out);
            // A lost connection leaves committed messages in doubt. Of the refusals only that of RSET does: the
            // message before it if the peer knows the command; in a flow of BDAT, messages with content behind it.
            const bool flow = (bits & 11) == 3;
            const bool may_doubt =
                fault == "drop" || fault == "421" || (stage == "rset" && (flow || !fault.starts_with("50")));
            for (const auto& j : h.jobs) {
              if (may_doubt || !j->done) continue;
              for (const auto& r : j->done->results) BOOST_TEST(!r.text.contains("may be sent more than once"), r.text);
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_message_before_a_probe_is_sent_once_to_a_peer_that_knows_no_rset) {
  for (const std::string fault : {"500 5.5.2 what", "502 5.5.1 not here", "503 5.5.1 not now"}) {
    for (const bool another : {false, true}) {
      BOOST_TEST_CONTEXT(fault << another) {
        Harness h(settings(1));
        h.job("m@a.example", {"y@b.example"}, content(1));
        h.job("p@a.example", {"x@b.example"}, content(0)).job.purpose = mail::Purpose::probe;
        if (another) h.job("n@a.example", {"z@b.example"}, content(2));
        auto o = offers(1);
        o.fault = [&](std::string_view command) { return command == "rset" ? fault : ""; };
        ScriptedPeer peer(o);
        h.run(peer);
        check_ledger(h, peer);
        BOOST_REQUIRE(peer.ledger().size() == 1U);
        BOOST_REQUIRE(h.jobs[0]->done);
        BOOST_TEST((h.jobs[0]->done->results[0].action == Action::delivered));
        BOOST_REQUIRE(h.jobs[1]->done);
        BOOST_TEST((h.jobs[1]->done->results[0].action == Action::delivered));
        if (another && h.submitted > 2) BOOST_TEST(h.jobs[2]->unstarted);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(missing_and_doubled_replies_beside_probes_lose_no_message) {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    Random random(seed);
    // With CHUNKING no reply is distinctive, nor are LMTP's final replies: see docs/pipelining.md.
    const int bits = static_cast<int>(random.below(8)) & ~2;
    BOOST_TEST_CONTEXT("seed " << seed << " " << mode(bits)) {
      Harness h(settings(bits));
      fill_mixed(h, static_cast<int>(2 + random.below(8)), static_cast<int>(1 + random.below(3)));
      auto o = offers(bits);
      bool done = false;
      o.fault = [&](std::string_view c) -> std::string {
        if (c == "greeting" || c == "ehlo") return {};
        if (!done && random.chance(0.05)) {
          done = true;
          return random.chance(0.5) ? "swallow" : "twice";
        }
        return random.chance(0.1) ? (random.chance(0.5) ? "450 4.1.1 a" : "550 5.1.1 b") : "";
      };
      ScriptedPeer peer(o);
      h.run(peer, &random);
      for (const auto& j : h.jobs) {
        if (!j->done || j->job.purpose == mail::Purpose::probe) continue;
        for (std::size_t r = 0; r < j->done->results.size(); ++r)
          if (j->done->results[r].action == Action::delivered)
            BOOST_TEST(peer_has(peer, *j, j->job.recipients[r].recipient.address));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_probe_whose_reset_is_not_answered_in_time_is_not_believed) {
  Harness h(settings(1));
  h.job("p@a.example", {"x@b.example"}, content(0)).job.purpose = mail::Purpose::probe;
  auto o = offers(1);
  o.fault = [](std::string_view command) { return command == "mail" ? "swallow" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  BOOST_TEST(h.timed_out);
  BOOST_REQUIRE(h.jobs[0]->done);
  BOOST_TEST((h.jobs[0]->done->results[0].action == Action::deferred));
}

BOOST_AUTO_TEST_CASE(the_answers_stand_when_the_peer_hangs_up_behind_them) {
  for (const int bits : {0, 1, 3, 8, 9}) {
    for (const std::string fault : {"drop", "421"}) {
      BOOST_TEST_CONTEXT(mode(bits) << fault) {
        Harness h(settings(bits));
        h.job("p@a.example", {"x@b.example"}, content(0)).job.purpose = mail::Purpose::probe;
        h.job("m@a.example", {"y@b.example"}, content(1));
        auto o = offers(bits);
        o.fault = [&](std::string_view command) { return command == "rset" ? fault : ""; };
        ScriptedPeer peer(o);
        h.run(peer);
        check_ledger(h, peer);
        BOOST_REQUIRE(h.jobs[0]->done);
        BOOST_TEST((h.jobs[0]->done->results[0].action == Action::delivered));
        if (h.submitted > 1) BOOST_TEST(h.jobs[1]->unstarted);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
