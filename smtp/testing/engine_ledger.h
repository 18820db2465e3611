#pragma once
/// For tests of the engine: messages to send, peers by what they offer, and the comparison of results with the peer's
/// ledger.
///
/// Use:     Harness h(settings(bits)); fill(h, 3, 2); ScriptedPeer peer(offers(bits)); h.run(peer);
///          check_ledger(h, peer);
///          bits: 1 PIPELINING, 2 CHUNKING, 4 8BITMIME, 8 LMTP, 16 STARTTLS.
#include <boost/test/unit_test.hpp>

#include <set>
#include <string>
#include <vector>

#include "smtp/testing/engine_harness.h"
#include "smtp/testing/scripted_peer.h"

namespace pen::smtp::testing {

using mail::Action;

inline std::string content(int n) {
  return "Subject: message " + std::to_string(n) + "\r\n\r\n.dot\r\nbody " + std::to_string(n) + "\r\n";
}
inline std::string sender(int n) { return "s" + std::to_string(n) + "@a.example"; }
inline std::string rcpt(int n, int r) { return "r" + std::to_string(n) + "-" + std::to_string(r) + "@b.example"; }
inline void fill(Harness& h, int messages, int recipients) {
  for (int n = 0; n < messages; ++n) {
    std::vector<std::string> to;
    for (int r = 0; r < recipients; ++r) to.push_back(rcpt(n, r));
    h.job(sender(n), to, content(n));
  }
}
inline bool peer_has(const ScriptedPeer& peer, const HarnessJob& j, const std::string& address) {
  for (const auto& taken : peer.ledger()) {
    if (taken.content != j.content) continue;
    for (const auto& r : taken.recipients)
      if (r == address) return true;
  }
  return false;
}
/// Compares results with the peer's ledger: what must hold whatever the peer does, unless it lies.
inline void check_ledger(const Harness& h, const ScriptedPeer& peer, bool exact = true) {
  std::set<std::string> contents;
  for (const auto& taken : peer.ledger()) {
    BOOST_TEST(contents.insert(taken.content).second, "a message was sent twice");
    bool known = false;
    for (const auto& j : h.jobs) {
      if (j->content != taken.content) continue;
      known = true;
      BOOST_TEST(j->job.sender == taken.sender);
      for (const auto& r : taken.recipients) {
        bool own = false;
        for (const auto& jr : j->job.recipients) own = own || jr.recipient.address == r;
        BOOST_TEST(own, "a recipient of another message: " << r);
      }
    }
    BOOST_TEST(known, "the peer took what nobody sent");
  }
  for (std::size_t n = 0; n < h.submitted; ++n) {
    const auto& j = *h.jobs[n];
    BOOST_TEST_CONTEXT("job " << n) {
      BOOST_TEST(j.outcomes == 1);
      if (j.unstarted) {
        for (const auto& r : j.job.recipients) BOOST_TEST(!peer_has(peer, j, r.recipient.address));
        continue;
      }
      BOOST_REQUIRE(j.done);
      BOOST_REQUIRE(j.done->results.size() == j.job.recipients.size());
      for (std::size_t r = 0; r < j.done->results.size(); ++r) {
        const auto& status = j.done->results[r];
        const bool has = peer_has(peer, j, j.job.recipients[r].recipient.address);
        const bool good = status.action != Action::deferred && status.action != Action::failed;
        BOOST_TEST_CONTEXT(status.text) {
          BOOST_TEST(!status.text.empty());
          BOOST_TEST(status.dsn.size() >= 5);
          BOOST_TEST(status.dsn[0] == (good ? '2' : status.action == Action::failed ? '5' : '4'));
          if (mail::is_probe(j.job.purpose))
            BOOST_TEST(!has, "a probe was delivered");
          else if (good)
            BOOST_TEST(has, "credited, but the peer never took it");
          if (exact && status.action == Action::failed) BOOST_TEST(!has, "bounced, but the peer took it");
          if (exact && status.action == Action::deferred && has)
            BOOST_TEST(status.text.find("more than once") != std::string::npos);
        }
      }
    }
  }
}
inline std::string mode(int bits) {
  return std::string(bits & 1 ? "PIPELINING " : "") + (bits & 2 ? "CHUNKING " : "") + (bits & 4 ? "8BITMIME " : "") +
         (bits & 8 ? "LMTP " : "") + (bits & 16 ? "STARTTLS" : "");
}
inline PeerOptions offers(int bits) {
  PeerOptions o;
  o.pipelining = bits & 1;
  o.chunking = bits & 2;
  o.eight_bit_mime = bits & 4;
  o.lmtp = bits & 8;
  o.starttls = bits & 16;
  return o;
}
inline Settings settings(int bits) {
  Settings s;
  s.lmtp = bits & 8;
  s.helo_name = "me.example";
  if (bits & 16) s.starttls = StartTls::required;
  return s;
}

}  // namespace pen::smtp::testing
