#include "lib/trust/dkim/arc.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"

using namespace pen;
using namespace pen::dkim;

namespace {

const WallTime kNow{seconds(1700000000)};
using Dns = std::map<std::string, KeyAnswer>;

/// A message on its way through sealers, each with a key of its own. They seal as the RFC says, in plain code.
struct Message {
  std::string header = "From: <a@x.example>\r\nSubject: one\r\n";
  std::string body = "hello\r\n";
  Dns dns;
  std::vector<std::string> sets;  // of the header, the oldest first
  std::string instance = "i=#";   // how the number stands in ARC-Authentication-Results:
  std::string selector = "s";

  static std::string digest(std::string_view text) {
    Sha256 sha;
    sha.update(text);
    return sha.finish();
  }
  static std::string canonical(std::string_view whole) {
    std::string out;
    append_canonical(Form::relaxed, whole, out);
    return out;
  }
  void seal(const std::string& domain, const std::string& saw, const std::string& chain, bool rsa = false) {
    const auto key = PrivateKey::generate(rsa ? Algorithm::rsa_sha256 : Algorithm::ed25519_sha256, 1024);
    const std::string algorithm(algorithm_name(key->algorithm()));
    dns[selector + "._domainkey." + domain] = {
        KeyAnswer::State::found,
        {std::string("v=DKIM1; k=") + (rsa ? "rsa" : "ed25519") + "; p=" + base64_encode(key->public_bytes())}};
    const std::string i = std::to_string(sets.size() + 1);
    std::string results = "ARC-Authentication-Results: " + instance + "; mx." + domain + "; " + saw;
    results.replace(results.find('#'), 1, i);
    const std::string common = "i=" + i + "; a=" + algorithm + "; d=" + domain + "; s=" + selector + "; ";
    std::string message = "ARC-Message-Signature: " + common +
                          "c=relaxed/simple;\r\n\th=From:Subject; bh=" + base64_encode(digest(body)) + "; b=";
    message += base64_encode(
        key->sign(canonical("From: <a@x.example>") + "\r\n" + canonical("Subject: one") + "\r\n" + canonical(message)));
    std::string covered;
    for (const auto& set : sets)
      for (std::string_view rest = set; !rest.empty();) {
        const auto end = rest.find("\r\n", rest.starts_with("ARC-M") ? rest.find("\r\n") + 2 : 0);
        covered += canonical(rest.substr(0, end)) + "\r\n";
        rest.remove_prefix(end + 2);
      }
    std::string seal = "ARC-Seal: " + common + "cv=" + chain + "; b=";
    covered += canonical(results) + "\r\n" + canonical(message) + "\r\n" + canonical(seal);
    seal += base64_encode(key->sign(covered));
    sets.push_back(results + "\r\n" + message + "\r\n" + seal + "\r\n");
  }
  std::string text() const {
    std::string out;
    for (const auto& set : sets) out.insert(0, set);
    return out + header;
  }
  static ArcOutcome check(const std::string& header, std::string_view body, const Dns& dns) {
    ArcChain chain(split_fields(header, 1000), kNow);
    chain.body(body);
    Dns answers;
    for (const auto& name : chain.wanted())
      if (const auto found = dns.find(name); found != dns.end()) answers.insert(*found);
    return chain.result(answers);
  }
  std::string word() const { return std::string(verdict_word(check(text(), body, dns).verdict)); }
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  BOOST_TEST_REQUIRE(at != std::string::npos, what);
  return text.replace(at, what.size(), by);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_arc)

BOOST_AUTO_TEST_CASE(a_whole_chain_passes_and_tells_what_the_last_sealer_saw) {
  Message m;
  BOOST_TEST(m.word() == "none");
  m.seal("one.example", "spf=pass; dmarc=pass header.from=x.example", "none");
  BOOST_TEST(m.word() == "pass");
  m.seal("two.example", "arc=pass; dmarc=fail", "pass", true);
  m.seal("three.example", "arc=pass", "pass");
  const std::string text = m.text();
  const auto outcome = Message::check(text, m.body, m.dns);
  BOOST_TEST(verdict_word(outcome.verdict) == "pass", outcome.reason);
  BOOST_TEST(outcome.sealer == "three.example");
  BOOST_TEST(outcome.seen == " i=3; mx.three.example; arc=pass");
}

BOOST_AUTO_TEST_CASE(a_chain_of_more_than_fifty_sets_is_none) {
  Message m;
  for (std::size_t i = 0; i < ArcChain::kMostSets; ++i)
    m.seal("d" + std::to_string(i) + ".example", "spf=pass", i == 0 ? "none" : "pass");
  BOOST_TEST(m.word() == "pass");
  m.seal("more.example", "spf=pass", "pass");
  BOOST_TEST(m.word() == "fail");
  const ArcChain chain(split_fields(m.text(), 1000), kNow);
  BOOST_TEST(chain.wanted().empty());
}

BOOST_AUTO_TEST_CASE(the_number_of_results_may_have_comments_around_it) {
  for (const auto* form : {"(a; i=9 \\) (b)) i(;)=\t(c)#(d) ", "i = #", " (x)i=# (y)"}) {
    Message m;
    m.instance = form;
    m.seal("one.example", "spf=pass", "none");
    BOOST_TEST(m.word() == "pass", form);
    BOOST_TEST(ArcPlace::of(split_fields(m.text(), 1000)).sets.size() == 1U);
  }
  for (const auto* form : {"(i=#", "(a) # (i=)", "i=(#)", "i=1(a)#)", "j=#", "i=\"#\"", "i=# 1", "i=#(a)1", "I=#"}) {
    Message m;
    m.instance = form;
    m.seal("one.example", "spf=pass", "none");
    BOOST_TEST(m.word() == "fail", form);
  }
}

BOOST_AUTO_TEST_CASE(the_names_of_a_sealer_are_bounded_as_those_of_a_signature) {
  for (const std::string& domain :
       std::initializer_list<std::string>{"-", "a b.example", "x/../y", std::string(300, 'a') + ".example"}) {
    Message m;
    m.seal("one.example", "spf=pass", "none");
    m.sets[0] = replaced(m.sets[0], "ARC-Seal: i=1; a=ed25519-sha256; d=one.example",
                         "ARC-Seal: i=1; a=ed25519-sha256; d=" + domain);
    const auto outcome = Message::check(m.text(), m.body, m.dns);
    BOOST_TEST(outcome.reason == "a seal with a name that cannot be: d=", outcome.reason);
    BOOST_TEST(ArcChain(split_fields(m.text(), 1000), kNow).wanted().empty());
  }
  Message m;
  m.seal("one.example", "spf=pass", "none");
  const std::string good = m.sets[0];
  m.sets[0] = replaced(good, "s=s; cv", "s=s s; cv");
  BOOST_TEST(Message::check(m.text(), m.body, m.dns).reason == "a seal with a name that cannot be: s=");
  m.sets[0] = replaced(good, "s=s; cv", "s=s; z=" + std::string(Signature::kMaxSize, 'a') + "; cv");
  BOOST_TEST(Message::check(m.text(), m.body, m.dns).reason == "a seal is too large");
}

BOOST_AUTO_TEST_CASE(a_long_chain_is_checked) {
  Message m;
  m.seal("one.example", "spf=pass (" + std::string(300000, 'x') + ")", "none");
  for (int i = 0; i < 3; ++i) m.seal("d" + std::to_string(i) + ".example", "arc=pass", "pass", i == 1);
  BOOST_TEST(m.word() == "pass");
  m.sets[0] = replaced(m.sets[0], "xxx", "xyx");
  BOOST_TEST(m.word() == "fail");
}

BOOST_AUTO_TEST_CASE(any_change_breaks_the_chain) {
  Message m;
  m.seal("one.example", "dmarc=fail", "none");
  m.seal("two.example", "arc=pass", "pass");
  const std::string good = m.text();
  BOOST_TEST(verdict_word(Message::check(good, m.body, m.dns).verdict) == "pass");
  const std::string first = m.sets[0], second = m.sets[1];
  const auto drop = [&](const std::string& name) {
    const auto at = good.find(name + ": i=1");
    auto end = good.find("\r\n", at);
    if (good[end + 2] == '\t') end = good.find("\r\n", end + 2);
    return good.substr(0, at) + good.substr(end + 2);
  };
  const std::string changed[] = {
      replaced(good, "dmarc=fail", "dmarc=pass"),
      replaced(good, "Subject: one", "Subject: two"),
      replaced(good, "i=2; mx", "i=3; mx"),
      replaced(good, "cv=pass", "cv=fail"),
      replaced(good, "cv=none", "cv=pass"),
      replaced(good, "c=relaxed/simple;", "c=relaxed/simple; l=3;"),
      drop("ARC-Seal"),
      drop("ARC-Message-Signature"),
      drop("ARC-Authentication-Results"),
      first + good,       // twice
      second + m.header,  // without the first
      "ARC-Seal: nonsense\r\n" + good,
      "ARC-Seal: i=0; a=b\r\n" + good,
      "ARC-Seal: i=99; a=b\r\n" + good,
  };
  for (const auto& text : changed)
    BOOST_TEST(verdict_word(Message::check(text, m.body, m.dns).verdict) == "fail", text);
  BOOST_TEST(verdict_word(Message::check(good, "hallo\r\n", m.dns).verdict) == "fail");
  Dns silent = m.dns;
  silent["s._domainkey.one.example"] = {};
  BOOST_TEST(verdict_word(Message::check(good, m.body, silent).verdict) == "temperror");
  silent["s._domainkey.one.example"] = {KeyAnswer::State::missing, {}};
  BOOST_TEST(verdict_word(Message::check(good, m.body, silent).verdict) == "fail");
  silent["s._domainkey.one.example"] = m.dns["s._domainkey.two.example"];
  BOOST_TEST(verdict_word(Message::check(good, m.body, silent).verdict) == "fail");
}

BOOST_AUTO_TEST_CASE(what_a_sealer_saw_is_read_without_comments_and_texts) {
  for (const auto* value :
       {" i=1; mx.x.example; spf=fail; dmarc=pass", "i=1;mx;DMARC=Pass (p=none) header.from=X.example",
        " i=1; mx 1; spf=fail reason=\"a;b\"; dmarc=pass header.from=x.example"})
    BOOST_TEST(says_dmarc_pass(value, "x.example"), value);
  for (const auto* value : {" i=1; mx; dmarc=fail", " i=1; mx; spf=pass reason=\"; dmarc=pass\"",
                            " i=1; mx; spf=pass (; dmarc=pass)", " i=1; mx; dmarc=pass header.from=y.example",
                            " i=1; dmarc=pass", "", " i=1; mx; x dmarc=pass", " i=1; mx; spf=pass (a \\) ; dmarc=pass"})
    BOOST_TEST(!says_dmarc_pass(value, "x.example"), value);
}

BOOST_AUTO_TEST_SUITE_END()
