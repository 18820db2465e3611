#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <string>

#include "tools/doctor_judge.h"

namespace pen::tools {
namespace {

using State = Told::State;

Told found(std::vector<std::string> values) { return {State::found, std::move(values)}; }
const Told kMissing{State::missing, {}}, kUnknown{};

/// Names with which everything is right.
NameFacts good() {
  NameFacts f;
  f.hostname = f.helo = "mx.example.org";
  f.addresses = found({"192.0.2.25"});
  f.reverse["192.0.2.25"] = found({"mx.example.org"});
  DomainFacts d;
  d.name = "example.org";
  d.mx = found({"mx.example.org"});
  d.mx_addresses = f.addresses;
  d.addresses = found({"192.0.2.80"});
  d.spf = found({"google-site-verification=x", "v=spf1 mx -all"});
  d.dmarc = found({"v=DMARC1; p=reject"});
  d.mta_sts = kMissing;
  f.domains.push_back(d);
  return f;
}
Level worst(const Findings& all) {
  Level level = Level::ok;
  for (const auto& f : all) level = std::max(level, f.level);
  return level;
}
/// The level of the finding with that text; it must say why and what to do unless all is well.
Level level_of(const Findings& all, const std::string& text) {
  for (const auto& f : all) {
    if (f.what.find(text) == std::string::npos) continue;
    BOOST_TEST((f.level == Level::ok || (!f.why.empty() && !f.advice.empty())), f.what);
    return f.level;
  }
  std::string told;
  for (const auto& f : all) told += f.what + "\n";
  BOOST_ERROR("nothing says \"" + text + "\": " + told);
  return Level::ok;
}
bool is(Level a, Level b) { return a == b; }

BOOST_AUTO_TEST_SUITE(doctor)

BOOST_AUTO_TEST_CASE(names_that_are_right_are_found_right) { BOOST_TEST(is(worst(judge_names(good())), Level::ok)); }

BOOST_AUTO_TEST_CASE(a_host_needs_a_full_name_with_an_address_that_leads_back) {
  NameFacts f = good();
  f.hostname = "mx";
  BOOST_TEST(is(level_of(judge_names(f), "no name in the Internet's DNS"), Level::error));
  f = good();
  f.addresses = kMissing;
  BOOST_TEST(is(level_of(judge_names(f), "has no address in DNS"), Level::error));
  f = good();
  f.reverse["192.0.2.25"] = kMissing;
  BOOST_TEST(is(level_of(judge_names(f), "has no name in DNS (PTR)"), Level::warning));
  f.reverse["192.0.2.25"] = found({"host-25.provider.example"});
  BOOST_TEST(is(level_of(judge_names(f), "is host-25.provider.example, not mx.example.org"), Level::warning));
  f = good();
  f.addresses = found({"10.0.0.5"});
  BOOST_TEST(is(level_of(judge_names(f), "reached from inside only"), Level::note));
  f = good();
  f.helo = "other.example.org";
  BOOST_TEST(is(level_of(judge_names(f), "smtp_helo_name"), Level::note));
}

BOOST_AUTO_TEST_CASE(what_dns_does_not_answer_is_never_called_wrong) {
  NameFacts f = good();
  f.addresses = kUnknown;
  DomainFacts silent;
  silent.name = "example.org";
  f.domains = {silent};
  BOOST_TEST(is(worst(judge_names(f)), Level::note));
}

BOOST_AUTO_TEST_CASE(mail_hosts_of_a_domain_are_compared_with_this_host) {
  NameFacts f = good();
  f.domains[0].mx = found({"other.example.org"});
  BOOST_TEST(is(level_of(judge_names(f), "goes to other.example.org, not to mx.example.org"), Level::note));
  f.domains[0].mx = found({""});
  BOOST_TEST(is(level_of(judge_names(f), "null MX"), Level::error));
  f.domains[0].mx = kMissing;
  BOOST_TEST(is(level_of(judge_names(f), "has no MX record"), Level::note));
  f.domains[0].addresses = kMissing;
  BOOST_TEST(is(level_of(judge_names(f), "neither MX record nor address"), Level::warning));
}

BOOST_AUTO_TEST_CASE(spf_records_are_counted_and_looked_through_for_this_host) {
  NameFacts f = good();
  const auto level = [&](std::vector<std::string> records, const char* text) {
    f.domains[0].spf = found(std::move(records));
    return level_of(judge_names(f), text);
  };
  BOOST_TEST(is(level({}, "has no SPF record"), Level::warning));
  BOOST_TEST(is(level({"v=spf1 -all", "v=spf1 mx -all"}, "2 SPF records"), Level::error));
  BOOST_TEST(is(level({"v=spf1 ip4:198.51.100.0/24 -all"}, "does not name 192.0.2.25"), Level::warning));
  BOOST_TEST(is(level({"v=spf1 mx +all"}, "allows everybody"), Level::warning));
  BOOST_TEST(is(level({"v=spf1 include:spf.other.example -all"}, "is v=spf1 include"), Level::ok));
}

BOOST_AUTO_TEST_CASE(spf_is_answered_as_far_as_the_record_itself_says) {
  struct Row {
    const char *record, *address, *says;
  };
  // mx.example.org has 192.0.2.1, example.org 192.0.2.2
  for (const Row& row : std::initializer_list<Row>{
           {"v=spf1 mx -all", "192.0.2.1", "allows"},
           {"v=spf1 a -all", "192.0.2.2", "allows"},
           {"v=spf1 mx -all", "192.0.2.2", "does not allow"},
           {"v=spf1 ip4:192.0.2.0/29 ~all", "192.0.2.7", "allows"},
           {"v=spf1 IP4:192.0.2.7 ~ALL", "192.0.2.7", "allows"},
           {"v=spf1 ip6:2001:db8::/32 -all", "2001:db8::7", "allows"},
           {"v=spf1 ip6:2001:db8::/32 -all", "192.0.2.9", "does not allow"},
           {"v=spf1 -ip4:192.0.2.7 +ip4:192.0.2.0/24", "192.0.2.7", "does not allow"},
           {"v=spf1 include:x.example -all", "192.0.2.9", "depends"},
           {"v=spf1 ip4:192.0.2.9 include:x.example -all", "192.0.2.9", "allows"},
           {"v=spf1 include:x.example ip4:192.0.2.9 -all", "192.0.2.9", "allows"},
           {"v=spf1 redirect=x.example", "192.0.2.9", "depends"},
           {"v=spf1 a:%{d2}.x.example -all", "192.0.2.9", "depends"},
           {"v=spf1", "192.0.2.9", "does not allow"},
           // Another name's record may decide first, in either direction.
           {"v=spf1 -include:x.example ip4:192.0.2.9 -all", "192.0.2.9", "depends"},
           {"v=spf1 include:x.example -ip4:192.0.2.9 +ip4:192.0.2.0/24", "192.0.2.9", "depends"},
           {"v=spf1 ~exists:%{i}.x.example -all", "192.0.2.9", "does not allow"},
           // redirect= does not count beside all, wherever it stands.
           {"v=spf1 redirect=x.example -all", "192.0.2.9", "does not allow"},
           // exp= is no mechanism, whatever its value looks like.
           {"v=spf1 exp=include:x.example -all", "192.0.2.9", "does not allow"},
           {"v=spf1 mx/24 -all", "192.0.2.9", "allows"},
           {"v=spf1 a/29 -all", "192.0.2.9", "does not allow"},
           {"v=spf1 mx/24//64 -all", "2001:db8::7", "does not allow"},
           // A mistake anywhere makes the whole record one that fails.
           {"v=spf1 ip4:192.0.2.9 ipv4:192.0.2.1 -all", "192.0.2.9", "malformed"},
           {"v=spf1 ip4:192.0.2.0/33 -all", "192.0.2.9", "malformed"},
       }) {
    BOOST_TEST_CONTEXT(row.record << " for " << row.address) {
      NameFacts f = good();
      f.addresses = found({row.address});
      f.reverse[row.address] = found({f.hostname});
      f.domains[0].mx_addresses = found({"192.0.2.1"});
      f.domains[0].addresses = found({"192.0.2.2"});
      f.domains[0].spf = found({row.record});
      const std::string says = row.says, record = "the SPF record of example.org";
      const auto all = judge_names(f);
      if (says == "allows") BOOST_TEST(is(level_of(all, record + " allows " + row.address), Level::ok));
      if (says == "does not allow")
        BOOST_TEST(is(level_of(all, record + " does not name " + row.address), Level::warning));
      if (says == "depends") BOOST_TEST(is(level_of(all, record + " is " + row.record), Level::ok));
      if (says == "malformed") BOOST_TEST(is(level_of(all, record + " is malformed"), Level::error));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_spf_record_that_everybody_passes_is_told_from_one_that_only_looks_so) {
  NameFacts f = good();
  for (const char* record : {"v=spf1 all", "v=spf1 mx +ALL", "v=spf1 ?all"}) {
    f.domains[0].spf = found({record});
    const bool everybody = record[7] != '?';
    BOOST_TEST_CONTEXT(record)
    BOOST_TEST(is(level_of(judge_names(f), everybody ? "allows everybody" : "does not name"), Level::warning));
  }
  f.domains[0].spf = found({"v=spf1 mx -all +all"});
  BOOST_TEST(is(worst(judge_names(f)), Level::ok));
}

BOOST_AUTO_TEST_CASE(a_dmarc_record_counts_if_receivers_count_it) {
  struct Row {
    const char *record, *says;
    Level level;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"v=DMARC1; p=reject", "(policy reject) is v=DMARC1; p=reject", Level::ok},
           {"v=DMARC1;p=Quarantine;sp=none", "(policy quarantine)", Level::ok},
           {"v=DMARC1; p = none", "(policy none)", Level::ok},
           {"v=DMARC1; rua=mailto:a@example.org", "(policy none)", Level::ok},
           {"v=DMARC1; p=refuse; rua=mailto:a@example.org", "(policy none)", Level::ok},
           {"v=DMARC1; sp=none", "does not count", Level::error},
           {"v=DMARC1; p=refuse", "does not count", Level::error},
           {"v=DMARC1; rua=https://example.org/p=1", "does not count", Level::error},
           {"v=DMARC1", "does not count", Level::error},
           {"v=dmarc1; p=reject", "has no DMARC record", Level::warning},
           {"p=reject; v=DMARC1", "has no DMARC record", Level::warning},
       }) {
    BOOST_TEST_CONTEXT(row.record) {
      NameFacts f = good();
      f.domains[0].dmarc = found({"some other text", row.record});
      BOOST_TEST(is(level_of(judge_names(f), row.says), row.level));
    }
  }
}

BOOST_AUTO_TEST_CASE(dmarc_and_mta_sts_are_read_as_receivers_and_senders_do) {
  NameFacts f = good();
  f.domains[0].dmarc = kMissing;
  BOOST_TEST(is(level_of(judge_names(f), "has no DMARC record"), Level::warning));
  f.domains[0].dmarc = found({"v=DMARC1; p=none", "v=DMARC1; p=reject"});
  BOOST_TEST(is(level_of(judge_names(f), "2 DMARC records"), Level::error));
  f = good();
  f.domains[0].mta_sts = found({"v=STSv1; id=1;"});
  f.domains[0].policy_fault = "connection refused";
  BOOST_TEST(is(level_of(judge_names(f), "cannot be fetched: connection refused"), Level::error));
  f.domains[0].policy = "version: STSv1\nmode: enforce\nmax_age: 86400\nmx: other.example.org\n";
  BOOST_TEST(is(level_of(judge_names(f), "does not name its mail host mx.example.org"), Level::error));
  f.domains[0].policy = "version: STSv1\nmode: enforce\nmax_age: 86400\nmx: mx.example.org\n";
  BOOST_TEST(is(worst(judge_names(f)), Level::ok));
  f.domains[0].mta_sts = found({"v=STSv1; id=a-b;"});
  BOOST_TEST(is(level_of(judge_names(f), "not in the form of RFC 8461"), Level::error));
}

BOOST_AUTO_TEST_CASE(each_signing_key_is_compared_with_what_is_published) {
  KeyFacts key;
  key.name = "s._domainkey.example.org";
  key.records = kUnknown;
  BOOST_TEST(is(level_of(judge_keys({key}), "does not answer"), Level::note));
  key.records = kMissing;
  BOOST_TEST(is(level_of(judge_keys({key}), "is not in DNS"), Level::error));
  key.records = found({"v=DKIM1; p=x"});
  key.same = false;
  BOOST_TEST(is(level_of(judge_keys({key}), "another key"), Level::error));
  key.same = true;
  BOOST_TEST(is(worst(judge_keys({key})), Level::ok));
  key.testing = true;
  BOOST_TEST(is(level_of(judge_keys({key}), "t=y"), Level::note));
  key.fault = "no such file";
  BOOST_TEST(is(level_of(judge_keys({key}), "cannot be used"), Level::error));
}

BOOST_AUTO_TEST_CASE(a_certificate_is_in_time_for_the_name_with_its_key_and_its_tlsa_record) {
  const WallTime now{seconds(1'800'000'000)};
  const auto days = [](int n) { return seconds(n * 86400); };
  CertificateFacts f;
  f.path = "/c.pem";
  f.key = "/k.pem";
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now), "cannot be read as a certificate"), Level::error));
  f.readable = f.key_readable = true;
  f.begins = now - days(10);
  f.ends = now + days(80);
  f.names_host = f.key_fits = true;
  BOOST_TEST(is(worst(judge_certificate(f, "mx", now)), Level::ok));
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now + days(75)), "expires in 5 days"), Level::warning));
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now + days(81)), "has expired"), Level::error));
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now - days(11)), "is not valid before"), Level::error));
  f.tlsa = found({"3 1 1 00"});
  f.fit = {false};
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now), "no TLSA record"), Level::error));
  f.fit = {false, true};
  BOOST_TEST(is(worst(judge_certificate(f, "mx", now)), Level::ok));
  f.names_host = false;
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now), "is not for the name mx"), Level::warning));
  f.key_fits = false;
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now), "is not the key of"), Level::error));
  f.key_readable = false;
  BOOST_TEST(is(level_of(judge_certificate(f, "mx", now), "cannot be read"), Level::error));
}

BOOST_AUTO_TEST_CASE(a_disk_has_room_inodes_quick_syncs_and_keeps_what_it_has) {
  DiskFacts f;
  f.path = "/q";
  f.bytes = 100ULL << 30;
  f.free_bytes = 50ULL << 30;
  f.inodes = f.free_inodes = 1'000'000;
  f.segment = 64U << 20;
  f.type = "ext4";
  f.syncs = {milliseconds(2), milliseconds(3), milliseconds(40)};
  BOOST_TEST(is(worst(judge_disk(f)), Level::ok));
  DiskFacts bad = f;
  bad.free_bytes = 100U << 20;
  BOOST_TEST(is(level_of(judge_disk(bad), "only 100 MiB are free"), Level::error));
  bad.free_bytes = 2ULL << 30;
  BOOST_TEST(is(level_of(judge_disk(bad), "only 2048 MiB of"), Level::warning));
  bad = f;
  bad.free_inodes = 10;
  BOOST_TEST(is(level_of(judge_disk(bad), "only 10 inodes"), Level::error));
  bad = f;
  bad.syncs = {milliseconds(200), milliseconds(300)};
  BOOST_TEST(is(level_of(judge_disk(bad), "a sync of a small file"), Level::warning));
  bad.syncs = {milliseconds(2000)};
  BOOST_TEST(is(level_of(judge_disk(bad), "a sync of a small file"), Level::error));
  bad = f;
  bad.type = "tmpfs";
  BOOST_TEST(is(level_of(judge_disk(bad), "is in memory"), Level::error));
  bad = f;
  bad.no_barrier = true;
  BOOST_TEST(is(level_of(judge_disk(bad), "nobarrier"), Level::error));
  bad.fault = "Read-only file system";
  BOOST_TEST(is(level_of(judge_disk(bad), "no file can be written"), Level::error));
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_before_what_is_there_is_wrong) {
  ClockFacts f;
  f.built = WallTime(seconds(1000));
  f.newest_file = WallTime(seconds(5000));
  f.now = WallTime(seconds(6000));
  f.synchronised = true;
  BOOST_TEST(is(worst(judge_clock(f)), Level::ok));
  f.synchronised = false;
  BOOST_TEST(is(level_of(judge_clock(f), "not synchronised"), Level::note));
  f.newest_file = WallTime(seconds(100'000));
  BOOST_TEST(is(level_of(judge_clock(f), "files of the mail system"), Level::warning));
  f.now = WallTime(seconds(10));
  BOOST_TEST(is(level_of(judge_clock(f), "before this program was built"), Level::error));
}

BOOST_AUTO_TEST_CASE(limits_of_the_kernel_are_compared_with_what_the_settings_want) {
  KernelFacts f;
  f.open_files = 500'000;
  f.wanted_files = 3100;
  f.file_max = 9'000'000;
  f.somaxconn = 4096;
  f.port_first = 32768;
  f.port_last = 60999;
  f.wanted_connections = 1000;
  BOOST_TEST(is(worst(judge_kernel(f)), Level::ok));
  f.open_files = 1024;
  BOOST_TEST(is(level_of(judge_kernel(f), "may have 1024 open files, and 3100"), Level::warning));
  f.file_max = 5000;
  BOOST_TEST(is(level_of(judge_kernel(f), "fs.file-max"), Level::warning));
  f.somaxconn = 128;
  BOOST_TEST(is(level_of(judge_kernel(f), "somaxconn"), Level::note));
  f.overcommit = 2;
  BOOST_TEST(is(level_of(judge_kernel(f), "overcommit"), Level::note));
  f.wanted_connections = 50'000;
  BOOST_TEST(is(level_of(judge_kernel(f), "ports for outgoing"), Level::note));
}

BOOST_AUTO_TEST_CASE(a_server_answers_and_one_of_ours_greets_with_its_name) {
  ServerFacts f;
  f.what = "service smtp/inet";
  f.address = "[127.0.0.1]:25";
  f.own = f.smtp = true;
  f.connected = true;
  f.greeting = "220 mx.example.org ESMTP";
  BOOST_TEST(is(worst(judge_server(f, "mx.example.org")), Level::ok));
  BOOST_TEST(is(level_of(judge_server(f, "other.example"), "without the name other.example"), Level::warning));
  f.greeting = "421 4.3.2 not now";
  BOOST_TEST(is(level_of(judge_server(f, "mx.example.org"), "greets with 421"), Level::error));
  f.connected = false;
  f.fault = "Connection refused";
  BOOST_TEST(is(level_of(judge_server(f, "mx.example.org"), "cannot be reached: Connection refused"), Level::error));
  f.running = false;
  BOOST_TEST(is(level_of(judge_server(f, "mx.example.org"), "the mail system is not running"), Level::note));
  f.own = false;
  BOOST_TEST(is(level_of(judge_server(f, "mx.example.org"), "cannot be reached"), Level::warning));
}

BOOST_AUTO_TEST_CASE(one_address_that_greets_shows_that_port_25_is_open) {
  ServerFacts shut, open;
  shut.fault = "no answer in time";
  open.connected = true;
  open.greeting = "220 there ESMTP";
  BOOST_TEST(is(worst(judge_probe("x.example", {shut, open})), Level::ok));
  BOOST_TEST(
      is(level_of(judge_probe("x.example", {shut}), "is not reached from here: no answer in time"), Level::warning));
  BOOST_TEST(is(level_of(judge_probe("x.example", {}), "has no address"), Level::warning));
  BOOST_TEST(is(level_of(judge_probe("", {}), "was not tried"), Level::note));
}

BOOST_AUTO_TEST_CASE(text_from_outside_is_shown_without_control_characters) {
  NameFacts f = good();
  f.domains[0].spf = found({"v=spf1 mx \x1b[2J -all", "v=spf1 \n -all"});
  for (const auto& finding : judge_names(f))
    BOOST_TEST(std::ranges::none_of(finding.what, [](char c) { return c >= 0 && c < 32; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
