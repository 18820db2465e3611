#pragma once
/// The name of the host at the other end of a connection, by DNS.
///
/// Use:     const PeerName who = co_await peer_name(resolver, "192.0.2.1", until);
///          if (who.verified == PeerName::State::ok) … who.name
/// Rule:    a name is believed only when its addresses lead back to the host, as in Postfix. Loopback addresses have
///          the name localhost (RFC 6761 section 6.3), for which no server is asked.
/// Thread:  the loop's.
#include <string>

#include "lib/net/dns.h"

namespace pen::resolve {

struct PeerName {
  enum class State : std::uint8_t {
    ok,
    missing,    // certainly not so
    temporary,  // cannot be found out now
  };
  State verified = State::missing;  // name and address agree both ways
  State reverse = State::missing;   // there is a PTR name at all
  State forward = State::missing;   // the PTR name has an address of the host's family
  std::string name;                 // when verified is ok
  std::string reverse_name;         // when reverse is ok
};

async::Task<PeerName> peer_name(net::Resolver& resolver, std::string address, async::Until until);

}  // namespace pen::resolve
