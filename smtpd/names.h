#pragma once
/// What smtpd asks of DNS and /etc/hosts, as an interface: dns_names.cc answers from lib/net, tests from a table.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/meaning/smtpd/proxy_settings.h"
#include "lib/net/dns.h"

namespace pen::smtpd {

enum class NameState : unsigned char {
  ok,
  missing,    // certainly does not exist
  temporary,  // cannot be found out now
  null_mx,    // RFC 7505: accepts no mail (domains only)
};

struct ClientName {
  NameState verified = NameState::missing;  // name and address agree both ways
  NameState reverse = NameState::missing;   // there is a PTR name at all
  std::string name;                         // when verified is ok
  std::string reverse_name;                 // when reverse is ok
  NameState forward = NameState::missing;   // the PTR name has an address of the client's family
};

struct HostAddresses {
  NameState state = NameState::missing;  // ok, missing or temporary
  std::vector<std::string> addresses;    // when ok: at least one, numeric, IPv4 first
  std::string why;                       // when not, for the log
};

class Names {
 public:
  virtual ~Names() = default;
  /// The name of a client by address, verified by looking up its addresses.
  virtual async::Task<ClientName> client(std::string address, async::Until until) = 0;
  /// Whether mail to the domain could go anywhere: MX, or A or AAAA.
  virtual async::Task<NameState> mail_domain(std::string domain, async::Until until) = 0;
  /// A host's addresses, of these families: from /etc/hosts as it is now or, where that has none, from the suite's
  /// DNS servers and what is kept of their answers.
  virtual async::Task<HostAddresses> addresses(std::string name, Families families, async::Until until) = 0;
  /// The records of one type, from DNS alone.
  virtual async::Task<net::DnsAnswer> records(std::string name, net::RecordType type, async::Until until) = 0;
  /// Whether a host of that name exists: A, AAAA or MX.
  virtual async::Task<NameState> host(std::string name, async::Until until) = 0;
};

}  // namespace pen::smtpd
