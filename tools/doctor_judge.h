#pragma once
/// What the facts that penstock doctor gathered mean. Pure: no I/O, no clock.
///
/// Use:     Findings f = judge_names(facts);
/// Rules:   what could not be found out is a note and never called wrong. One of level ok says what was looked at.
/// Source:  RFC 5321 2.3.5 and 4.1.4 (names), 7208 (SPF), 7489 (DMARC), 7672 (DANE), 8461 (MTA-STS).
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/trust/spf/record.h"
#include "tools/doctor_finding.h"

namespace pen::tools {

/// What DNS says to one question.
struct Told {
  enum class State { found, missing, unknown } state = State::unknown;
  std::vector<std::string> values;  // of found
};

struct DomainFacts {
  std::string name;
  Told mx_addresses;                  // of all its mail hosts
  std::vector<std::string> lost;      // mail hosts without an address
  Told mx, addresses;                 // mx: hosts, the most preferred first; "" alone: the domain takes no mail
  Told spf, dmarc, mta_sts;           // TXT records there
  std::optional<std::string> policy;  // MTA-STS: the text that its host gave
  std::string policy_fault;           // why there is none
};
struct NameFacts {
  std::string hostname;                    // myhostname
  std::string helo;                        // smtp_helo_name
  Told addresses;                          // of hostname
  std::map<std::string, Told> reverse;     // of each of these addresses
  std::vector<std::string> own_addresses;  // of this host's interfaces
  std::vector<DomainFacts> domains;        // that receive mail here
};
Findings judge_names(const NameFacts& facts);

/// Whether mail from this address may come from the domain, as far as the record itself says; nullopt: that depends on
/// other names' records. `mx`, `a`: addresses of the domain's mail hosts and of itself.
std::optional<bool> spf_allows(const spf::Record& record, const std::string& address,
                               const std::vector<std::string>& mx, const std::vector<std::string>& a);
/// An address that nobody outside can reach.
bool private_address(const std::string& address);

struct KeyFacts {
  std::string name;   // selector._domainkey.domain
  std::string fault;  // of the private key; empty: it can be read
  Told records;
  std::optional<bool> same;  // a record holds this key
  bool testing = false;
};
Findings judge_keys(const std::vector<KeyFacts>& keys);

struct CertificateFacts {
  std::string setting, path, key;
  bool readable = false;
  std::optional<WallTime> begins, ends;
  std::optional<bool> names_host, key_fits;
  bool key_readable = false;
  Told tlsa;                             // of _25._tcp.host
  std::vector<std::optional<bool>> fit;  // each TLSA record, in their order
};
Findings judge_certificate(const CertificateFacts& facts, const std::string& host, WallTime now);

struct DiskFacts {
  std::string path;
  std::uint64_t bytes = 0, free_bytes = 0, inodes = 0, free_inodes = 0;
  std::uint64_t segment = 0, largest_message = 0;
  std::vector<milliseconds> syncs;  // times of writing and syncing a small file
  std::string fault;                // why they could not be measured
  std::string type;                 // of the file system: "ext4", "tmpfs", "nfs"
  bool no_barrier = false;          // it is mounted so that a sync may not reach the disk
};
Findings judge_disk(const DiskFacts& facts);

struct ClockFacts {
  WallTime now{}, newest_file{};     // newest_file: of what the mail system wrote
  WallTime built{};                  // of the program: no time before it is right
  std::optional<bool> synchronised;  // as the kernel knows
};
Findings judge_clock(const ClockFacts& facts);

struct KernelFacts {
  std::uint64_t open_files = 0;  // limit of one process
  std::uint64_t wanted_files = 0;
  std::uint64_t file_max = 0, somaxconn = 0, port_first = 0, port_last = 0;
  int overcommit = 0;
  std::uint64_t wanted_connections = 0;  // outgoing, at once
};
Findings judge_kernel(const KernelFacts& facts);

/// A server that should answer on a connection.
struct ServerFacts {
  std::string what;  // "service smtp/inet", "milter inet:…", "policy server …", "table …"
  std::string address;
  bool connected = false;
  std::string greeting;  // of SMTP
  bool smtp = false;
  std::string fault;
  bool own = false;     // a service of ours, which runs only with the mail system
  bool running = true;  // the mail system
};
Findings judge_server(const ServerFacts& facts, const std::string& hostname);
/// Whether port 25 of a host elsewhere was reached. Without a name: nobody was tried.
Findings judge_probe(const std::string& host, const std::vector<ServerFacts>& tries);

}  // namespace pen::tools
