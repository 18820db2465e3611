#include "lib/trust/signing/signing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/base64.h"
#include "lib/config/config.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/trust/dkim/verify.h"
#include "lib/trust/signing/message_signature.h"
#include "lib/trust/signing/unsigned.h"

using namespace pen;
using namespace pen::signing;

namespace {

const WallTime kNow = WallTime(seconds(1700000000));

struct Rig {
  testing::ScratchDir dir;
  testing::ManualClock clock;
  std::shared_ptr<const dkim::PrivateKey> key = dkim::PrivateKey::generate(dkim::Algorithm::ed25519_sha256);
  std::string key_file = write_key("a.private", 0600);

  std::string write_key(std::string_view name, mode_t mode, std::string_view text = {}) const {
    const std::string path = dir.write(name, text.empty() ? key->pem() : std::string(text));
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
  }
  static config::Settings settings(const std::string& main_cf) {
    config::Surroundings here;
    here.hostname = "mx.example.org";
    return config::Config::parse(
               {.directory = "/", .main_cf = "dkim_signing = yes\n" + main_cf, .master_cf = {}, .overrides = {}}, here)
        .settings();
  }
  Result<std::shared_ptr<const Signing>> open(const std::string& main_cf) const {
    return Signing::open(settings(main_cf), clock);
  }
  /// With these tables.
  std::shared_ptr<const Signing> with(std::string_view keys, std::string_view senders,
                                      const char* kind = "refile:", const std::string& more = {}) const {
    dir.write("keys", keys);
    dir.write("senders", senders);
    auto signing = open("dkim_key_table = " + dir.file("keys") + "\ndkim_signing_table = " + kind +
                        dir.file("senders") + "\n" + more);
    BOOST_REQUIRE_MESSAGE(signing.has_value(), (signing ? "" : signing.error().message()));
    return *signing;
  }
  std::string good_key() const { return "k example.org:s:" + key_file + "\n"; }
};

/// "domain/selector/identity …", or "!error".
std::string keys_of(const Signing& signing, std::string_view from) {
  const auto keys = signing.keys_for(from);
  if (!keys) return "!" + keys.error().message();
  std::string out;
  for (const auto& k : *keys) out += k.domain + "/" + k.selector + "/" + k.identity + " ";
  return out;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(signing)

BOOST_AUTO_TEST_CASE(the_tables_of_opendkim_say_who_signs) {
  const Rig rig;
  const auto s = rig.with(rig.good_key() + "other %:t:" + rig.key_file + "\n",
                          "*@example.org k:%\nnews@example.net other:news@example.net,k\n");
  BOOST_TEST(keys_of(*s, "jo@Example.org") == "example.org/s/ ");
  BOOST_TEST(keys_of(*s, "news@example.net") == "example.net/t/news@example.net example.org/s/ ");
  BOOST_TEST(keys_of(*s, "jo@elsewhere.example").empty());
  BOOST_TEST(keys_of(*s, "postmaster").empty());
}

BOOST_AUTO_TEST_CASE(our_own_tables_do_as_well) {
  const Rig rig;
  const auto s = rig.open("dkim_key_table = inline:{ { k = example.org:s:" + rig.key_file +
                          " } }\ndkim_signing_table = inline:{ { .example.org = k } }\n");
  BOOST_REQUIRE(s.has_value());
  BOOST_TEST(keys_of(**s, "jo@sub.example.org") == "example.org/s/ ");
  BOOST_TEST(keys_of(**s, "jo@example.org").empty());
}

BOOST_AUTO_TEST_CASE(a_key_that_cannot_be_used_is_an_error_with_advice) {
  const Rig rig;
  const auto says = [&](const std::string& keys, std::string_view part) {
    const std::string text = keys_of(*rig.with(keys, "*@example.org k\n"), "jo@example.org");
    BOOST_TEST(text.starts_with('!'));
    BOOST_TEST(contains(text, part), text);
  };
  says("k example.org:s:/nowhere/key\n", "No such file");
  says("k example.org:s:/nowhere/key\n", "mail_owner");
  says("k example.org:s:" + rig.write_key("loose", 0644) + "\n", "chmod 600");
  says("k example.org:s:" + rig.write_key("group", 0660) + "\n", "chmod 600");
  says("k example.org:s:" + rig.write_key("text", 0600, "no key\n") + "\n", "not a usable key");
  says("k example.org:s:" +
           rig.write_key("weak", 0600, dkim::PrivateKey::generate(dkim::Algorithm::rsa_sha256, 768)->pem()) + "\n",
       "fewer than 1024 bits");
  says("k example.org\n", "keys:1");
  says("another example.org:s:" + rig.key_file + "\n", "senders:1: k");
  BOOST_TEST(
      contains(keys_of(*rig.with("k example.org:s:" + rig.write_key("read", 0640) + "\n", "*@* k\n"), "a@b.example"),
               "example.org/s"));
  const auto s = rig.open("dkim_key_table = /nowhere/keys\ndkim_signing_table = /nowhere/senders\n");
  BOOST_REQUIRE(s.has_value());
  BOOST_TEST(keys_of(**s, "jo@example.org").starts_with("!"));
  BOOST_TEST(!(*s)->warnings().empty());
}

BOOST_AUTO_TEST_CASE(keys_and_tables_are_read_again_when_they_change) {
  Rig rig;
  const auto s = rig.with(rig.good_key(), "*@example.org k\n");
  const auto first = s->keys_for("jo@example.org");
  BOOST_REQUIRE(first.has_value());
  rig.key = dkim::PrivateKey::generate(dkim::Algorithm::rsa_sha256, 1024);
  rig.write_key("a.private", 0600);
  rig.dir.write("senders", "*@example.net k\n");
  rig.clock.advance(seconds(2));
  BOOST_TEST(keys_of(*s, "jo@example.org").empty());
  const auto second = s->keys_for("jo@example.net");
  BOOST_REQUIRE(second.has_value());
  BOOST_TEST((second->front().key->algorithm() == dkim::Algorithm::rsa_sha256));
}

BOOST_AUTO_TEST_CASE(settings_that_cannot_be_used_are_told) {
  const Rig rig;
  BOOST_TEST(!rig.open(""));
  const std::string tables = "dkim_key_table = /k\ndkim_signing_table = /s\n";
  BOOST_TEST(rig.open(tables).has_value());
  BOOST_TEST(!rig.open(tables + "dkim_canonicalization = nofws\n"));
  // Tables that fail for now, as everywhere.
  const auto served = rig.open("dkim_key_table = tcp:127.0.0.1:1\ndkim_signing_table = inline:{ a.example = k }\n");
  BOOST_REQUIRE(served.has_value());
  BOOST_TEST(keys_of(**served, "jo@a.example").starts_with("!"));
  BOOST_TEST((*served)->warnings().size() == 1U);
  const auto unknown = rig.open("dkim_key_table = words\ndkim_signing_table = nosuchtype:x\n");
  BOOST_REQUIRE(unknown.has_value());
  BOOST_TEST(keys_of(**unknown, "jo@a.example").starts_with("!"));
  const auto faulty = rig.open(tables + "dkim_trusted_hosts = 192.0.2.1/24\n");
  BOOST_REQUIRE(faulty.has_value());
  const auto warnings = (*faulty)->warnings();
  BOOST_REQUIRE(!warnings.empty());
  BOOST_TEST(warnings.front().contains("write 192.0.2.0/24"), warnings.front());
  const auto off = Signing::open(Rig::settings("dkim_signing = no\n"));
  BOOST_REQUIRE(off.has_value());
  BOOST_TEST(*off == nullptr);
}

BOOST_AUTO_TEST_CASE(the_form_is_that_of_the_settings) {
  const Rig rig;
  const auto s = rig.with(rig.good_key(), "* k\n", "",
                          "dkim_canonicalization = simple/relaxed\ndkim_sign_headers = From, X-One\n"
                          "dkim_oversign_headers = X-Two\ndkim_signature_ttl = 2h\n");
  BOOST_TEST(s->form().canonicalization.text() == "simple/relaxed");
  BOOST_TEST((s->form().fields == std::vector<std::string>{"From", "X-One"}));
  BOOST_TEST((s->form().oversigned == std::vector<std::string>{"X-Two"}));
  BOOST_TEST((s->form().lifetime == seconds(7200)));
}

BOOST_AUTO_TEST_CASE(trusted_hosts_are_mynetworks_by_default) {
  const Rig rig;
  const std::string networks = "mynetworks = 192.0.2.0/24, [2001:db8::]/32\n";
  const auto usual = rig.with(rig.good_key(), "* k\n", "", networks);
  BOOST_TEST(*usual->trusts("unknown", "192.0.2.9"));
  BOOST_TEST(*usual->trusts("unknown", "2001:db8::9"));
  BOOST_TEST(!*usual->trusts("host.example.org", "198.51.100.1"));
  const auto own = rig.with(rig.good_key(), "* k\n", "", networks + "dkim_trusted_hosts = .example.org\n");
  BOOST_TEST(!*own->trusts("unknown", "192.0.2.9"));
  BOOST_TEST(*own->trusts("host.example.org", "198.51.100.1"));
}

BOOST_AUTO_TEST_CASE(an_opendkim_conf_is_used_unchanged) {
  const Rig rig;
  rig.dir.write("hosts", "127.0.0.1\n::1\nlocalhost\n2001:db8::/32\n192.0.2.0/24 # the office\n");
  rig.dir.write("keys", rig.good_key());
  rig.dir.write("senders", "*@example.org k\n");
  const auto conf = [&](const std::string& text) {
    return rig.open("dkim_opendkim_conf = " + rig.dir.write("opendkim.conf", text) + "\n");
  };
  const auto s =
      conf("Mode sv\nKeyTable " + rig.dir.file("keys") + "\nSigningTable refile:" + rig.dir.file("senders") +
           "\nInternalHosts " + rig.dir.file("hosts") + "\nCanonicalization relaxed/simple\nStatistics /x\n");
  BOOST_REQUIRE_MESSAGE(s.has_value(), (s ? "" : s.error().message()));
  BOOST_TEST(keys_of(**s, "jo@example.org") == "example.org/s/ ");
  BOOST_TEST(*(*s)->trusts("unknown", "::1"));
  BOOST_TEST(*(*s)->trusts("unknown", "2001:db8::7"));
  BOOST_TEST(*(*s)->trusts("unknown", "192.0.2.7"));
  BOOST_TEST(!*(*s)->trusts("unknown", "192.0.3.7"));
  BOOST_TEST((*s)->form().canonicalization.text() == "relaxed/simple");
  BOOST_REQUIRE((*s)->warnings().size() == 1U);
  BOOST_TEST(contains((*s)->warnings()[0], "Statistics has no effect"));
  const auto one = conf("Domain example.org\nSubDomains yes\nSelector s\nKeyFile " + rig.key_file + "\n");
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(keys_of(**one, "jo@sub.example.org") == "example.org/s/ ");
  BOOST_TEST(keys_of(**one, "jo@badexample.org").empty());
  BOOST_TEST(*(*one)->trusts("localhost", "127.0.0.1"));
  const auto verifier = conf("Mode v\n");
  BOOST_REQUIRE(verifier.has_value());
  BOOST_TEST(*verifier == nullptr);
  BOOST_TEST(!conf("Domain example.org\n"));
  BOOST_TEST(!rig.open("dkim_opendkim_conf = /nowhere/opendkim.conf\n"));
}

BOOST_AUTO_TEST_CASE(an_opendkim_conf_alone_signs) {
  const Rig rig;
  const std::string conf =
      rig.dir.write("opendkim.conf", "Domain example.org\nSelector s\nKeyFile " + rig.key_file + "\n");
  const auto settings = [](const std::string& main_cf) {
    config::Surroundings here;
    return config::Config::parse({.directory = "/", .main_cf = main_cf, .master_cf = {}, .overrides = {}}, here)
        .settings();
  };
  const auto alone = Signing::open(settings("dkim_opendkim_conf = " + conf + "\n"), rig.clock);
  BOOST_REQUIRE_MESSAGE(alone.has_value(), (alone ? "" : alone.error().message()));
  BOOST_REQUIRE(*alone != nullptr);
  BOOST_TEST(keys_of(**alone, "jo@example.org") == "example.org/s/ ");
  BOOST_TEST((*Signing::open(settings("dkim_signing = no\ndkim_opendkim_conf = " + conf + "\n")) == nullptr));
  BOOST_TEST((*Signing::open(settings("")) == nullptr));
}

BOOST_AUTO_TEST_CASE(domains_hosts_and_fields_are_those_of_opendkim) {
  const Rig rig;
  const auto conf = [&](const std::string& more) {
    auto s = rig.open("dkim_opendkim_conf = " +
                      rig.dir.write("opendkim.conf", "Selector s\nKeyFile " + rig.key_file + "\n" + more) + "\n");
    BOOST_REQUIRE_MESSAGE(s.has_value(), more << (s ? "" : s.error().message()));
    return *s;
  };
  rig.dir.write("domains", "*.example.org\n");
  BOOST_TEST(keys_of(*conf("Domain *\n"), "jo@Any.Example") == "any.example/s/ ");
  BOOST_TEST(keys_of(*conf("Domain a.example, *\n"), "jo@b.example") == "b.example/s/ ");
  BOOST_TEST(keys_of(*conf("Domain *.example.org\n"), "jo@sub.example.org").empty());
  BOOST_TEST(keys_of(*conf("Domain refile:" + rig.dir.file("domains") + "\n"), "jo@sub.example.org") ==
             "sub.example.org/s/ ");
  BOOST_TEST(keys_of(*conf("Domain EXAMPLE.org\nSubDomains yes\n"), "jo@sub.example.org") == "example.org/s/ ");
  // What matches nobody there matches nobody here, and is reported.
  rig.dir.write("hosts", "192.168.0.1/24\n*.example.com\n!192.168.1.0/24\n192.168.1.1\n");
  const auto s = conf("Domain example.org\nInternalHosts refile:" + rig.dir.file("hosts") + "\n");
  BOOST_TEST(!*s->trusts("unknown", "192.168.0.7"));
  BOOST_TEST(!*s->trusts("mail.example.com", "192.0.2.1"));
  BOOST_TEST(*s->trusts("unknown", "192.168.1.1"));
  const auto warnings = s->warnings();
  BOOST_REQUIRE(warnings.size() == 2U);
  BOOST_TEST(contains(warnings[0], "the network is 192.168.0.0/24"));
  BOOST_TEST(contains(warnings[1], "\"*.example.com\" matches no client"));
  // Fields.
  const auto fields = [&](const std::string& more) { return join(conf("Domain example.org\n" + more)->form().fields); };
  BOOST_TEST(fields("SignHeaders X-Foo,Keywords\n") == "From X-Foo");
  BOOST_TEST(fields("SignHeaders From,X-Foo\nOmitHeaders *,-Keywords,+X-Foo\n") == "From");
  BOOST_TEST(contains(fields("SignHeaders *,+X-Foo,-Subject\n"), "X-Foo"));
  BOOST_TEST(!contains(fields("SignHeaders *,+X-Foo,-Subject\n"), "Subject"));
  BOOST_TEST(!contains(fields("OmitHeaders Message-ID\n"), " Message-ID "));
}

BOOST_AUTO_TEST_CASE(the_author_is_who_the_sender_headers_name) {
  const Rig rig;
  const auto s = rig.open("dkim_opendkim_conf = " +
                          rig.dir.write("opendkim.conf",
                                        "Domain example.org\nSelector s\nSenderHeaders Sender,From\n"
                                        "KeyFile " +
                                            rig.key_file + "\n") +
                          "\n");
  BOOST_REQUIRE(s.has_value());
  const auto signs = [&](const std::string& header) {
    MessageSignature signature(*s, kNow);
    return signature.decide(header);
  };
  BOOST_TEST(signs("From: a@else.example\r\nSender: b@example.org\r\n\r\n"));
  BOOST_TEST(!signs("From: a@example.org\r\nSender: b@else.example\r\n\r\n"));
  BOOST_TEST(signs("From: a@example.org\r\n\r\n"));
}

BOOST_AUTO_TEST_CASE(why_mail_is_not_signed_is_told_once_a_day_for_each_cause) {
  Rig rig;
  rig.dir.write("ignored", "192.0.2.9\n");
  const auto s =
      rig.open("dkim_opendkim_conf = " +
               rig.dir.write("opendkim.conf", "Domain example.org\nSelector s\nExternalIgnoreList " +
                                                  rig.dir.file("ignored") + "\nKeyFile " + rig.key_file + "\n") +
               "\n");
  BOOST_REQUIRE_MESSAGE(s.has_value(), (s ? "" : s.error().message()));
  UnsignedMail mail;
  const auto why = [&](const std::string& author, bool trusted, std::string_view address) {
    return mail
        .why(**s, {.author = author, .trusted = trusted, .client_name = "c.example", .client_address = address},
             rig.clock.now())
        .value_or("");
  };
  BOOST_TEST(contains(why("jo@else.example", true, "127.0.0.1"), "mail of else.example is not signed"));
  BOOST_TEST(why("al@else.example", true, "127.0.0.1").empty());
  BOOST_TEST(contains(why("jo@example.org", false, "192.0.2.1"), "external host c.example[192.0.2.1] sends mail as"));
  BOOST_TEST(why("jo@example.org", false, "192.0.2.1").empty());
  BOOST_TEST(!why("jo@example.org", false, "192.0.2.2").empty());
  BOOST_TEST(why("jo@example.org", false, "192.0.2.9").empty());
  BOOST_TEST(why("jo@else.example", false, "192.0.2.1").empty());
  rig.clock.advance(std::chrono::hours(25));
  BOOST_TEST(!why("jo@example.org", false, "192.0.2.1").empty());
}

BOOST_AUTO_TEST_CASE(strangers_mail_asks_for_no_key_and_hides_nothing_of_trusted_clients) {
  Rig rig;
  rig.dir.write("keys", "k example.org:s1:gone.private\n");
  rig.dir.write("senders", "*@example.org k\n");
  const auto s = rig.open("dkim_key_table = file:" + rig.dir.file("keys") + "\ndkim_signing_table = refile:" +
                          rig.dir.file("senders") + "\ndkim_trusted_hosts = 127.0.0.1\n");
  BOOST_REQUIRE_MESSAGE(s.has_value(), (s ? "" : s.error().message()));
  BOOST_TEST(!(*s)->keys_for("jo@example.org").has_value());
  UnsignedMail mail;
  const auto why = [&](const std::string& author, bool trusted, const std::string& address) {
    return mail
        .why(**s, {.author = author, .trusted = trusted, .client_name = "c.example", .client_address = address},
             rig.clock.now())
        .value_or("");
  };
  std::size_t told = 0;
  const auto strangers = [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from) {
      const std::string line = why("jo@example.org", false, fmt::format("192.0.{}.{}", from / 256, from % 256));
      told += line.empty() ? 0U : 1U;
      BOOST_TEST(contains(line, "others are not told") == (told == UnsignedMail::kMost && !line.empty()));
    }
  };
  strangers(0, 1);
  rig.clock.advance(std::chrono::hours(1));
  strangers(1, UnsignedMail::kMost + 5);
  BOOST_TEST(told == UnsignedMail::kMost);
  BOOST_TEST(!why("jo@else.example", true, "127.0.0.1").empty());
  rig.clock.advance(std::chrono::hours(23));
  BOOST_TEST(!why("jo@example.org", false, "192.0.200.1").empty());  // the first is forgotten
  BOOST_TEST(why("jo@example.org", false, "192.0.200.2").empty());
}

BOOST_AUTO_TEST_CASE(all_matches_sign_with_multiple_signatures_and_not_too_many) {
  const Rig rig;
  rig.dir.write("keys", rig.good_key());
  const auto count = [&](int lines) {
    std::string senders;
    for (int i = 0; i < lines; ++i) senders += "*@example.org k\n";
    rig.dir.write("senders", senders);
    const auto s =
        rig.open("dkim_opendkim_conf = " +
                 rig.dir.write("opendkim.conf", "MultipleSignatures yes\nKeyTable " + rig.dir.file("keys") +
                                                    "\nSigningTable refile:" + rig.dir.file("senders") + "\n") +
                 "\n");
    BOOST_REQUIRE(s.has_value());
    const auto keys = (*s)->keys_for("jo@example.org");
    return keys ? static_cast<int>(keys->size()) : -1;
  };
  BOOST_TEST(count(3) == 3);
  BOOST_TEST(count(8) == 8);
  BOOST_TEST(count(9) == -1);
}

BOOST_AUTO_TEST_CASE(a_message_is_signed_by_its_from_field) {
  const Rig rig;
  const auto s = rig.with(rig.good_key(), "*@example.org k\n");
  const std::string header =
      "Received: x\r\nFrom: \"Jo, the one\" <jo@example.org>, b@else.example\r\nTo: a@b.example\r\n";
  MessageSignature signature(s, kNow);
  const std::size_t room = signature.begin(header + "\r\nHel");
  signature.more("lo\r\n");
  const auto fields = signature.finish();
  BOOST_REQUIRE(fields.has_value());
  BOOST_TEST(fields->size() == room);
  dkim::Verifier verifier(kNow);
  const std::string signed_header = *fields + header;
  verifier.header(signed_header);
  verifier.body("Hello\r\n");
  const std::string record = "k=ed25519; p=" + base64_encode(rig.key->public_bytes());
  const auto outcomes = verifier.results({{"s._domainkey.example.org", {dkim::KeyAnswer::State::found, {record}}}});
  BOOST_REQUIRE(outcomes.size() == 1U);
  BOOST_TEST((outcomes[0].verdict == dkim::Verdict::pass), outcomes[0].reason);
  for (const char* other : {"From: jo@else.example\r\n\r\n", "To: jo@example.org\r\n\r\n", "\r\n", ""}) {
    MessageSignature none(s, kNow);
    BOOST_TEST(none.begin(other) == 0U);
    BOOST_TEST(!none.wanted());
  }
  MessageSignature cut(s, kNow);
  BOOST_TEST(cut.begin(header, false) == 0U);
  BOOST_TEST(!cut.finish());
  MessageSignature before_author(s, kNow);
  BOOST_TEST(before_author.begin("X-Long: y\r\n", false) == 0U);
  BOOST_TEST(!before_author.finish());
  MessageSignature other(s, kNow);
  BOOST_TEST(other.begin("From: jo@else.example\r\n", false) == 0U);
  BOOST_TEST(!other.wanted());
}

BOOST_AUTO_TEST_SUITE_END()
