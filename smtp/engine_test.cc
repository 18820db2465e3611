#include "smtp/engine.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "smtp/testing/engine_ledger.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;
using mail::Action;

BOOST_AUTO_TEST_SUITE(smtp_engine)

BOOST_AUTO_TEST_CASE(every_message_arrives_whole_whatever_the_peer_offers) {
  for (int bits = 0; bits < 32; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      Harness h(settings(bits));
      fill(h, 40, 3);
      ScriptedPeer peer(offers(bits));
      h.run(peer);
      check_ledger(h, peer);
      BOOST_TEST(peer.encrypted() == ((bits & 16) != 0));
      BOOST_TEST(peer.ledger().size() == 40u);
      BOOST_TEST(peer.quit());
      BOOST_REQUIRE(h.ended);
      BOOST_TEST((h.ended->trouble == Trouble::none));
      BOOST_REQUIRE(h.order.size() == 40u);
      for (std::size_t n = 0; n < 40; ++n) BOOST_TEST(h.order[n] == n);
    }
  }
}

BOOST_AUTO_TEST_CASE(with_chunking_whole_transactions_flow_without_waiting) {
  Harness h(settings(3));
  fill(h, 32, 1);
  ScriptedPeer peer(offers(3));
  h.input(peer.take_output());
  peer.input(h.output());
  h.input(peer.take_output());
  h.collect();
  BOOST_TEST(h.engine.window() == 32u);
  h.submit_some();
  const std::string all = h.output();  // one round trip for 32 messages
  peer.input(all);
  BOOST_TEST(peer.ledger().size() == 32u);
  h.input(peer.take_output());
  h.collect();
  BOOST_TEST(h.order.size() == 32u);
}

BOOST_AUTO_TEST_CASE(a_line_over_the_limit_keeps_a_message_from_bdat_but_for_binarymime) {
  struct Row {
    std::uint64_t longest;
    mail::BodyType type;
    std::size_t limit;
    bool bdat;
  };
  for (const Row& row : {Row{998, mail::BodyType::unspecified, 998, true},
                         {999, mail::BodyType::unspecified, 998, false},
                         {999, mail::BodyType::eight_bit_mime, 998, false},
                         {999, mail::BodyType::binary_mime, 998, true},
                         {999, mail::BodyType::unspecified, 0, true},
                         {999, mail::BodyType::unspecified, 2048, true}}) {
    BOOST_TEST_CONTEXT(row.longest << " " << row.limit) {
      Settings s = settings(3);
      s.line_length_limit = row.limit;
      Harness h(s);
      auto& j = h.job("a@x.example", {"b@y.example"}, "x\r\n");
      j.job.body.longest_line = row.longest;
      j.job.body_type = row.type;
      PeerOptions o = offers(3);
      o.binary_mime = true;
      ScriptedPeer peer(o);
      h.run(peer);
      BOOST_TEST(peer.ledger().size() == 1u);
      const auto by_bdat = [](const std::string& c) { return c.starts_with("BDAT"); };
      BOOST_TEST(std::ranges::any_of(peer.commands(), by_bdat) == row.bdat);
    }
  }
}

BOOST_AUTO_TEST_CASE(with_pipelining_alone_a_message_takes_one_round_trip) {
  Harness h(settings(1));
  fill(h, 10, 2);
  ScriptedPeer peer(offers(1));
  int trips = 0;
  h.input(peer.take_output());
  for (; h.order.size() < 10 && trips < 100; ++trips) {
    h.submit_some();
    const auto out = h.output();
    if (h.order.size() == 3) BOOST_TEST(out.find(".\r\nMAIL FROM") != std::string::npos);
    peer.input(out);
    h.input(peer.take_output());
    h.collect();
  }
  BOOST_TEST(trips == 12);  // EHLO, the first message's commands, and one for each message
  check_ledger(h, peer);
}

BOOST_AUTO_TEST_CASE(a_peer_that_wants_to_know_is_told_of_each_messages_client) {
  const auto told = [](const ScriptedPeer& peer) {
    return std::ranges::count_if(peer.commands(), [](const auto& c) { return c.starts_with("XFORWARD "); });
  };
  for (int bits = 0; bits < 16; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      for (const std::string fault : {"", "500 5.5.1 no", "drop", "421", "swallow", "twice"}) {
        Settings s = settings(bits);
        s.send_xforward = true;
        Harness h(s);
        fill(h, 5, 2);
        for (auto& j : h.jobs) {
          j->job.client.name = "first.example";
          j->job.client.address = "192.0.2.9";
          j->job.queue_id = "4bQ";
        }
        PeerOptions options = offers(bits);
        options.xforward = true;
        int asked = 0;
        options.fault = [&](std::string_view command) {
          BOOST_TEST(command != "xforward nested");
          return command == "xforward" && ++asked == 3 ? fault : std::string();
        };
        ScriptedPeer peer(options);
        h.run(peer);
        BOOST_TEST_CONTEXT("fault " << fault) {
          check_ledger(h, peer);
          if (!fault.empty() && fault[0] != '5') continue;
          BOOST_TEST(peer.ledger().size() == 5U);
          if (fault.empty()) BOOST_TEST(told(peer) == 10);
          if (!fault.empty()) BOOST_TEST(told(peer) <= 10);
        }
      }
      // Only if it is asked for.
      Harness h(settings(bits));
      fill(h, 2, 1);
      PeerOptions options = offers(bits);
      options.xforward = true;
      ScriptedPeer peer(options);
      h.run(peer);
      BOOST_TEST(told(peer) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(commands_that_must_end_a_group_end_it) {
  Harness h(settings(1));
  fill(h, 6, 2);
  ScriptedPeer peer(offers(1));
  h.input(peer.take_output());
  for (int i = 0; i < 30; ++i) {
    h.submit_some();
    const auto out = h.output();
    for (const auto* last : {"EHLO", "\r\nDATA\r\n", "QUIT"}) {
      const auto at = out.find(last);
      if (at != std::string::npos) BOOST_TEST(out.find("\r\n", at + 2) + 2 == out.size(), out);
    }
    peer.input(out);
    h.input(peer.take_output());
    h.collect();
  }
  BOOST_TEST(h.order.size() == 6u);
}

namespace {
/// The stages at which something can happen, as ScriptedPeer names them.
const std::vector<std::string> kStages{"greeting", "ehlo", "mail", "rcpt", "data", "end", "rset"};
bool at_stage(const std::string& stage, std::string_view command) {
  if (stage == "end") return command.starts_with("dot") || command.starts_with("bdat");
  return command.starts_with(stage);
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_fault_at_any_stage_of_any_message_is_credited_to_nobody_else) {
  for (int bits = 0; bits < 16; ++bits) {
    for (const auto& stage : kStages) {
      for (const std::string fault : {"450 4.1.0 not now", "550 5.1.0 never", "552 5.2.2 full", "drop", "421"}) {
        for (int nth = 0; nth < 5; ++nth) {
          for (const bool go_ahead : {false, true}) {
            BOOST_TEST_CONTEXT(mode(bits) << " " << stage << " " << fault << " at occurrence " << nth) {
              Harness h(settings(bits));
              fill(h, 8, 2);
              auto o = offers(bits);
              o.data_without_recipients_354 = go_ahead;
              int seen = 0;
              o.fault = [&](std::string_view command) -> std::string {
                if (!at_stage(stage, command)) return {};
                // Two in a row, so that sometimes all recipients of a message are hit.
                const int now = seen++;
                return now == nth || now == nth + 1 ? fault : "";
              };
              ScriptedPeer peer(o);
              h.run(peer);
              check_ledger(h, peer);
              BOOST_TEST(!h.timed_out);
              BOOST_REQUIRE(h.ended);
              if (fault[0] == '4' && fault != "421" && stage == "mail") {
                for (const auto& j : h.jobs)
                  for (const auto& s : j->done->results) BOOST_TEST((s.action != Action::failed));
              }
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_refuses_recipients_gets_only_the_others) {
  for (int bits = 0; bits < 16; ++bits) {
    BOOST_TEST_CONTEXT(mode(bits)) {
      Harness h(settings(bits));
      fill(h, 5, 4);
      auto o = offers(bits);
      o.fault = [](std::string_view c) -> std::string {
        if (c.find("-0@") != c.npos && c.starts_with("rcpt")) return "550 5.1.1 unknown";
        if (c.find("-1@") != c.npos && c.starts_with("rcpt")) return "450 4.2.1 busy";
        if (c.find("-2@") != c.npos && c.starts_with("rcpt")) return "552 5.2.2 too many";
        return {};
      };
      ScriptedPeer peer(o);
      h.run(peer);
      check_ledger(h, peer);
      for (const auto& j : h.jobs) {
        const auto& r = j->done->results;
        BOOST_TEST((r[0].action == Action::failed));
        BOOST_TEST(r[0].dsn == "5.1.1");
        BOOST_TEST(r[0].text == "host peer.example[192.0.2.1] said: 550 5.1.1 unknown (in reply to RCPT TO command)");
        BOOST_TEST(r[0].diagnostic == "smtp; 550 5.1.1 unknown");
        BOOST_TEST(r[0].remote_mta == "peer.example");
        BOOST_TEST((r[1].action == Action::deferred));
        BOOST_TEST((r[2].action == Action::deferred), "552 to RCPT is 452");
        BOOST_TEST(r[2].dsn == "4.2.2");
        BOOST_TEST((r[3].action == Action::delivered));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(all_recipients_refused_leaves_the_next_message_unharmed) {
  for (int bits = 0; bits < 16; ++bits) {
    for (const bool go_ahead : {false, true}) {
      BOOST_TEST_CONTEXT(mode(bits) << go_ahead) {
        Harness h(settings(bits));
        fill(h, 6, 2);
        auto o = offers(bits);
        o.data_without_recipients_354 = go_ahead;
        o.fault = [](std::string_view c) -> std::string {
          return c.starts_with("rcpt r2-") ? "550 5.1.1 unknown" : "";
        };
        ScriptedPeer peer(o);
        h.run(peer);
        check_ledger(h, peer);
        if (go_ahead && (bits & 8)) continue;  // LMTP: the connection ends there, the rest is unstarted
        BOOST_TEST(peer.ledger().size() == 5u);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(lmtp_gives_every_recipient_its_own_result) {
  for (int bits = 8; bits < 16; ++bits) {
    Harness h(settings(bits));
    fill(h, 4, 3);
    auto o = offers(bits);
    o.fault = [](std::string_view c) -> std::string {
      if (c.starts_with("dot") && c.find("-1@") != c.npos) return "552 5.2.2 over quota";
      if (c.starts_with("dot") && c.find("-2@") != c.npos) return "451 4.3.0 try later";
      return {};
    };
    ScriptedPeer peer(o);
    h.run(peer);
    check_ledger(h, peer);
    for (const auto& j : h.jobs) {
      BOOST_TEST((j->done->results[0].action == Action::delivered));
      BOOST_TEST((j->done->results[1].action == Action::failed));
      BOOST_TEST((j->done->results[2].action == Action::deferred));
    }
    for (const auto& c : peer.commands()) BOOST_TEST(!c.starts_with("EHLO"));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_knows_no_ehlo_is_greeted_with_helo) {
  Harness h(settings(0));
  fill(h, 2, 1);
  auto o = offers(7);
  o.ehlo = false;
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST(peer.ledger().size() == 2u);
  BOOST_TEST(peer.commands()[1] == "HELO me.example");
  BOOST_TEST(peer.commands()[2] == "MAIL FROM:<s0@a.example>");
}

BOOST_AUTO_TEST_CASE(nothing_is_said_before_the_greeting) {
  Harness h(settings(0));
  fill(h, 1, 1);
  h.submit_some();
  BOOST_TEST(h.output() == "");
  h.input("220-hello\r\n");
  BOOST_TEST(h.output() == "");
  h.input("220 ESMTP\r\n");
  BOOST_TEST(h.output() == "EHLO me.example\r\n");
}

BOOST_AUTO_TEST_CASE(a_421_leaves_later_messages_without_effect_though_they_were_sent) {
  Harness h(settings(3));
  fill(h, 10, 1);
  auto o = offers(3);
  int n = 0;
  o.fault = [&](std::string_view c) -> std::string { return c == "mail" && n++ == 4 ? "421" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST((h.ended->trouble == Trouble::peer_421));
  BOOST_TEST(h.ended->unstarted.size() == h.submitted - 4);
  for (int i = 0; i < 4; ++i)
    BOOST_TEST((h.jobs[static_cast<std::size_t>(i)]->done->results[0].action == Action::delivered));
}

BOOST_AUTO_TEST_CASE(after_a_bare_close_only_messages_whose_data_had_ended_are_in_doubt) {
  Harness h(settings(1));
  fill(h, 6, 1);
  auto o = offers(1);
  int n = 0;
  o.fault = [&](std::string_view c) -> std::string { return c == "dot" && n++ == 2 ? "drop" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST((h.ended->trouble == Trouble::lost));
  BOOST_REQUIRE(h.jobs[2]->done);
  BOOST_TEST(h.jobs[2]->done->results[0].text ==
             "lost connection with peer.example[192.0.2.1] while sending end of data -- message "
             "may be sent more than once");
  BOOST_TEST(h.jobs[2]->done->results[0].dsn == "4.4.2");
  BOOST_TEST(h.jobs[3]->unstarted);
}

BOOST_AUTO_TEST_CASE(a_refused_greeting_leaves_all_jobs_unstarted) {
  for (const auto& [line, trouble] :
       {std::pair{"421 4.3.2 busy", Trouble::greeting_4xx}, std::pair{"554 5.7.1 go away", Trouble::greeting_5xx}}) {
    Harness h(settings(0));
    fill(h, 1, 1);
    h.submit_some();
    h.input(std::string(line) + "\r\n");
    BOOST_TEST(h.engine.ended());
    h.finish(End::by_engine);
    BOOST_TEST((h.ended->trouble == trouble));
    BOOST_TEST(!h.ended->opened);
    BOOST_TEST((h.ended->status.action == Action::deferred));
    BOOST_TEST(h.ended->status.dsn[0] == '4');
    BOOST_TEST(h.ended->status.text == "host peer.example[192.0.2.1] refused to talk to me: " + std::string(line));
    BOOST_TEST(h.jobs[0]->unstarted);
  }
}

BOOST_AUTO_TEST_CASE(limits_that_the_peer_has_said_are_kept) {
  struct Row {
    const char *limits, *taken, *put_off;  // recipients of each message that arrived; why the others wait
    std::size_t unstarted;
    const char* rest = "";
  };
  const std::vector<std::string> all = {"a@x.example", "b@x.example", "c@Y.example", "d@x.example", "e@z.example"};
  for (const Row& row : {
           Row{"", "abcde abcde abcde ", "", 0},
           Row{"RCPTMAX=2", "ab ab ab ", "takes no more recipients in a message than 2", 0, "cde"},
           Row{"rcptmax=5 mailmax=9", "abcde abcde abcde ", "", 0},
           Row{"RCPTDOMAINMAX=2", "abcd abcd abcd ", "takes no more domains in a message than 2", 0, "e"},
           Row{"RCPTMAX=9 RCPTDOMAINMAX=1", "abd abd abd ", "takes no more domains in a message than 1", 0},
           Row{"MAILMAX=2", "abcde abcde ", "", 1},
           Row{"MAILMAX=1 FUTURE=7", "abcde ", "", 2},
           Row{"RCPTMAX=0 MAILMAX=x RCPTDOMAINMAX RCPTMAX=-1", "abcde abcde abcde ", "", 0},
       }) {
    for (const int bits : {0, 3}) {
      BOOST_TEST_CONTEXT(row.limits << " " << mode(bits)) {
        Harness h(settings(bits));
        for (int i = 0; i < 3; ++i) h.job("s@x.example", all, "x\r\n");
        auto o = offers(bits);
        o.limits = row.limits;
        ScriptedPeer peer(o);
        h.run(peer);
        std::string taken;
        for (const auto& one : peer.ledger()) {
          for (const auto& r : one.recipients) taken += r.front();
          taken += ' ';
        }
        BOOST_TEST(taken == row.taken);
        std::size_t unstarted = 0;
        for (const auto& j : h.jobs) {
          if (j->unstarted) ++unstarted;
          if (!j->done) continue;
          for (const auto& r : j->done->results) {
            if (r.action == Action::delivered) continue;
            BOOST_TEST((r.action == Action::deferred && r.dsn == "4.5.3"));
            BOOST_TEST(r.text == "host peer.example[192.0.2.1] " + std::string(row.put_off));
          }
          // The recipients left over are for another transaction; with one domain each, the words tell which they are.
          std::string rest;
          for (std::size_t i = 0; i < j->done->rest.size(); ++i)
            if (j->done->rest[i]) rest += all[i].front();
          BOOST_TEST(rest == row.rest);
        }
        BOOST_TEST(unstarted == row.unstarted);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_peer_cannot_take_fails_without_a_word_on_the_wire) {
  Harness h(settings(3));
  auto& big = h.job("a@x", {"b@x"}, std::string(2000, 'x') + "\r\n");
  auto& binary = h.job("a@x", {"b@x"}, "x\r\n");
  binary.job.body_type = mail::BodyType::binary_mime;
  auto& utf8 = h.job("\xc3\xbc@x", {"b@x"}, "y\r\n");
  auto& mixed = h.job("a@x", {"\xc3\xbc@x", "b@x"}, "z\r\n");
  auto& evil = h.job("a@x>\r\nRCPT TO:<victim@x", {"b@x"}, "w\r\n");
  auto& plain = h.job("a@x", {"b@x", "c>\r\nDATA@x"}, "v\r\n");
  auto o = offers(3);
  o.size = "1000";
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST(big.done->results[0].dsn == "5.3.4");
  BOOST_TEST(binary.done->results[0].dsn == "5.6.1");
  BOOST_TEST(utf8.done->results[0].dsn == "5.6.7");
  BOOST_TEST(mixed.done->results[0].dsn == "5.6.7");
  BOOST_TEST((mixed.done->results[1].action == Action::delivered));
  BOOST_TEST(evil.done->results[0].dsn == "5.1.7");
  BOOST_TEST((plain.done->results[0].action == Action::delivered));
  BOOST_TEST(plain.done->results[1].dsn == "5.1.3");
  BOOST_TEST(peer.ledger().size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_this_peer_does_not_offer_another_host_may) {
  for (const bool others : {false, true}) {
    Harness h(settings(3));
    auto& j = h.job("a@x.example", {"\xc3\xa4@b.example", "b@b.example"}, content(0));
    j.job.other_hosts = others;
    ScriptedPeer peer(offers(3));
    h.run(peer);
    BOOST_REQUIRE(j.done);
    BOOST_TEST((j.done->results[0].action == (others ? Action::deferred : Action::failed)));
    BOOST_TEST(j.done->results[0].dsn == (others ? "4.6.7" : "5.6.7"));
    BOOST_TEST(j.done->results[1].dsn.front() == '2');
    BOOST_TEST(!j.done->cut_short);
  }
}

BOOST_AUTO_TEST_CASE(a_header_in_utf8_goes_without_smtputf8_only_where_that_is_asked_for) {
  for (const bool as_is : {false, true}) {
    Settings s = settings(3);
    s.utf8_header_as_is = as_is;
    Harness h(s);
    const auto declared = [&](std::string from, std::string to) -> HarnessJob& {
      const auto n = static_cast<int>(h.jobs.size());
      auto& j = h.job(std::move(from), {std::move(to)}, "Subject: \xc3\xbc\r\n" + content(n));
      j.job.smtputf8 = j.job.body.eight_bit_header = true;
      return j;
    };
    auto& header = declared("a@x", "b@x");
    auto& sender = declared("\xc3\xbc@x", "b@x");
    auto& recipient = declared("a@x", "\xc3\xbc@x");
    auto& undeclared = declared("a@x", "c@x");
    undeclared.job.smtputf8 = false;
    ScriptedPeer peer(offers(3));
    h.run(peer);
    check_ledger(h, peer);
    BOOST_TEST((header.done->results[0].action == (as_is ? Action::delivered : Action::failed)));
    if (!as_is)
      BOOST_TEST(header.done->results[0].text ==
                 "SMTPUTF8 is required, but was not offered by host peer.example[192.0.2.1]: the "
                 "message header is in UTF-8");
    BOOST_TEST((undeclared.done->results[0].action == Action::delivered));
    for (const auto* j : {&sender, &recipient}) {
      BOOST_TEST(j->done->results[0].dsn == "5.6.7");
      BOOST_TEST(j->done->results[0].text.contains("'s address is in UTF-8") == (as_is || j == &sender));
    }
    for (const auto& c : peer.commands()) BOOST_TEST(!c.contains("SMTPUTF8"));
  }
}

BOOST_AUTO_TEST_CASE(parameters_go_only_where_they_are_offered) {
  for (const bool dsn : {false, true}) {
    Harness h(settings(0));
    auto& j = h.job("a@x", {"b@x", "c@x"}, "\xe4\r\n");
    j.job.body_type = mail::BodyType::eight_bit_mime;
    j.job.envid = "id+1 x";
    j.job.ret = mail::Ret::headers;
    j.job.recipients[0].recipient.notify = mail::notify::kSuccess | mail::notify::kDelay;
    j.job.recipients[0].recipient.orcpt = "rfc822;orig+2Bx@y";
    j.job.recipients[1].recipient.notify = mail::notify::kNever;
    j.job.recipients[1].recipient.original = "j\xc3\xb6+r@x";
    PeerOptions o;
    o.dsn = o.eight_bit_mime = dsn;
    o.size = dsn ? "100000" : "-";
    ScriptedPeer peer(o);
    h.run(peer);
    check_ledger(h, peer);
    if (dsn) {
      BOOST_TEST(peer.commands()[1] == "MAIL FROM:<a@x> SIZE=3 BODY=8BITMIME ENVID=id+2B1+20x RET=HDRS");
      BOOST_TEST(peer.commands()[2] == "RCPT TO:<b@x> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;orig+2Bx@y");
      BOOST_TEST(peer.commands()[3] == "RCPT TO:<c@x> NOTIFY=NEVER ORCPT=utf-8;j\\x{F6}\\x{2B}r@x");
      BOOST_TEST((j.done->results[0].action == Action::transferred), "success is theirs to report");
    } else {
      BOOST_TEST(peer.commands()[1] == "MAIL FROM:<a@x>");
      BOOST_TEST(peer.commands()[2] == "RCPT TO:<b@x>");
      BOOST_TEST((j.done->results[0].action == Action::relayed), "success is ours to report");
    }
  }
}

BOOST_AUTO_TEST_CASE(eight_bit_content_goes_converted_and_by_data_where_8bitmime_is_not_offered) {
  struct Row {
    bool offered, convert, eight_bit;
    Form wanted;
  };
  for (const Row row : {Row{false, true, true, Form::seven_bit}, Row{true, true, true, Form::bdat},
                        Row{false, false, true, Form::bdat}, Row{false, true, false, Form::bdat}}) {
    Settings s = settings(3);
    s.convert_eight_bit = row.convert;
    Engine engine(s, {"peer.example", "peer.example[192.0.2.1]"});
    ipc::delivery::Job job;
    job.sender = "a@x";
    job.body.size = 3;
    job.body.eight_bit_body = row.eight_bit;
    job.recipients.push_back({0, {.address = "b@y", .original = {}, .orcpt = {}, .notify = 0}});
    const SteadyTime now{};
    for (const auto* line : {"220 peer.example ESMTP", "250-peer.example", "250-PIPELINING"}) engine.on_line(line, now);
    if (row.offered) engine.on_line("250-8BITMIME", now);
    engine.on_line("250 CHUNKING", now);
    engine.submit(&job, now);
    Form form = Form::none;
    std::string sent;
    for (int i = 0; i < 10 && form == Form::none; ++i) {
      while (auto send = engine.next_send(now)) {
        sent += send->text;
        if (send->job == nullptr) continue;
        form = send->form;
        break;
      }
      if (sent.ends_with("DATA\r\n"))
        for (const auto* line : {"250 ok", "250 ok", "354 go on"}) engine.on_line(line, now);
    }
    BOOST_TEST((form == row.wanted), "offered " << row.offered << " convert " << row.convert);
    BOOST_TEST(sent.contains(" BODY=8BITMIME") == row.offered);
  }
}

BOOST_AUTO_TEST_CASE(a_large_message_waits_for_its_recipients_before_its_content) {
  Settings s = settings(3);
  s.eager_limit = 100;
  Harness h(s);
  h.job("a@x", {"no@x"}, std::string(5000, 'x') + "\r\n");
  h.job("a@x", {"yes@x"}, std::string(5000, 'y') + "\r\n");
  auto o = offers(3);
  o.fault = [](std::string_view c) -> std::string { return c == "rcpt no@x" ? "550 no" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST(peer.ledger().size() == 1u);
  int bdats = 0;
  for (const auto& c : peer.commands()) bdats += c.starts_with("BDAT");
  BOOST_TEST(bdats == 1);
}

BOOST_AUTO_TEST_CASE(random_faults_cuts_and_delays_never_credit_wrongly) {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    Random random(seed);
    const int bits = static_cast<int>(random.below(16));
    BOOST_TEST_CONTEXT("seed " << seed << " " << mode(bits)) {
      Settings s = settings(bits);
      s.window = static_cast<std::uint32_t>(1 + random.below(12));
      s.window_bytes = random.chance(0.3) ? 100 : 1'000'000;
      s.eager_limit = random.chance(0.2) ? 10 : 1'000'000;
      Harness h(s);
      fill(h, static_cast<int>(1 + random.below(12)), static_cast<int>(1 + random.below(4)));
      auto o = offers(bits);
      o.data_without_recipients_354 = random.chance(0.5);
      const double rate = random.unit() * 0.3;
      o.fault = [&](std::string_view c) -> std::string {
        if (c == "greeting" || c == "ehlo" || c == "rset" || !random.chance(rate)) return {};
        static const std::vector<std::string> kFaults{"450 4.1.1 a", "550 5.1.1 b",          "499 c",
                                                      "599 d",       "552-x\r\n552 5.2.3 e", "drop",
                                                      "421",         "421 4.7.0 but stays"};
        return kFaults[random.below(kFaults.size())];
      };
      ScriptedPeer peer(o);
      h.run(peer, &random);
      check_ledger(h, peer);
      BOOST_TEST(!h.timed_out);
    }
  }
}

BOOST_AUTO_TEST_CASE(missing_and_doubled_replies_never_lose_a_message_where_data_proves_the_order) {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    Random random(seed);
    const int bits = static_cast<int>(random.below(16)) & ~2;  // the reply 354 to DATA is the proof
    BOOST_TEST_CONTEXT("seed " << seed << " " << mode(bits)) {
      Harness h(settings(bits));
      fill(h, static_cast<int>(1 + random.below(8)), static_cast<int>(1 + random.below(3)));
      auto o = offers(bits);
      bool done = false;
      o.fault = [&](std::string_view c) -> std::string {
        if (c == "greeting" || c == "ehlo") return {};
        // LMTP's final replies do not prove their order among each other: see docs/pipelining.md.
        if ((bits & 8) && c.starts_with("dot")) return {};
        if (!done && random.chance(0.05)) {
          done = true;
          return random.chance(0.5) ? "swallow" : "twice";
        }
        return random.chance(0.1) ? (random.chance(0.5) ? "450 4.1.1 a" : "550 5.1.1 b") : "";
      };
      ScriptedPeer peer(o);
      h.run(peer, &random);
      // Delivered means taken, whatever the replies looked like.
      for (const auto& j : h.jobs) {
        if (!j->done) continue;
        BOOST_TEST(j->outcomes == 1);
        for (std::size_t r = 0; r < j->done->results.size(); ++r)
          if (j->done->results[r].action == Action::delivered)
            BOOST_TEST(peer_has(peer, *j, j->job.recipients[r].recipient.address), j->job.queue_id << " " << r);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
