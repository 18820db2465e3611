#pragma once
/// DNS: a stub resolver over our own sockets, with a cache, for many look-ups at once.
///
/// Use:     Resolver dns(loop, pool, options);
///          DnsAnswer a = co_await dns.lookup("example.org", RecordType::mx, until);
/// Answers: found
///          no_data      the name exists, but has no records of this type
///          no_domain    the name does not exist
///          temporary    everything else: time-out, SERVFAIL, a malformed answer
///          Only the first three are facts; temporary is never cached.
///          Aliases (CNAME) are followed, within the answer and by further questions, at most kMaxAliases.
/// Safety:  each question has a random id, and a random source port of its own or shared with few (dns_sockets.h); an
///          answer must come from the asked server and match id and question. Names, sets and sizes are bounded. A
///          truncated answer is asked for again over TCP. Identical questions at the same time are sent once.
/// Thread:  the loop's. Waiting is on lib/base/async; only `native` look-ups use the handler pool.
/// Source:  RFC 1035, 2308 (negative answers), 5452 (resilience), 6891 (EDNS), 7505 (the caller handles null MX).
///          Postfix: dns_resolver_addresses is read here; the caller passes smtp_host_lookup to lookup_host().
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/stream.h"
#include "lib/base/random.h"

namespace pen::net {

enum class RecordType : std::uint16_t {
  a = 1,
  ns = 2,
  cname = 5,
  soa = 6,
  ptr = 12,
  mx = 15,
  txt = 16,
  aaaa = 28,
  srv = 33,
  tlsa = 52
};
enum class DnsOutcome : std::uint8_t { found, no_data, no_domain, temporary };

struct DnsRecord {
  RecordType type = RecordType::a;
  std::string name;  // owner, lower case, no final dot
  seconds ttl{0};
  std::uint16_t preference = 0;        // MX; SRV: its priority
  std::uint16_t weight = 0, port = 0;  // SRV
  /// A, AAAA: numeric address. CNAME, NS, PTR, MX, SRV: name, lower case, no final dot ("" is the root: null MX,
  /// no such service). TXT: the
  /// strings joined. TLSA: "usage selector matching hex".
  std::string data;
};
struct DnsAnswer {
  DnsOutcome outcome = DnsOutcome::temporary;
  std::string name;                // after following aliases
  std::vector<DnsRecord> records;  // of the asked type, owned by `name`
  seconds ttl{0};                  // how long the answer is valid from now, aliases and negative answers included
  // AD bit: all replies on the way had it. The caller decides whether the path to the resolver is trusted.
  bool authenticated = false;
  /// For people, when not found: "Host not found", "Host found but no data record of requested
  /// type", "Host not found, try again", …
  std::string text;
};

inline constexpr std::size_t kMaxAliases = 8;
inline constexpr std::size_t kMaxRecords = 1000;  // per answer; more are dropped

struct ResolverOptions {
  std::vector<async::SocketAddress> servers;  // in order of preference; empty: 127.0.0.1:53
  milliseconds timeout{3000};                 // per try
  unsigned tries = 2;                         // rounds over all servers
  std::size_t max_under_way = 1000;           // questions sent and unanswered; further ones wait
  std::size_t cache_entries = 20000;
  std::size_t cache_bytes = 16u << 20;  // bounds the memory that a hostile zone of large sets can take
  seconds max_ttl{3600};
  seconds max_negative_ttl{900};
  bool dnssec = false;  // set DO and want AD
};
/// Servers from the setting dns_resolver_addresses ("192.0.2.53 [2001:db8::1]:5353"). Errors:
/// DnsError::bad_address.
Result<std::vector<async::SocketAddress>> parse_servers(std::string_view text, unsigned short default_port = 53);
/// Reads nameserver and options timeout:, attempts: from the text of resolv.conf. Unknown lines are skipped, as in
/// libc.
void apply_resolv_conf(std::string_view text, ResolverOptions& options);

enum class DnsError { bad_address = 1, malformed, mismatch, truncated, bad_name };
std::string_view error_module(DnsError);
std::string_view describe(DnsError);

/// Where a host's addresses come from: smtp_host_lookup.
enum class HostLookup : std::uint8_t { dns, native, dns_then_native, native_then_dns };

class Resolver {
 public:
  Resolver(async::Loop& loop, async::HandlerPool& pool, ResolverOptions options);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// The records of one type. A name that DNS cannot hold gives no_domain at once. until: ends this wait with
  /// `temporary`; the question itself continues for other callers and the cache.
  async::Task<DnsAnswer> lookup(std::string name, RecordType type, async::Until until = {});
  /// A or AAAA records (type says which), by DNS or by the host's own files, as `how` says.
  async::Task<DnsAnswer> lookup_host(std::string name, RecordType type, HostLookup how, async::Until until = {});
  /// The PTR records of a numeric address.
  async::Task<DnsAnswer> lookup_reverse(std::string address, async::Until until = {});

  struct Counts {
    std::uint64_t asked = 0, cached = 0, joined = 0, sent = 0, over_tcp = 0, timed_out = 0, refused_answers = 0;
    std::size_t under_way = 0, cache_entries = 0;
  };
  Counts counts() const;
  void clear_cache();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::net
