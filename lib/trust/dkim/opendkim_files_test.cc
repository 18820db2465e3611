#include "lib/trust/dkim/opendkim_files.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace pen;
using namespace pen::dkim;

namespace {

std::string key_for(const SigningTable& table, std::string_view address) {
  const auto hits = table.find(address, false);
  return hits.empty() ? "" : hits.front()->value;
}

SigningTable table(std::string_view text, bool patterns) { return SigningTable::of(parse_data_set(text), patterns); }

}  // namespace

BOOST_AUTO_TEST_SUITE(dkim_opendkim_files)

BOOST_AUTO_TEST_CASE(a_key_table_is_read_with_its_percent_signs) {
  const auto lines = parse_data_set(
      "# keys\n\nmail\texample.org:2024:/etc/keys/a.private  # the main one\r\nany %:s:/etc/keys/%.key\n");
  BOOST_REQUIRE(lines.size() == 2U);
  BOOST_TEST(lines[0].key == "mail");
  BOOST_TEST(lines[1].line == 4U);
  const auto one = KeyEntry::parse(lines[0].value, "other.example", "t:3");
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(one->domain == "example.org");
  BOOST_TEST(one->selector == "2024");
  BOOST_TEST(one->key == "/etc/keys/a.private");
  BOOST_TEST(one->is_file());
  const auto any = KeyEntry::parse(lines[1].value, "other.example", "t:4");
  BOOST_TEST(any->domain == "other.example");
  BOOST_TEST(any->key == "/etc/keys/other.example.key");
  BOOST_TEST(!KeyEntry::parse(lines[1].value, "../../x", "t:4"));
  BOOST_TEST(!KeyEntry::parse("%:s:MIIEabc=", "other.example", "t:4")->is_file());
  for (const char* value : {"", "a.b", "a.b:s", "a.b:s:", "a b:s:/k", "a.b::/k", ":s:/k"})
    BOOST_TEST(!KeyEntry::parse(value, "x.example", "t:1"), value);
  BOOST_TEST(KeyEntry::parse("a.b", "x.example", "/etc/key.table:7").error().message().contains("/etc/key.table:7"));
}

BOOST_AUTO_TEST_CASE(domains_have_their_keys_in_either_form) {
  for (const char* form : {"bücher.example", "xn--bcher-kva.example", "BÜCHER.example"}) {
    const std::string domain = form;
    BOOST_TEST(key_for(table("*@" + domain + " all\n", true), "jo@bücher.example") == "all");
    BOOST_TEST(key_for(table("*@" + domain + " all\n", true), "jo@xn--bcher-kva.example") == "all");
    BOOST_TEST(key_for(table(domain + " all\n", false), "jo@Bücher.example") == "all");
    BOOST_TEST(key_for(table("." + domain + " all\n", false), "jo@mail.xn--bcher-kva.example") == "all");
  }
  // A pattern is a pattern of either text.
  BOOST_TEST(key_for(table("*@*.bücher.example all\n", true), "jo@mail.bücher.example") == "all");
  BOOST_TEST(key_for(table("*@*.xn--bcher-kva.example all\n", true), "jo@mail.bücher.example") == "all");
}

BOOST_AUTO_TEST_CASE(a_table_of_patterns_is_searched_in_its_order) {
  const auto t = table(
      "boss@example.org first\n*@example.org second\n*@*.example.org third\nBOSS@example.org late\n*news@* news\n",
      true);
  BOOST_TEST(key_for(t, "boss@Example.org") == "first");
  BOOST_TEST(key_for(t, "jo@example.ORG") == "second");
  BOOST_TEST(key_for(t, "jo@a.b.example.org") == "third");
  BOOST_TEST(key_for(t, "goodnews@elsewhere.example") == "news");
  BOOST_TEST(key_for(t, "jo@badexample.org").empty());
  std::string all;
  for (const auto* hit : t.find("boss@example.org", true)) all += hit->value + " ";
  BOOST_TEST(all == "first second late ");
  // Without a star it stands for itself; a sender with a star is no pattern.
  BOOST_TEST(key_for(table("@example.org x\n", true), "jo@example.org").empty());
  BOOST_TEST(table("*@example.org x\n", true).find("*@example.org", true).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_plain_table_is_searched_from_the_most_special_key) {
  const auto t =
      table("* any\njo@* star\n.example.org dot\njo@.example.org jodot\nexample.org host\njo@example.org jo\n", false);
  BOOST_TEST(key_for(t, "jo@example.org") == "jo");
  BOOST_TEST(key_for(t, "al@example.org") == "host");
  BOOST_TEST(key_for(t, "jo@a.example.org") == "jodot");
  BOOST_TEST(key_for(t, "al@a.example.org") == "dot");
  BOOST_TEST(key_for(t, "jo@else.example") == "star");
  BOOST_TEST(key_for(t, "al@else.example") == "any");
  // No wildcards here.
  BOOST_TEST(key_for(table("*@example.org x\n", false), "jo@example.org").empty());
}

BOOST_AUTO_TEST_CASE(a_value_names_keys_and_signers) {
  const auto keys = SigningEntry::parse("one:list@%, %", "example.org");
  BOOST_REQUIRE(keys.size() == 2U);
  BOOST_TEST(keys[0].key == "one");
  BOOST_TEST(keys[0].signer == "list@example.org");
  BOOST_TEST(keys[1].key == "example.org");
  BOOST_TEST(keys[1].signer.empty());
}

BOOST_AUTO_TEST_CASE(wildcards_stand_for_any_text) {
  BOOST_TEST(wildcard_match("*", ""));
  BOOST_TEST(wildcard_match("a*b*c", "aXbYbZc"));
  BOOST_TEST(!wildcard_match("a*b*c", "aXbYbZ"));
  BOOST_TEST(wildcard_match("a.c", "A.C"));
  BOOST_TEST(!wildcard_match("a.c", "abc"));
  BOOST_TEST(!wildcard_match("", "a"));
  // Patterns that are slow where each * is tried with each end.
  BOOST_TEST(!wildcard_match("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

BOOST_AUTO_TEST_CASE(an_opendkim_conf_of_debian_is_read) {
  const auto conf = OpendkimConf::parse(
      "Syslog yes\nCanonicalization\trelaxed/simple\n#Mode sv\nSubDomains no\nOversignHeaders From\nUserID opendkim\n"
      "Domain example.org,example.net\nSelector 2024\nKeyFile /etc/dkimkeys/a.private\nSignatureTTL 3600\n"
      "InternalHosts refile:/etc/opendkim/TrustedHosts\nKeyTable /k\nSigningTable refile:/s\nStatistics /x\n"
      "MultipleSignatures Yes\nSignHeaders From,To Subject\n",
      "opendkim.conf");
  BOOST_REQUIRE_MESSAGE(conf.has_value(), (conf ? "" : conf.error().message()));
  BOOST_TEST((conf->domains == std::vector<std::string>{"example.org", "example.net"}));
  BOOST_TEST(conf->canonicalization == "relaxed/simple");
  BOOST_TEST((conf->oversign_headers == std::vector<std::string>{"From"}));
  BOOST_TEST((conf->sign_headers == std::vector<std::string>{"From", "To", "Subject"}));
  BOOST_TEST(conf->signature_ttl == 3600U);
  BOOST_TEST((conf->signing_table->kind == OpendkimConf::Source::Kind::patterns));
  BOOST_TEST(conf->signing_table->text == "/s");
  BOOST_TEST((conf->key_table->kind == OpendkimConf::Source::Kind::file));
  BOOST_TEST(conf->internal_hosts->text == "/etc/opendkim/TrustedHosts");
  BOOST_TEST((conf->all_matches && conf->signs && !conf->sub_domains));
  BOOST_REQUIRE(conf->notes.size() == 1U);
  BOOST_TEST(conf->notes[0] == "opendkim.conf:14: Statistics has no effect here");
}

BOOST_AUTO_TEST_CASE(lists_are_words_files_and_changes_of_the_default) {
  const auto read = [](const std::string& file) -> Result<std::string> {
    if (file == "/etc/names") return std::string("# fields\nX-Foo\nSubject\n");
    if (file == "/etc/domains") return std::string("example.org\nexample.net more\n");
    return fail_errno(file, ENOENT);
  };
  const auto conf = [&](const std::string& text) {
    auto parsed = OpendkimConf::parse(text, "/etc/opendkim.conf", read);
    BOOST_REQUIRE_MESSAGE(parsed.has_value(), text << ": " << (parsed ? "" : parsed.error().message()));
    return *std::move(parsed);
  };
  using Names = std::vector<std::string>;
  BOOST_TEST((conf("SignHeaders file:/etc/names\n").sign_headers == Names{"X-Foo", "Subject"}));
  BOOST_TEST((conf("OversignHeaders /etc/names\n").oversign_headers == Names{"X-Foo", "Subject"}));
  const auto changed = conf("SignHeaders *,+X-Foo,-SUBJECT,odd\n");
  BOOST_TEST((std::ranges::find(*changed.sign_headers, "X-Foo") != changed.sign_headers->end()));
  BOOST_TEST((std::ranges::find(*changed.sign_headers, "Subject") == changed.sign_headers->end()));
  BOOST_TEST((std::ranges::find(*changed.sign_headers, "Reply-To") != changed.sign_headers->end()));
  BOOST_REQUIRE(changed.notes.size() == 1U);
  BOOST_TEST(changed.notes[0].contains("\"odd\" has no effect"));
  const auto omitted = conf("OmitHeaders *,+X-Foo,-Keywords\n").omit_headers;
  BOOST_TEST((std::ranges::find(omitted, "X-Foo") != omitted.end()));
  BOOST_TEST((std::ranges::find(omitted, "Bcc") != omitted.end()));
  BOOST_TEST((std::ranges::find(omitted, "Keywords") == omitted.end()));
  BOOST_TEST((conf("OmitHeaders .\n").omit_headers == Names{"."}));
  BOOST_TEST((conf("SenderHeaders Sender,From\n").sender_headers == Names{"Sender", "From"}));
  BOOST_TEST((conf("Domain /etc/domains\n").domains == Names{"example.org", "example.net"}));
  const auto patterns = conf("Domain refile:/etc/domains\n");
  BOOST_TEST(patterns.domain_patterns);
  BOOST_TEST((conf("ExternalIgnoreList refile:/etc/hosts\n").ignored_hosts->text == "/etc/hosts"));
  BOOST_TEST(conf("ExternalIgnoreList refile:/etc/hosts\n").notes.empty());
}

BOOST_AUTO_TEST_CASE(files_are_included_five_deep) {
  const auto read = [](const std::string& file) -> Result<std::string> {
    if (file == "/etc/more") return std::string("Selector s\nInclude deeper\n");
    if (file == "/etc/deeper") return std::string("Selector deep\nOdd x\n");
    if (file == "/etc/loop") return std::string("Include loop\n");
    return fail_errno(file, ENOENT);
  };
  const auto conf = OpendkimConf::parse("Include /etc/more\nDomain a.example\n", "/etc/opendkim.conf", read);
  BOOST_REQUIRE_MESSAGE(conf.has_value(), (conf ? "" : conf.error().message()));
  BOOST_TEST(conf->selector == "deep");
  BOOST_TEST((conf->domains == std::vector<std::string>{"a.example"}));
  BOOST_REQUIRE(conf->notes.size() == 1U);
  BOOST_TEST(conf->notes[0] == "/etc/deeper:2: Odd has no effect here");
  const auto loop = OpendkimConf::parse("Include loop\n", "/etc/opendkim.conf", read);
  BOOST_REQUIRE(!loop);
  BOOST_TEST(loop.error().message().contains("five"));
  const auto gone = OpendkimConf::parse("\nInclude gone\n", "/etc/opendkim.conf", read);
  BOOST_REQUIRE(!gone);
  BOOST_TEST(gone.error().message().starts_with("/etc/opendkim.conf:2: "));
}

BOOST_AUTO_TEST_CASE(a_line_that_cannot_be_read_is_named) {
  for (const char* line :
       {"Canonicalization nofws", "SubDomains maybe", "SignatureTTL soon", "Selector", "SignatureAlgorithm rsa-sha1",
        "SignHeaders +X", "SignHeaders /etc/list", "SignHeaders refile:/etc/list", "Include /etc/more"}) {
    const auto conf = OpendkimConf::parse(std::string("Mode v\n") + line + "\n", "f");
    BOOST_REQUIRE_MESSAGE(!conf, line);
    BOOST_TEST(conf.error().message().starts_with("f:2: "), conf.error().message());
  }
  BOOST_TEST(!OpendkimConf::parse("Mode v\n", "f")->signs);
}

BOOST_AUTO_TEST_SUITE_END()
