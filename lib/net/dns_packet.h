#pragma once
/// DNS messages: encodes questions, decodes answers. No sockets, no cache.
///
/// Safety:  an answer is accepted only if id, question, and the reply bit match. A record whose name holds bytes that
///          no host name has is dropped. The packet (at most 64 KiB) bounds counts and sizes.
/// Source:  RFC 1035 section 4, RFC 6891 (EDNS), RFC 2308 (SOA minimum). ldns reads the wire form.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/net/dns.h"

namespace pen::net {

/// The permitted size of UDP answers: passes every network path (RFC 9715 advises 1232..1400).
inline constexpr std::uint16_t kUdpSize = 1232;

struct DnsQuestion {
  std::string name;  // lower case, no final dot
  RecordType type = RecordType::a;
};
/// A name in the form used here (lower case, no final dot, A-labels instead of U-labels). nullopt: DNS cannot hold it,
/// or no host can have such a name.
std::optional<std::string> normal_name(std::string_view name);

/// The wire form of a question with recursion desired.
Result<std::string> build_query(const DnsQuestion& question, std::uint16_t id, bool edns, bool dnssec);

struct DnsReply {
  unsigned rcode = 0;
  bool truncated = false;
  bool authenticated = false;
  std::vector<DnsRecord> answers;  // of the types in RecordType, in order, at most kMaxRecords
  bool dropped = false;            // some record was malformed or too many
  bool has_soa = false;
  seconds negative_ttl{0};  // from the authority section's SOA: min(TTL, MINIMUM)
};
/// Errors: malformed; mismatch (another id or question, or not a reply).
Result<DnsReply> parse_reply(std::string_view wire, const DnsQuestion& question, std::uint16_t id);

/// The content of one reply: an answer, or the alias to ask for next (`next` not empty).
struct DnsReading {
  DnsAnswer answer;
  std::string next;
};
/// aliases: how many were followed so far; this call adds its own. Pure.
DnsReading read_reply(const DnsReply& reply, const DnsQuestion& question, std::size_t& aliases);

}  // namespace pen::net
