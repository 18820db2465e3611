/// Connections cut after every byte, replies split into bytes, and windows that fit the path.
#include <boost/test/unit_test.hpp>

#include "smtp/engine.h"
#include "smtp/testing/engine_ledger.h"

using namespace pen;
using namespace pen::smtp;
using namespace pen::smtp::testing;

namespace {
/// Runs until the peer's replies, or its input, are cut after so many bytes; then the connection is lost. Returns the
/// replies that arrived.
std::string run_cut(Harness& h, ScriptedPeer& peer, std::size_t replies, std::size_t commands) {
  std::string said;
  std::size_t read = 0;
  bool cut = false;
  for (int idle = 0; idle < 3 && !cut && !h.engine.ended();) {
    h.submit_some();
    if (h.submitted == h.jobs.size()) h.engine.request_close();
    std::string to_peer = h.output();
    cut = read + to_peer.size() > commands;
    to_peer.resize(std::min(to_peer.size(), commands - read));
    read += to_peer.size();
    peer.input(to_peer);  // the peer executes what it has read, even if nobody reads the replies
    std::string to_engine = peer.take_output();
    cut = cut || said.size() + to_engine.size() > replies;
    to_engine.resize(std::min(to_engine.size(), replies - said.size()));
    said += to_engine;
    h.input(to_engine);
    h.collect();
    idle = to_peer.empty() && to_engine.empty() ? idle + 1 : 0;
  }
  // The peer still reads what was on its way.
  std::string rest = h.output();
  rest.resize(std::min(rest.size(), commands - read));
  peer.input(rest);
  h.finish(h.engine.ended() ? End::by_engine : End::closed);
  return said;
}
/// Exactly the recipients with a good final reply are done.
void check_final_replies(const Harness& h, const std::string& said, bool lmtp) {
  std::size_t replied = 0, good = 0;
  for (auto at = said.find(lmtp ? "stored\r\n" : "queued\r\n"); at != std::string::npos;
       at = said.find(lmtp ? "stored\r\n" : "queued\r\n", at + 1))
    replied += lmtp ? 1 : 2;  // two recipients a message
  for (const auto& j : h.jobs) {
    if (!j->done) continue;
    for (const auto& r : j->done->results)
      if (r.action != Action::deferred && r.action != Action::failed) ++good;
  }
  BOOST_TEST(good == replied);
}
std::size_t all_commands(int bits) {
  Harness h(settings(bits));
  fill(h, 3, 2);
  ScriptedPeer peer(offers(bits));
  std::size_t size = 0;
  for (int turn = 0; turn < 100 && !h.engine.ended(); ++turn) {
    h.submit_some();
    if (h.submitted == h.jobs.size()) h.engine.request_close();
    const std::string out = h.output();
    size += out.size();
    peer.input(out);
    h.input(peer.take_output());
    h.collect();
  }
  BOOST_REQUIRE(h.engine.ended());
  h.finish(End::by_engine);
  return size;
}
/// 8BITMIME changes no order, and STARTTLS comes before everything that the others change.
bool worth_cutting(int bits) {
  if ((bits & 4) != 0) return false;
  return (bits & 16) == 0 || (bits & 3) == 0 || (bits & 3) == 3;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_engine_cut)

BOOST_AUTO_TEST_CASE(a_connection_lost_after_any_byte_of_the_replies_leaves_every_message_its_fate) {
  for (int bits = 0; bits < 32; ++bits) {
    if (!worth_cutting(bits)) continue;
    Harness whole(settings(bits));
    fill(whole, 3, 2);
    ScriptedPeer all(offers(bits));
    const std::size_t size = run_cut(whole, all, SIZE_MAX, SIZE_MAX).size();
    BOOST_REQUIRE(size > 100);
    for (std::size_t at = 0; at < size; ++at) {
      BOOST_TEST_CONTEXT(mode(bits) << " after " << at << " of " << size) {
        Harness h(settings(bits));
        fill(h, 3, 2);
        ScriptedPeer peer(offers(bits));
        check_final_replies(h, run_cut(h, peer, at, SIZE_MAX), (bits & 8) != 0);
        check_ledger(h, peer);
        BOOST_REQUIRE(h.ended);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_connection_lost_after_any_byte_that_the_peer_read_leaves_every_message_its_fate) {
  for (int bits = 0; bits < 32; ++bits) {
    if (!worth_cutting(bits)) continue;
    const std::size_t size = all_commands(bits);
    BOOST_REQUIRE(size > 200);
    for (std::size_t at = 0; at < size; ++at) {
      BOOST_TEST_CONTEXT(mode(bits) << " after " << at << " of " << size) {
        Harness h(settings(bits));
        fill(h, 3, 2);
        ScriptedPeer peer(offers(bits));
        check_final_replies(h, run_cut(h, peer, SIZE_MAX, at), (bits & 8) != 0);
        check_ledger(h, peer);
        BOOST_REQUIRE(h.ended);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_good_end_is_told_of_though_the_peer_hangs_at_any_command_of_the_next_group) {
  for (const int bits : {1, 9}) {
    for (const std::string_view stage : {"mail", "rcpt", "data"}) {
      BOOST_TEST_CONTEXT(mode(bits) << " " << stage) {
        Harness h(settings(bits));
        fill(h, 3, 2);
        PeerOptions o = offers(bits);
        bool hangs = false;
        int taken = 0;
        o.fault = [&](std::string_view command) -> std::string {
          if (command.starts_with("dot")) ++taken;
          hangs = hangs || (taken > 0 && command.starts_with(stage));
          return hangs ? "swallow" : "";
        };
        ScriptedPeer peer(o);
        for (int i = 0; i < 8; ++i) {
          h.submit_some();
          peer.input(h.output());
          h.input(peer.take_output());
          h.collect();
        }
        BOOST_TEST(h.order.empty());  // a swallowed reply is possible
        h.wait(Engine::kProofTime - milliseconds(1));
        BOOST_TEST(h.order.empty());
        BOOST_REQUIRE(h.engine.proof_due());
        BOOST_TEST((*h.engine.proof_due() == h.now + milliseconds(1)));
        h.wait(milliseconds(1));
        BOOST_REQUIRE(h.order.size() == 1u);
        BOOST_TEST((h.jobs[0]->done->results[0].action != Action::deferred));
        BOOST_TEST(!h.engine.proof_due());
        h.finish(End::timed_out);
        BOOST_TEST(h.jobs[0]->outcomes == 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(windows_grow_with_the_round_trip_and_shrink_when_it_proves_shorter) {
  const auto opened = [](milliseconds handshake, milliseconds mail_reply, milliseconds ehlo_reply = milliseconds(0)) {
    Harness h(settings(3));
    h.engine.set_round_trip(handshake);
    fill(h, 1000, 1);
    ScriptedPeer peer(offers(3));
    // Greeting and EHLO, then a first window that stays unanswered.
    h.input(peer.take_output());
    peer.input(h.output());
    h.now += ehlo_reply;
    h.input(peer.take_output());
    h.collect();
    BOOST_REQUIRE(h.engine.ready());
    const std::uint32_t at_first = h.engine.window();
    h.submit_some();
    peer.input(h.output());
    h.now += mail_reply;
    h.input(peer.take_output());
    h.collect();
    h.finish(End::closed);
    return std::pair(at_first, h.engine.window());
  };
  using Windows = std::pair<std::uint32_t, std::uint32_t>;
  BOOST_TEST((opened(milliseconds(0), milliseconds(0)) == Windows(32, 32)));
  BOOST_TEST((opened(milliseconds(20), milliseconds(20)) == Windows(32, 32)));
  BOOST_TEST((opened(milliseconds(100), milliseconds(120)) == Windows(160, 160)));
  BOOST_TEST((opened(milliseconds(100), milliseconds(50)) == Windows(160, 80)));
  BOOST_TEST((opened(seconds(3), milliseconds(10)) == Windows(256, 32)));
  // A nearby proxy shook hands.
  BOOST_TEST((opened(milliseconds(1), milliseconds(100), milliseconds(100)) == Windows(160, 160)));
  BOOST_TEST((opened(milliseconds(1), milliseconds(5), seconds(5)) == Windows(256, 32)));
}

BOOST_AUTO_TEST_CASE(bytes_on_the_wire_are_bounded_in_proportion_to_the_round_trip) {
  for (const int trips : {1, 4}) {
    Settings s = settings(3);
    s.window_bytes = 1000;
    Harness h(s);
    h.engine.set_round_trip(milliseconds(20 * trips));
    for (int n = 0; n < 100; ++n) h.job(sender(n), {rcpt(n, 0)}, std::string(298, 'x') + "\r\n");
    ScriptedPeer peer(offers(3));
    h.input(peer.take_output());
    peer.input(h.output());
    h.input(peer.take_output());
    h.collect();
    h.submit_some();
    const std::string out = h.output();
    std::size_t sent = 0;
    for (auto at = out.find("BDAT"); at != std::string::npos; at = out.find("BDAT", at + 1)) ++sent;
    BOOST_TEST(sent == static_cast<std::size_t>(1000 * trips / 300));
    h.finish(End::closed);
  }
}

BOOST_AUTO_TEST_CASE(replies_split_into_bytes_mean_the_same) {
  for (int bits = 0; bits < 16; ++bits) {
    std::vector<std::string> texts[2];
    for (const bool split : {false, true}) {
      Harness h(settings(bits));
      fill(h, 4, 3);
      auto o = offers(bits);
      int seen = 0;
      o.fault = [&](std::string_view c) -> std::string {
        return c.starts_with("rcpt") && ++seen % 3 == 0 ? "550-5.1.1 no\r\n550 5.1.1 body" : "";
      };
      ScriptedPeer peer(o);
      for (int turn = 0; turn < 200 && !h.engine.ended(); ++turn) {
        h.submit_some();
        if (h.submitted == h.jobs.size()) h.engine.request_close();
        peer.input(h.output());
        const std::string said = peer.take_output();
        for (std::size_t i = 0; i < said.size(); i += split ? 1 : said.size()) {
          h.input(std::string_view(said).substr(i, split ? 1 : said.size()));
          if (split) peer.input(h.output());
        }
        h.collect();
      }
      BOOST_REQUIRE(h.engine.ended());
      h.finish(End::by_engine);
      check_ledger(h, peer);
      for (const auto& j : h.jobs)
        for (const auto& r : j->done->results) texts[split ? 1 : 0].push_back(r.text);
    }
    BOOST_TEST(texts[0] == texts[1], boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
