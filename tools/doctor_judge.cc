#include "tools/doctor_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <set>

#include "lib/base/date.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/trust/dmarc/record.h"
#include "lib/trust/mta_sts/policy.h"

namespace pen::tools {
namespace {

using State = Told::State;

constexpr int kSoon = 14;  // days before a certificate's end
constexpr std::uint64_t kFewInodes = 1000;
constexpr milliseconds kSlowSync{100}, kHopelessSync{1000};
constexpr seconds kClockSlack{3600};

/// Findings of one area.
class Area {
 public:
  explicit Area(std::string name) : name_(std::move(name)) {}
  void good(std::string what) { found_.push_back({Level::ok, name_, std::move(what), {}, {}}); }
  void add(Level level, std::string what, std::string why, std::string advice) {
    found_.push_back({level, name_, std::move(what), std::move(why), std::move(advice)});
  }
  Findings take() { return std::move(found_); }

 private:
  std::string name_;
  Findings found_;
};

std::string safe(const std::string& text) { return printable(text, 200); }
std::string listed(const std::vector<std::string>& words) { return safe(join(words, ", ")); }
bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}
bool starts(const std::string& text, std::string_view prefix) {
  return text.size() >= prefix.size() && to_lower(text.substr(0, prefix.size())) == prefix;
}
/// The texts that are a record of this kind.
template <class Record>
std::vector<std::string> records_in(const Told& told) {
  std::vector<std::string> out;
  std::ranges::copy_if(told.values, std::back_inserter(out), Record::is_one);
  return out;
}
std::vector<std::string> those_with(const Told& told, std::string_view prefix) {
  std::vector<std::string> out;
  for (const auto& text : told.values)
    if (starts(text, prefix) &&
        (text.size() == prefix.size() || text[prefix.size()] == ' ' || text[prefix.size()] == ';'))
      out.push_back(text);
  return out;
}

constexpr const char* kDnsSilent = "nothing can be said of it now";
constexpr const char* kAskAgain =
    "look at the name servers (dns_resolver_addresses, /etc/resolv.conf), and repeat this";

void judge_host(const NameFacts& f, Area& area) {
  if (f.hostname.find('.') == std::string::npos || f.hostname.ends_with(".localdomain")) {
    area.add(Level::error, "myhostname is " + safe(f.hostname) + ", which is no name in the Internet's DNS",
             "others refuse mail of a host that gives such a name in HELO",
             "set myhostname to the host's full name, such as mail.example.org");
    return;
  }
  if (f.addresses.state == State::unknown) {
    area.add(Level::note, "DNS does not answer for " + safe(f.hostname), kDnsSilent, kAskAgain);
    return;
  }
  if (f.addresses.state == State::missing) {
    area.add(Level::error, safe(f.hostname) + " (myhostname) has no address in DNS",
             "others refuse mail of a host whose name does not exist, and cannot answer it",
             "publish an A or AAAA record, or set myhostname to a name that has one");
    return;
  }
  area.good(safe(f.hostname) + " has the addresses " + listed(f.addresses.values));
  for (const std::string& address : f.addresses.values) {
    if (private_address(address)) {
      area.add(Level::note, safe(f.hostname) + " has the address " + address + ", which is reached from inside only",
               "mail goes out from another address then, whose name in DNS must be this one as well",
               "compare with --probe and what others log, or ask whoever runs the gateway");
      continue;
    }
    const auto reverse = f.reverse.find(address);
    if (reverse == f.reverse.end() || reverse->second.state == State::unknown) {
      area.add(Level::note, "DNS does not answer which name " + address + " has", kDnsSilent, kAskAgain);
    } else if (reverse->second.state == State::missing) {
      area.add(Level::warning, address + " has no name in DNS (PTR)",
               "many hosts, the largest among them, refuse mail from such addresses",
               "have the provider of the address set its PTR record to " + safe(f.hostname));
    } else if (!contains(reverse->second.values, f.hostname)) {
      area.add(
          Level::warning,
          "the name of " + address + " in DNS (PTR) is " + listed(reverse->second.values) + ", not " + safe(f.hostname),
          "others compare the two, and take mail for spam when they differ",
          "have the PTR record set to " + safe(f.hostname) + ", or myhostname to that name");
    } else {
      area.good("the name of " + address + " in DNS (PTR) is " + safe(f.hostname));
    }
  }
  if (to_lower(f.helo) != to_lower(f.hostname))
    area.add(
        Level::note, "mail goes out with the name " + safe(f.helo) + " (smtp_helo_name), not " + safe(f.hostname),
        "receivers compare the name in HELO with the name of the address",
        "leave smtp_helo_name at $myhostname, unless " + safe(f.helo) + " is the name of the address that is used");
}

/// Whether a term of an SPF record matches; nullopt: that depends on other names.
std::optional<bool> matches(const spf::Directive& d, const IpAddress& ip, const std::vector<std::string>& mx,
                            const std::vector<std::string>& a) {
  const auto near = [&](const IpAddress& base) {
    return Network{base, static_cast<std::uint8_t>(ip.size == 16 ? d.bits6 : d.bits4)}.contains(ip);
  };
  const auto near_one = [&](const std::vector<std::string>& addresses) {
    return std::ranges::any_of(addresses,
                               [&](const std::string& one) { return near(parse_ip(one).value_or(IpAddress{})); });
  };
  switch (d.mechanism) {
    case spf::Mechanism::all:
      return true;
    case spf::Mechanism::ip4:
      return near(d.network);
    case spf::Mechanism::ip6:
      return ip.size == 16 && near(d.network);
    case spf::Mechanism::a:
      return d.target.empty() ? std::optional(near_one(a)) : std::nullopt;
    case spf::Mechanism::mx:
      return d.target.empty() ? std::optional(near_one(mx)) : std::nullopt;
    case spf::Mechanism::include:
    case spf::Mechanism::exists:
    case spf::Mechanism::ptr:
      break;
  }
  return std::nullopt;
}

void judge_spf(const NameFacts& f, const DomainFacts& d, Area& area) {
  if (d.spf.state == State::unknown) {
    area.add(Level::note, "DNS does not answer for the SPF record of " + safe(d.name), kDnsSilent, kAskAgain);
    return;
  }
  const auto records = records_in<spf::Record>(d.spf);
  if (records.empty()) {
    area.add(Level::warning, safe(d.name) + " has no SPF record",
             "others cannot tell its mail from forged mail, and some refuse it",
             "publish a TXT record: v=spf1 mx -all, if all its mail leaves by its mail hosts");
    return;
  }
  if (records.size() > 1) {
    area.add(Level::error, safe(d.name) + " has " + std::to_string(records.size()) + " SPF records",
             "with more than one each check of SPF fails", "leave one TXT record that begins with v=spf1");
    return;
  }
  const auto record = spf::Record::parse(records.front());
  if (!record) {
    area.add(Level::error,
             "the SPF record of " + safe(d.name) + " is malformed (" + record.error().message() +
                 "): " + safe(records.front()),
             "each check of SPF fails, whatever the rest of the record says", "correct or remove that term");
    return;
  }
  const auto all = std::ranges::find(record->directives, spf::Mechanism::all, &spf::Directive::mechanism);
  if (all != record->directives.end() && all->qualifier == spf::Qualifier::pass) {
    area.add(Level::warning, "the SPF record of " + safe(d.name) + " allows everybody: " + safe(records.front()),
             "anybody may send in its name, and filters count that against it", "end it with -all or ~all");
    return;
  }
  for (const std::string& address : f.addresses.values) {
    if (private_address(address)) continue;
    if (d.mx_addresses.state == State::unknown || d.addresses.state == State::unknown) continue;
    const auto allowed = spf_allows(*record, address, d.mx_addresses.values, d.addresses.values);
    if (allowed && !*allowed)
      area.add(Level::warning,
               "the SPF record of " + safe(d.name) + " does not name " + address + ": " + safe(records.front()),
               "mail that this host sends for the domain fails SPF",
               "add ip" + std::string(address.find(':') == std::string::npos ? "4:" : "6:") + address +
                   " to it, or mx if this host is one of the domain's mail hosts");
    else
      area.good("the SPF record of " + safe(d.name) +
                (allowed ? " allows " + address : " is " + safe(records.front())));
  }
}

void judge_dmarc(const DomainFacts& d, Area& area) {
  if (d.dmarc.state == State::unknown) {
    area.add(Level::note, "DNS does not answer for _dmarc." + safe(d.name), kDnsSilent, kAskAgain);
    return;
  }
  const auto records = records_in<dmarc::Record>(d.dmarc);
  if (records.empty()) {
    area.add(
        Level::warning, safe(d.name) + " has no DMARC record",
        "large receivers want one of whoever sends much, and nobody is told what to do with forged mail",
        "publish a TXT record at _dmarc." + safe(d.name) + ": v=DMARC1; p=none; rua=mailto:postmaster@" + safe(d.name));
  } else if (records.size() > 1) {
    area.add(Level::error, "_dmarc." + safe(d.name) + " has " + std::to_string(records.size()) + " DMARC records",
             "with more than one none counts", "leave one");
  } else if (const auto record = dmarc::Record::parse(records.front()); !record) {
    area.add(Level::error,
             "the DMARC record of " + safe(d.name) + " does not count (" + record.error().message() +
                 "): " + safe(records.front()),
             "receivers act as if there were none", "write v=DMARC1; p=none; … at least");
  } else {
    area.good("the DMARC record of " + safe(d.name) + " (policy " + std::string(dmarc::policy_word(record->policy)) +
              ") is " + safe(records.front()));
  }
}

void judge_mta_sts(const DomainFacts& d, Area& area) {
  if (d.mta_sts.state == State::unknown) {
    area.add(Level::note, "DNS does not answer for _mta-sts." + safe(d.name), kDnsSilent, kAskAgain);
    return;
  }
  if (!mta_sts::read_records(d.mta_sts.values)) {
    if (those_with(d.mta_sts, "v=stsv1").empty()) return;  // it is not demanded of anybody
    area.add(Level::error, "the record _mta-sts." + safe(d.name) + " is not in the form of RFC 8461, or there are two",
             "no sender looks at the policy", "publish one: v=STSv1; id=…; with letters and digits only in id");
    return;
  }
  if (!d.policy) {
    area.add(Level::error,
             safe(d.name) + " announces an MTA-STS policy, which cannot be fetched: " + safe(d.policy_fault),
             "senders that know an older policy go by that until it expires, others have no protection",
             "serve https://mta-sts." + safe(d.name) + "/.well-known/mta-sts.txt with a certificate for that name");
    return;
  }
  const auto policy = mta_sts::parse_policy(*d.policy);
  if (!policy) {
    area.add(Level::error, "the MTA-STS policy of " + safe(d.name) + " is wrong: " + policy.error().message(),
             "senders ignore it", "put it right");
    return;
  }
  bool all = true;
  for (const std::string& host : d.mx.values) {
    if (policy->names_host(host) || policy->mode == mta_sts::Mode::none) continue;
    all = false;
    area.add(policy->mode == mta_sts::Mode::enforce ? Level::error : Level::warning,
             "the MTA-STS policy of " + safe(d.name) + " does not name its mail host " + safe(host),
             "senders that keep to the policy do not deliver there", "add mx: " + safe(host) + " to the policy");
  }
  if (all)
    area.good("the MTA-STS policy of " + safe(d.name) + " (" + std::string(mta_sts::mode_name(policy->mode)) +
              ") names its mail hosts");
}

void judge_domain(const NameFacts& f, const DomainFacts& d, Area& area) {
  if (d.mx.state == State::unknown) {
    area.add(Level::note, "DNS does not answer for the mail hosts of " + safe(d.name), kDnsSilent, kAskAgain);
  } else if (d.mx.state == State::found && d.mx.values == std::vector<std::string>{""}) {
    area.add(Level::error, safe(d.name) + " says in DNS that it takes no mail (null MX), and is a domain of this host",
             "nobody can write to it", "publish its MX record, or take the domain out of the configuration");
  } else if (d.mx.state == State::found) {
    if (contains(d.mx.values, f.hostname))
      area.good("mail for " + safe(d.name) + " goes to " + listed(d.mx.values));
    else
      area.add(Level::note,
               "mail for " + safe(d.name) + " goes to " + listed(d.mx.values) + ", not to " + safe(f.hostname),
               "this host gets it only if one of those hands it on, or has other names",
               "publish an MX record for " + safe(f.hostname) + ", unless that is meant");
  } else if (d.addresses.state == State::missing) {
    area.add(
        Level::warning, safe(d.name) + " has neither MX record nor address in DNS", "nobody can write to it",
        "publish " + safe(d.name) + " MX 10 " + safe(f.hostname) + ", or take the domain out of the configuration");
  } else if (d.addresses.state == State::found) {
    area.add(Level::note, safe(d.name) + " has no MX record: mail goes to its address " + listed(d.addresses.values),
             "a web server at that address gets the mail", "publish " + safe(d.name) + " MX 10 " + safe(f.hostname));
  }
  for (const std::string& host : d.lost)
    area.add(Level::error, "the mail host " + safe(host) + " of " + safe(d.name) + " has no address in DNS",
             "senders cannot find it, and wait or give up",
             "publish an A or AAAA record, or take it out of the MX records");
  judge_spf(f, d, area);
  judge_dmarc(d, area);
  judge_mta_sts(d, area);
}

}  // namespace

bool private_address(const std::string& address) {
  const auto ip = parse_ip(address);
  if (!ip) return false;
  for (const char* inside : {"10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
                             "169.254.0.0/16", "[fc00::]/7", "[fe80::]/10", "[::1]/128"})
    if (parse_network(inside)->contains(*ip)) return true;
  return false;
}

std::optional<bool> spf_allows(const spf::Record& record, const std::string& address,
                               const std::vector<std::string>& mx, const std::vector<std::string>& a) {
  const auto ip = parse_ip(address);
  if (!ip) return std::nullopt;
  bool may_pass = false, may_fail = false;
  for (const spf::Directive& d : record.directives) {
    const auto match = matches(d, *ip, mx, a);
    if (match == false) continue;
    (d.qualifier == spf::Qualifier::pass ? may_pass : may_fail) = true;
    if (match == true) return may_pass && may_fail ? std::nullopt : std::optional(may_pass);
  }
  // No term decides for certain: redirect= does, or else the result is neutral.
  if (may_pass || !record.redirect.empty()) return std::nullopt;
  return false;
}

Findings judge_names(const NameFacts& facts) {
  Area area("names");
  judge_host(facts, area);
  for (const auto& domain : facts.domains) judge_domain(facts, domain, area);
  return area.take();
}

Findings judge_keys(const std::vector<KeyFacts>& keys) {
  Area area("dkim");
  for (const KeyFacts& key : keys) {
    const std::string name = safe(key.name);
    if (!key.fault.empty())
      area.add(Level::error, "the private key of " + name + " cannot be used: " + safe(key.fault),
               "mail that it should sign waits", "put the file right, or its line in the key table");
    else if (key.records.state == State::unknown)
      area.add(Level::note, "DNS does not answer for " + name, kDnsSilent, kAskAgain);
    else if (key.records.state == State::missing)
      area.add(Level::error, name + " is not in DNS", "each signature of this key fails",
               "publish what pendkim dns prints for the key");
    else if (!key.same.value_or(false))
      area.add(Level::error, "DNS has another key at " + name, "each signature of this key fails",
               "publish what pendkim dns prints for the key, or sign with the key that is published");
    else if (key.testing)
      area.add(Level::note, "the record at " + name + " says that the key is for tests (t=y)",
               "receivers treat signed mail like mail without a signature", "publish it without t=y");
    else
      area.good(name + " is in DNS");
  }
  return area.take();
}

Findings judge_certificate(const CertificateFacts& f, const std::string& host, WallTime now) {
  Area area("certificates");
  const std::string path = safe(f.path);
  if (!f.readable || !f.ends || !f.begins) {
    area.add(Level::error, path + " (" + f.setting + ") cannot be read as a certificate",
             "there is no TLS: mail comes in clear text, and senders that demand TLS do not deliver",
             "a file in PEM form that root can read");
    return area.take();
  }
  const auto left = std::chrono::floor<std::chrono::days>(*f.ends - now).count();
  const std::string renew = "renew it, and penstock reload";
  if (*f.begins > now)
    area.add(Level::error, path + " is not valid before " + utc_day(*f.begins),
             "whoever looks at it refuses the connection",
             "a certificate that is valid now, or the right time on this host");
  else if (left < 0)
    area.add(Level::error, path + " has expired on " + utc_day(*f.ends), "whoever looks at it refuses the connection",
             renew);
  else if (left < kSoon)
    area.add(Level::warning, fmt::format("{} expires in {} days, on {}", path, left, utc_day(*f.ends)),
             "whoever looks at it refuses the connection then", renew);
  else
    area.good(path + " is valid until " + utc_day(*f.ends));
  if (f.names_host && !*f.names_host)
    area.add(Level::warning, path + " is not for the name " + safe(host),
             "mail programs of users refuse it, and senders that go by MTA-STS",
             "a certificate with " + safe(host) + " among its names");
  if (!f.key_readable)
    area.add(Level::error, "the key of " + path + ", " + safe(f.key) + ", cannot be read", "there is no TLS",
             "a file in PEM form without a password that root can read");
  else if (f.key_fits && !*f.key_fits)
    area.add(Level::error, safe(f.key) + " is not the key of " + path, "there is no TLS",
             "the key with which this certificate was asked for");
  if (f.tlsa.state == State::found && !f.fit.empty()) {
    if (std::ranges::any_of(f.fit, [](const auto& one) { return one.value_or(false); }))
      area.good("a TLSA record of " + safe(host) + " is of " + path);
    else
      area.add(Level::error, "no TLSA record of _25._tcp." + safe(host) + " is of " + path,
               "senders that keep to DANE do not deliver to this host",
               "publish the record of the new certificate before it is used, and keep both for a while");
  }
  return area.take();
}

Findings judge_disk(const DiskFacts& f) {
  Area area("disk");
  const std::string path = safe(f.path);
  const auto mib = [](std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  const std::uint64_t least = std::max(4 * f.segment, f.largest_message * 2);
  if (f.bytes != 0 && f.free_bytes < least)
    area.add(Level::error, "only " + mib(f.free_bytes) + " are free for " + path, "new mail is refused soon, or now",
             "make room: " + mib(least) + " at least");
  else if (f.bytes != 0 && f.free_bytes < f.bytes / 20)
    area.add(Level::warning, "only " + mib(f.free_bytes) + " of " + mib(f.bytes) + " are free for " + path,
             "when the disk is full new mail is refused", "make room, or move queue_directory");
  else if (f.bytes != 0)
    area.good(mib(f.free_bytes) + " are free for " + path);
  if (f.inodes != 0 && f.free_inodes < kFewInodes)
    area.add(Level::error, fmt::format("only {} inodes are free for {}", f.free_inodes, path),
             "no new file can be made, however much room there is", "remove files, or make the file system anew");
  if (f.type == "tmpfs" || f.type == "ramfs")
    area.add(Level::error, path + " is in memory (" + f.type + ")", "a restart of the host loses all mail in the queue",
             "a queue_directory on a disk");
  else if (f.type == "nfs" || f.type == "cifs" || f.type == "fuse")
    area.add(Level::note, path + " is on a file system of the network or of a program (" + f.type + ")",
             "whether a sync reaches a disk is known to the other side alone", "a local disk, unless that is certain");
  if (f.no_barrier)
    area.add(Level::error, path + " is mounted with nobarrier", "a power cut may lose mail that was acknowledged",
             "mount it without nobarrier or barrier=0");
  if (!f.fault.empty()) {
    area.add(Level::error, "no file can be written and synced in " + path + ": " + safe(f.fault), "mail is not taken",
             "what the error says");
  } else if (!f.syncs.empty()) {
    auto sorted = f.syncs;
    std::ranges::sort(sorted);
    const milliseconds middle = sorted[sorted.size() / 2], worst = sorted.back();
    const std::string times =
        fmt::format("a sync of a small file in {} takes {} ms, at worst {} ms", path, middle.count(), worst.count());
    if (middle >= kHopelessSync)
      area.add(Level::error, times, "each acknowledgement of a message waits for one",
               "another disk; see what uses it");
    else if (middle >= kSlowSync || worst >= kHopelessSync)
      area.add(Level::warning, times, "each acknowledgement of a message waits for one", "see what else uses the disk");
    else
      area.good(times);
  }
  return area.take();
}

Findings judge_clock(const ClockFacts& f) {
  Area area("clock");
  const char* why = "certificates, signatures, retry times and the dates of messages go by the clock";
  if (f.now < f.built)
    area.add(Level::error, "the clock says " + utc_day(f.now) + ", before this program was built", why,
             "set it; run an NTP client");
  else if (f.newest_file > f.now + kClockSlack)
    area.add(Level::warning,
             "files of the mail system are from " + utc_day(f.newest_file) + ", the clock says " + utc_day(f.now), why,
             "set the clock; if it was wrong before, nothing is to be done");
  if (f.synchronised && !*f.synchronised)
    area.add(Level::note, "the kernel says that the clock is not synchronised", why,
             "run an NTP client, unless the host of this virtual machine keeps the time");
  else if (f.synchronised)
    area.good("the clock is synchronised");
  return area.take();
}

Findings judge_kernel(const KernelFacts& f) {
  Area area("kernel");
  if (f.open_files < f.wanted_files)
    area.add(Level::warning,
             fmt::format("a process may have {} open files, and {} are wanted for the settings", f.open_files,
                         f.wanted_files),
             "sessions beyond that are refused", "LimitNOFILE= of the unit, or ulimit -Hn");
  else
    area.good(fmt::format("a process may have {} open files", f.open_files));
  if (f.file_max != 0 && f.file_max < 4 * f.wanted_files)
    area.add(Level::warning, fmt::format("fs.file-max is {}", f.file_max),
             "it is for all processes of the host together", fmt::format("sysctl fs.file-max={}", 8 * f.wanted_files));
  if (f.somaxconn != 0 && f.somaxconn < 1024)
    area.add(Level::note, fmt::format("net.core.somaxconn is {}", f.somaxconn),
             "connections that come at the same moment are dropped beyond that", "sysctl net.core.somaxconn=4096");
  if (f.port_last > f.port_first && f.wanted_connections > f.port_last - f.port_first)
    area.add(Level::note,
             fmt::format("there are {} ports for outgoing connections, and the settings allow {}",
                         f.port_last - f.port_first, f.wanted_connections),
             "connections to one host beyond that fail", "sysctl net.ipv4.ip_local_port_range=\"1024 65535\"");
  if (f.overcommit == 2)
    area.add(Level::note, "vm.overcommit_memory is 2",
             "LMDB files and many processes reserve address space that they do not use, which counts then",
             "sysctl vm.overcommit_memory=0");
  return area.take();
}

Findings judge_server(const ServerFacts& f, const std::string& hostname) {
  Area area("servers");
  const std::string who = safe(f.what) + " at " + safe(f.address);
  if (f.own && !f.running) {
    area.add(Level::note, who + " does not listen: the mail system is not running", "no mail comes in",
             "penstock start");
  } else if (!f.connected) {
    area.add(f.own ? Level::error : Level::warning, who + " cannot be reached: " + safe(f.fault),
             f.own ? "clients cannot either" : "mail that needs it waits or is answered by its default action",
             f.own ? "see the log; a packet filter may be in the way" : "start it, or put the setting right");
  } else if (f.smtp && !f.greeting.starts_with("220")) {
    area.add(Level::error,
             who + (f.greeting.empty() ? " does not greet: " + safe(f.fault) : " greets with " + safe(f.greeting)),
             "clients go away", "see the log");
  } else if (f.smtp && f.own && to_lower(f.greeting).find(to_lower(hostname)) == std::string::npos) {
    area.add(Level::warning, who + " greets with " + safe(f.greeting) + ", without the name " + safe(hostname),
             "RFC 5321 wants the name, and senders look for their own to find loops",
             "begin smtpd_banner with $myhostname; or another program listens there");
  } else {
    area.good(who + " answers");
  }
  return area.take();
}

Findings judge_probe(const std::string& host, const std::vector<ServerFacts>& tries) {
  Area area("outgoing");
  const std::string name = safe(host);
  if (host.empty()) {
    area.add(Level::note, "whether port 25 of other hosts is reached from here was not tried",
             "many providers block outgoing port 25: then nothing can be delivered",
             "penstock doctor --probe HOST, with a host that takes mail, such as one of your former provider");
  } else if (std::ranges::any_of(tries, [](const auto& t) { return t.connected && t.greeting.starts_with("220"); })) {
    area.good("port 25 of " + name + " is reached from here");
  } else if (tries.empty()) {
    area.add(Level::warning, name + " has no address", "it cannot be tried", "name a host that takes mail");
  } else {
    const auto& last = tries.back();
    area.add(Level::warning,
             "port 25 of " + name +
                 " is not reached from here: " + safe(last.connected ? "it greets with " + last.greeting : last.fault),
             "many providers block outgoing port 25: then nothing can be delivered",
             "try another host; if none is reached, ask the provider, or send by a relayhost on port 587");
  }
  return area.take();
}

}  // namespace pen::tools
