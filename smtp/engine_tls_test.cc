/// STARTTLS: when it is sent, what is forgotten, and that nothing is sent in clear text where it must not be.
#include <boost/test/unit_test.hpp>

#include "smtp/engine.h"
#include "smtp/testing/engine_ledger.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;

namespace {

constexpr int kBits = 1 | 2 | 16;

Settings with(StartTls starttls, int bits = kBits) {
  Settings s = settings(bits);
  s.starttls = starttls;
  return s;
}
bool said(const ScriptedPeer& peer, const std::string& command) {
  for (const auto& c : peer.commands())
    if (c.starts_with(command)) return true;
  return false;
}
/// No mail was sent, and all jobs are returned.
void check_nothing_sent(const Harness& h, const ScriptedPeer& peer, Trouble trouble) {
  BOOST_TEST(!said(peer, "MAIL"));
  BOOST_TEST(peer.ledger().empty());
  BOOST_REQUIRE(h.ended);
  BOOST_TEST(!h.ended->opened);
  BOOST_TEST((h.ended->trouble == trouble), static_cast<int>(h.ended->trouble));
  for (std::size_t n = 0; n < h.submitted; ++n) BOOST_TEST(h.jobs[n]->unstarted);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_engine_tls)

BOOST_AUTO_TEST_CASE(starttls_stands_alone_and_ehlo_is_said_again_after_it) {
  for (const int bits : {kBits, kBits | 8}) {
    Harness h(with(StartTls::if_offered, bits));
    fill(h, 3, 1);
    ScriptedPeer peer(offers(bits));
    h.run(peer);
    check_ledger(h, peer);
    BOOST_TEST(peer.ledger().size() == 3u);
    BOOST_TEST(peer.sent_ahead_of_tls() == 0u);
    BOOST_REQUIRE(peer.commands().size() > 3u);
    const std::string hello = bits & 8 ? "LHLO me.example" : "EHLO me.example";
    BOOST_TEST(peer.commands()[0] == hello);
    BOOST_TEST(peer.commands()[1] == "STARTTLS");
    BOOST_TEST(peer.commands()[2] == hello);
    BOOST_TEST(!h.offers.starttls);
    BOOST_TEST(h.engine.encrypted());
  }
}

BOOST_AUTO_TEST_CASE(it_is_said_only_where_it_is_wanted_and_offered) {
  for (const bool wanted : {false, true}) {
    for (const bool offered : {false, true}) {
      Harness h(with(wanted ? StartTls::if_offered : StartTls::never));
      fill(h, 2, 1);
      ScriptedPeer peer(offers(offered ? kBits : kBits & ~16));
      h.run(peer);
      check_ledger(h, peer);
      BOOST_TEST(said(peer, "STARTTLS") == (wanted && offered));
      BOOST_TEST(peer.encrypted() == (wanted && offered));
      BOOST_TEST(peer.ledger().size() == 2u);
    }
  }
  Settings s = with(StartTls::required);  // TLS is on already
  s.wrapped = true;
  Harness h(s);
  fill(h, 1, 1);
  ScriptedPeer peer(offers(kBits));
  h.run(peer);
  BOOST_TEST(!said(peer, "STARTTLS"));
  BOOST_TEST(peer.ledger().size() == 1u);
}

BOOST_AUTO_TEST_CASE(where_tls_is_required_an_offer_that_is_missing_ends_the_session) {
  for (const bool ehlo : {true, false}) {
    Harness h(with(StartTls::required));
    fill(h, 2, 1);
    auto o = offers(kBits & ~16);
    o.ehlo = ehlo;
    ScriptedPeer peer(o);
    h.run(peer);
    check_nothing_sent(h, peer, Trouble::tls);
    BOOST_TEST(h.ended->status.text == "TLS is required, but was not offered by host peer.example[192.0.2.1]");
    BOOST_TEST(h.ended->status.dsn == "4.7.4");
  }
}

BOOST_AUTO_TEST_CASE(requiretls_goes_only_to_who_offers_it_in_tls) {
  for (const bool offered : {false, true}) {
    Settings s = with(StartTls::required);
    s.requiretls = true;
    Harness h(s);
    fill(h, 2, 1);
    for (auto& j : h.jobs) j->job.requiretls = mail::RequireTls::yes;
    auto o = offers(kBits);
    o.requiretls = offered;
    o.requiretls_in_clear = true;  // anybody may have inserted it
    ScriptedPeer peer(o);
    h.run(peer);
    if (offered) {
      check_ledger(h, peer);
      BOOST_TEST(peer.ledger().size() == 2u);
      for (const auto& c : peer.commands())
        if (c.starts_with("MAIL")) BOOST_TEST(c.ends_with(" REQUIRETLS"), c);
    } else {
      check_nothing_sent(h, peer, Trouble::tls);
      BOOST_TEST(h.ended->status.dsn == "4.7.30");
      BOOST_TEST(h.ended->status.text == "REQUIRETLS is needed, but host peer.example[192.0.2.1] does not offer it");
    }
  }
}

BOOST_AUTO_TEST_CASE(the_parameter_is_said_for_mail_that_has_it_and_never_in_clear_text) {
  for (const bool tls : {false, true}) {
    Harness h(with(tls ? StartTls::if_offered : StartTls::never));
    fill(h, 3, 1);
    h.jobs[0]->job.requiretls = mail::RequireTls::yes;
    h.jobs[1]->job.requiretls = mail::RequireTls::no;
    auto o = offers(kBits);
    o.requiretls = o.requiretls_in_clear = true;
    ScriptedPeer peer(o);
    h.run(peer);
    check_ledger(h, peer);
    BOOST_TEST(peer.ledger().size() == 3u);
    int with_it = 0;
    for (const auto& c : peer.commands()) with_it += c.ends_with(" REQUIRETLS") ? 1 : 0;
    BOOST_TEST(with_it == (tls ? 1 : 0));
  }
}

BOOST_AUTO_TEST_CASE(requiretls_without_starttls_says_what_is_missing) {
  Settings s = with(StartTls::required);
  s.requiretls = true;
  Harness h(s);
  fill(h, 1, 1);
  ScriptedPeer peer(offers(kBits & ~16));
  h.run(peer);
  check_nothing_sent(h, peer, Trouble::tls);
  BOOST_TEST(h.ended->status.dsn == "4.7.10");
  BOOST_TEST(h.ended->status.text == "REQUIRETLS asks for TLS, which host peer.example[192.0.2.1] does not offer");
}

BOOST_AUTO_TEST_CASE(keywords_that_are_not_to_be_used_hide_the_offer) {
  Settings s = with(StartTls::required);
  s.discard_keywords = {"starttls"};
  Harness h(s);
  fill(h, 1, 1);
  ScriptedPeer peer(offers(kBits));
  h.run(peer);
  check_nothing_sent(h, peer, Trouble::tls);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_taken_as_no_offer) {
  for (const StartTls wanted : {StartTls::if_offered, StartTls::required}) {
    for (const char* refusal : {"454 4.7.0 TLS not available", "502 5.5.1 what"}) {
      Harness h(with(wanted));
      fill(h, 2, 1);
      auto o = offers(kBits);
      o.fault = [&](std::string_view c) -> std::string { return c == "starttls" ? refusal : ""; };
      ScriptedPeer peer(o);
      h.run(peer);
      if (wanted == StartTls::required) {
        check_nothing_sent(h, peer, Trouble::tls);
        BOOST_TEST(h.ended->status.text ==
                   std::string("TLS is required, but host peer.example[192.0.2.1] refused to start "
                               "TLS: ") +
                       refusal);
        BOOST_TEST(h.ended->status.dsn == "4.7.4");
        BOOST_TEST((h.ended->status.action == Action::deferred));
      } else {
        check_ledger(h, peer);
        BOOST_TEST(peer.ledger().size() == 2u);
        BOOST_TEST(!h.engine.encrypted());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_breaks_at_starttls_has_trouble_with_tls_and_no_job_is_touched) {
  for (const char* fault : {"drop", "swallow", "garbage", "354 go on"}) {
    for (const StartTls wanted : {StartTls::if_offered, StartTls::required}) {
      BOOST_TEST_CONTEXT(fault) {
        Harness h(with(wanted));
        fill(h, 2, 1);
        auto o = offers(kBits);
        o.fault = [&](std::string_view c) -> std::string { return c == "starttls" ? fault : ""; };
        if (std::string_view(fault) == "swallow") h.shakes_hands = false;
        ScriptedPeer peer(o);
        h.run(peer);
        check_nothing_sent(h, peer, Trouble::tls);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_421_at_starttls_is_no_trouble_with_tls) {
  Harness h(with(StartTls::if_offered));
  fill(h, 1, 1);
  auto o = offers(kBits);
  o.fault = [](std::string_view c) -> std::string { return c == "starttls" ? "421" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_nothing_sent(h, peer, Trouble::peer_421);
}

BOOST_AUTO_TEST_CASE(clear_text_behind_the_go_ahead_is_never_believed) {
  // RFC 3207 section 5: a reply inserted to answer the EHLO after the handshake.
  for (const StartTls wanted : {StartTls::if_offered, StartTls::required}) {
    Harness h(with(wanted));
    fill(h, 2, 1);
    auto o = offers(kBits);
    o.fault = [](std::string_view c) -> std::string {
      return c == "starttls" ? "220 go ahead\r\n250-evil\r\n250 PIPELINING" : "";
    };
    ScriptedPeer peer(o);
    h.run(peer);
    check_nothing_sent(h, peer, Trouble::tls);
    BOOST_TEST(h.ended->status.text.find("sent clear text after it agreed to start TLS") != std::string::npos);
    int hellos = 0;
    for (const auto& c : peer.commands()) hellos += c.starts_with("EHLO");
    BOOST_TEST(hellos == 1);
  }
}

BOOST_AUTO_TEST_CASE(what_was_offered_before_the_handshake_is_forgotten) {
  Harness h(with(StartTls::if_offered, 16));
  fill(h, 2, 1);
  auto o = offers(16);
  int hellos = 0;
  o.fault = [&](std::string_view c) -> std::string {
    // The peer offers everything in clear text, and nothing under TLS.
    if (c != "ehlo") return {};
    return ++hellos == 1 ? "250-peer\r\n250-PIPELINING\r\n250-CHUNKING\r\n250-SIZE 1\r\n250 STARTTLS" : "250 peer";
  };
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST(peer.ledger().size() == 2u);
  BOOST_TEST(!h.offers.pipelining);
  BOOST_TEST(!said(peer, "BDAT"));
}

BOOST_AUTO_TEST_CASE(a_peer_that_knows_no_ehlo_under_tls_has_offered_nothing) {
  Harness h(with(StartTls::required));
  fill(h, 2, 1);
  auto o = offers(kBits);
  int hellos = 0;
  o.fault = [&](std::string_view c) -> std::string { return c == "ehlo" && ++hellos == 2 ? "502 5.5.1 what" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_ledger(h, peer);
  BOOST_TEST(peer.commands().at(3) == "HELO me.example");
  BOOST_TEST(!h.offers.pipelining);
  BOOST_TEST(!said(peer, "BDAT"));
}

BOOST_AUTO_TEST_CASE(a_connection_lost_between_handshake_and_ehlo_is_trouble_with_tls) {
  Harness h(with(StartTls::if_offered));
  fill(h, 1, 1);
  auto o = offers(kBits);
  int hellos = 0;
  o.fault = [&](std::string_view c) -> std::string { return c == "ehlo" && ++hellos == 2 ? "drop" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  check_nothing_sent(h, peer, Trouble::tls);
}

BOOST_AUTO_TEST_CASE(a_connection_lost_in_tls_before_mail_is_answered_may_do_without_tls) {
  struct Row {
    StartTls wanted;
    const char* command;
    const char* fault;
    Trouble trouble;
  };
  const Row rows[] = {{StartTls::if_offered, "mail", "drop", Trouble::tls},
                      {StartTls::if_offered, "mail", "swallow", Trouble::tls},
                      {StartTls::if_offered, "rcpt", "drop", Trouble::lost},
                      {StartTls::if_offered, "mail", "garbage", Trouble::lost},
                      {StartTls::required, "mail", "drop", Trouble::lost}};
  for (const Row& row : rows) {
    BOOST_TEST_CONTEXT(row.command << " " << row.fault) {
      Harness h(with(row.wanted, 16));
      fill(h, 2, 1);
      auto o = offers(16);
      o.fault = [&](std::string_view c) -> std::string { return c.starts_with(row.command) ? row.fault : ""; };
      ScriptedPeer peer(o);
      h.run(peer);
      BOOST_REQUIRE(h.ended);
      BOOST_TEST(h.ended->opened);
      BOOST_TEST((h.ended->trouble == row.trouble), static_cast<int>(h.ended->trouble));
      // The next connection goes on in clear text: no job is held responsible for this end.
      BOOST_TEST(h.jobs[0]->unstarted == (row.trouble == Trouble::tls));
      BOOST_TEST(h.jobs[0]->done.has_value() == (row.trouble != Trouble::tls));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_idle_connection_that_the_peer_closed_is_no_trouble_with_tls) {
  struct Row {
    seconds idle;
    seconds unanswered;  // after MAIL
    End how;
    Trouble trouble;
  };
  const Row rows[] = {{seconds(1), seconds(0), End::closed, Trouble::tls},
                      {seconds(0), seconds(300), End::timed_out, Trouble::tls},
                      {seconds(2), seconds(0), End::closed, Trouble::lost},
                      {seconds(2), seconds(300), End::timed_out, Trouble::timed_out}};
  for (const Row& row : rows) {
    BOOST_TEST_CONTEXT("idle " << row.idle.count() << " unanswered " << row.unanswered.count()) {
      Harness h(with(StartTls::if_offered, 16));
      fill(h, 1, 1);
      ScriptedPeer peer(offers(16));
      for (int i = 0; i < 20 && !h.engine.ready(); ++i) {
        h.now += seconds(10);  // a slow opening does not matter
        peer.input(h.output());
        h.input(peer.take_output());
      }
      BOOST_REQUIRE(h.engine.ready());
      h.now += row.idle;
      h.submit_some();
      BOOST_TEST(h.output().starts_with("MAIL FROM:"));
      h.now += row.unanswered;
      h.finish(row.how);
      BOOST_REQUIRE(h.ended);
      BOOST_TEST((h.ended->trouble == row.trouble), static_cast<int>(h.ended->trouble));
    }
  }
}

BOOST_AUTO_TEST_CASE(content_that_may_have_arrived_in_tls_is_not_sent_again_at_once) {
  Harness h(with(StartTls::if_offered));  // in one group with its commands
  fill(h, 1, 1);
  auto o = offers(kBits);
  o.fault = [&](std::string_view c) -> std::string { return c == "mail" ? "drop" : ""; };
  ScriptedPeer peer(o);
  h.run(peer);
  BOOST_REQUIRE(h.ended);
  BOOST_TEST((h.ended->trouble == Trouble::tls));
  BOOST_TEST(!h.jobs[0]->unstarted);
  BOOST_REQUIRE(h.jobs[0]->done.has_value());
  BOOST_TEST((h.jobs[0]->done->results[0].action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_handshake_that_fails_gives_the_jobs_back) {
  Harness h(with(StartTls::required));
  h.shakes_hands = false;
  fill(h, 1, 1);
  ScriptedPeer peer(offers(kBits));
  for (int i = 0; i < 5; ++i) {
    h.submit_some();
    peer.input(h.output());
    h.input(peer.take_output());
  }
  BOOST_REQUIRE(h.engine.handshake_due());
  BOOST_TEST(h.output().empty());
  h.engine.tls_failed(mail::make_status(mail::Action::deferred, "4.7.5", "Server certificate not verified"));
  h.finish(End::by_engine);
  check_nothing_sent(h, peer, Trouble::tls);
  BOOST_TEST(h.ended->status.dsn == "4.7.5");
}

BOOST_AUTO_TEST_SUITE_END()
