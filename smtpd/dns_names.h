#pragma once
/// Names answered by DNS.
///
/// Source:  RFC 5321 section 5.1 (what a mail domain is), RFC 7505 (null MX); the client's name is believed only when
///          its addresses lead back to the client, as in Postfix.
/// Thread:  the loop's.
#include "lib/net/dns.h"
#include "smtpd/names.h"

namespace pen::smtpd {

class DnsNames final : public Names {
 public:
  explicit DnsNames(net::Resolver& resolver) : resolver_(resolver) {}
  async::Task<ClientName> client(std::string address, async::Until until) override;
  async::Task<NameState> mail_domain(std::string domain, async::Until until) override;
  async::Task<std::vector<std::string>> addresses(std::string name, async::Until until) override;
  async::Task<NameState> host(std::string name, async::Until until) override;

 private:
  async::Task<NameState> has_address(std::string name, async::Until until);
  net::Resolver& resolver_;
};

}  // namespace pen::smtpd
