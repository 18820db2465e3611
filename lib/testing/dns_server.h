#pragma once
/// A DNS server on loopback, UDP and TCP on one port, that answers as the test says, true or not.
///
/// Use:     DnsServer dns; dns.mx("example.org", 10, "mx.example.org"); dns.a("mx.example.org", "192.0.2.1");
///          dns.on("evil.example", [](const DnsServer::Query& q) { return std::vector{dns_reply(q, …)}; });
/// Unknown names get NXDOMAIN with an SOA; names without records of the type get an empty answer with an SOA.
/// Thread:  the server has its own; every function may be called from any thread. Handlers run in the server's thread.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace pen::testing {

class DnsServer {
 public:
  struct Query {
    std::string name;  // lower case
    std::uint16_t type = 0;
    std::uint16_t id = 0;
    bool tcp = false;
    bool edns = false;
    std::string question;  // in wire form
  };
  struct Record {
    std::string name;
    std::uint16_t type = 0;
    std::uint32_t ttl = 300;
    std::string data;  // in wire form
  };
  struct Reply {
    unsigned rcode = 0;
    bool truncated = false;
    bool authenticated = false;
    std::vector<Record> answers;
    std::vector<Record> authority;
  };
  // Returns the datagrams to send, in order.
  using Handler = std::function<std::vector<std::string>(const Query&)>;

  DnsServer();
  ~DnsServer();
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;
  unsigned short port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void add(Record record);
  void a(const std::string& name, const std::string& address, std::uint32_t ttl = 300);
  void aaaa(const std::string& name, const std::string& address, std::uint32_t ttl = 300);
  void mx(const std::string& name, unsigned preference, const std::string& host, std::uint32_t ttl = 300);
  void cname(const std::string& name, const std::string& target, std::uint32_t ttl = 300);
  /// "usage selector matching hex".
  void tlsa(const std::string& name, const std::string& text, std::uint32_t ttl = 300);
  /// Answers for this name carry the AD bit, if all names in the answer are secure.
  void secure(const std::string& name);
  /// Every question for the name gets this rcode.
  void rcode(const std::string& name, unsigned code);
  void on(const std::string& name, Handler handler);
  /// The number of questions so far, all or for one name.
  unsigned asked(const std::string& name = {}) const;

  static std::string wire_name(const std::string& name);
  static std::string mx_data(unsigned preference, const std::string& host);
  static std::string a_data(const std::string& address);
  static Record soa(const std::string& zone, std::uint32_t ttl, std::uint32_t minimum);
  static std::string wire(const Query& query, const Reply& reply);

 private:
  void serve();
  std::vector<std::string> answer(const Query& query);
  void serve_tcp();

  int udp_ = -1, tcp_ = -1, wake_[2] = {-1, -1};
  unsigned short port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Record> records_;
  std::map<std::string, Handler> handlers_;
  std::map<std::string, unsigned> asked_;
  std::set<std::string> secure_;
  std::thread thread_;
};

}  // namespace pen::testing
