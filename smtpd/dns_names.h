#pragma once
/// Answers Names from DNS; a host's addresses come from the hosts file first.
///
/// Source:  RFC 5321 section 5.1 (what a mail domain is), RFC 7505 (null MX); the client's name is believed only when
///          its addresses lead back to the client, as in Postfix.
/// Thread:  the loop's.
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/net/dns.h"
#include "lib/receive/resolve/dns_filter.h"
#include "smtpd/names.h"

namespace pen::smtpd {

class DnsNames final : public Names {
 public:
  /// Both must outlive it; the pool reads the hosts file.
  DnsNames(net::Resolver& resolver, async::HandlerPool& pool, std::string hosts_file = "/etc/hosts")
      : resolver_(resolver), pool_(pool), hosts_file_(std::move(hosts_file)) {}
  /// smtpd_dns_reply_filter: what is asked about clients' and senders' names and in DNS lists. The tables must outlive
  /// this object.
  void filter_by(resolve::DnsFilter filter, map::Asker& tables) {
    filter_ = std::move(filter);
    tables_ = &tables;
  }
  async::Task<ClientName> client(std::string address, async::Until until) override;
  async::Task<NameState> mail_domain(std::string domain, async::Until until) override;
  async::Task<HostAddresses> addresses(std::string name, Families families, async::Until until) override;
  async::Task<net::DnsAnswer> records(std::string name, net::RecordType type, async::Until until) override;
  async::Task<NameState> host(std::string name, async::Until until) override;

 private:
  async::Task<NameState> has_address(std::string name, async::Until until);
  async::Task<net::DnsAnswer> filtered(std::string name, net::RecordType type, async::Until until);
  net::Resolver& resolver_;
  async::HandlerPool& pool_;
  std::string hosts_file_;
  resolve::DnsFilter filter_;
  map::Asker* tables_ = nullptr;  // set with a filter
};

}  // namespace pen::smtpd
