#pragma once
/// Destinations: what trivial-rewrite answers, the scheduler shares connections by, and a delivery program connects to.
///
/// Two jobs share a connection only if their Destinations have the same key(): address and port, TLS policy,
/// credentials, source address and REQUIRETLS; and the host name where the TLS level authenticates it (above `may`).
/// For local, virtual, pipe and LMTP over a Unix socket the destination is transport and next hop.
/// Source:  docs/design.md, "The scheduler".
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc {

enum class TlsLevel : std::uint8_t { none, may, encrypt, fingerprint, verify, secure, dane, dane_only };

/// What an MTA-STS policy wants of the certificate: match names the MX host, as RFC 8461 section 4.1 compares it.
enum class StsMode : std::uint8_t {
  none,
  testing,  // what it lacks is reported and changes nothing
  enforce
};

struct TlsPolicy {
  TlsLevel level = TlsLevel::none;
  std::vector<std::string> match;          // names (verify, secure; ".example.org": any below) or digests (fingerprint)
  std::vector<std::string> tlsa;           // usable TLSA records (dane), presentation form
  std::string protocols, ciphers;          // empty: the setting's default
  std::string exclude;                     // ciphers besides those that the settings leave out
  std::string servername;                  // asked for by SNI; empty: none
  std::vector<std::string> trust_anchors;  // files with certificates to trust in place of the settings' ones
  StsMode sts = StsMode::none;
  PEN_FIELDS(level, match, tlsa, protocols, ciphers, exclude, servername, trust_anchors, sts)
  bool operator==(const TlsPolicy&) const = default;
};

struct Destination {
  std::string transport;  // master.cf service name: "smtp", "local", …
  std::string host;       // name (MX host); for local delivery the next hop
  std::string address;    // numeric; empty when unix_path or no network is involved
  std::uint16_t port = 0;
  std::string unix_path;  // LMTP
  TlsPolicy tls;
  std::string credentials;  // id of SASL credentials; empty: none
  std::string source;       // in qmgr: the source's name (docs/egress.md); in smtp: the address to bind; empty: any
  // RFC 8689: it carries mail with REQUIRETLS, and such mail only: nothing is sent before the peer has proved its
  // identity (tls says how) and has offered REQUIRETLS.
  bool requiretls = false;
  PEN_FIELDS(transport, host, address, port, unix_path, tls, credentials, source, requiretls)
  bool operator==(const Destination&) const = default;

  /// What connections are shared by: equal keys, same connection.
  std::string key() const {
    std::string k;
    append_key(k);
    return k;
  }
  void append_key(std::string& k) const {
    k += transport;
    k += '\0';
    if (!address.empty()) {
      k += address;
      k += '\0';
      k += std::to_string(port);
    } else {
      k += unix_path.empty() ? host : unix_path;
    }
    k += '\0';
    if (tls.level > TlsLevel::may) {
      k += host;
      k += '\0';
      encode_to(k, tls);
    } else {
      k += static_cast<char>('0' + static_cast<int>(tls.level));
      TlsPolicy plain;
      plain.level = tls.level;
      if (tls != plain) encode_to(k, tls);
    }
    k += '\0';
    k += credentials;
    k += '\0';
    k += source;
    if (requiretls) k.append("\0R", 2);
  }
  /// "mx.example.org[192.0.2.1]:25", the path, or the next hop: Postfix's relay= form.
  std::string shown() const {
    if (!address.empty()) return host + "[" + address + "]:" + std::to_string(port);
    if (!unix_path.empty()) return host + "[" + unix_path + "]";
    return transport.empty() ? host : transport;
  }
};

}  // namespace pen::ipc
