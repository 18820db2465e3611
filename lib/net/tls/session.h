#pragma once
/// TLS on a Stream: the handshake, and its facts about the peer.
///
/// Use:     auto info = co_await tls::accept(stream, context, until);                        // server
///          auto info = co_await tls::connect(stream, context, {.server_name = mx}, until);  // client
///          if (!info) … the stream is broken; close it …                                   // else use it as before
/// STARTTLS: nothing may be buffered in the stream, in either direction, when this is called (PEN_CHECKed). The caller
///          has flushed its "220", and has refused or dropped cleartext input behind the command (RFC 3207 section
///          4.2, CVE-2011-0411).
/// After:   the stream works as before. While idle it holds OpenSSL's state without record buffers. shutdown() sends
///          close_notify. The end of input reads the same with or without the peer's close_notify, because SMTP marks
///          the end of its messages itself; Stream::cut_short() tells the two cases apart.
/// Bounds:  a handshake message of at most 128 KiB, a certificate chain of 100 KiB (OpenSSL's), 17 KiB per record; no
///          renegotiation, no compression. The caller's `until` bounds the time.
/// Errors:  TlsError::handshake and disconnected; WaitError::timed_out and cancelled.
/// Thread:  the loop's. SIGPIPE must be ignored in the process.
/// Source:  RFC 8446, RFC 5246, RFC 3207, RFC 7672; Postfix TLS_README.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/net/tls/context.h"
#include "lib/net/tls/error.h"
#include "lib/net/tls/tlsa.h"

namespace pen::tls {

/// The results of a handshake: what was agreed on and proved.
struct SessionInfo {
  std::string protocol;  // "TLSv1.3"
  std::string cipher;    // "TLS_AES_256_GCM_SHA384"
  int used_bits = 0, cipher_bits = 0;
  // TLS 1.3 only, as in Postfix's log: "X25519", "ECDHE (prime256v1)", "RSA-PSS (2048 bits)", "SHA256"
  std::string key_exchange, server_signature, server_digest, client_signature, client_digest;
  std::string server_name;  // SNI, as received (server) or sent (client)
  bool resumed = false;

  bool peer_certificate = false;
  std::string subject, issuer;               // common names (the issuer's: else the organisation); safe to print
  std::string fingerprint, key_fingerprint;  // "AB:CD:…" of the certificate and of its public key
  std::vector<std::string> names;            // the certificate's DNS names (its common name where there are none)
  bool trusted = false;                      // the chain ends in a CA of the context, or DANE accepts it
  bool matched = false;                      // trusted, and valid for one of the required names (or by DANE)
  std::string why_not;                       // when not trusted or not matched
};

/// "Anonymous", "Untrusted", "Trusted" or "Verified".
std::string_view trust_word(const SessionInfo& info);
/// The line that Postfix logs; direction is "from" or "to": "Anonymous TLS connection established from a[1]: TLSv1.3
/// …".
std::string log_line(const SessionInfo& info, std::string_view direction, std::string_view peer);

struct ConnectOptions {
  std::string server_name = {};  // SNI; empty: none (addresses have none)
  std::vector<std::string> names =
      {};  // the certificate must be valid for one of these; ".example.com": any name below it
  /// The rules of RFC 8461 section 4.1: only DNS names of the certificate count, no common name, and a wildcard stands
  /// for one label, whatever the context says.
  bool strict_names = false;
  std::vector<Tlsa> tlsa = {};  // if not empty, only these count, not the context's CAs
  std::string tlsa_base = {};   // for DANE-TA: the name that has these records
  /// The key for looking up a session to resume and for keeping the new one. It must differ wherever the peer, the
  /// policy or the demands on the certificate differ. Empty: no resumption.
  std::string session_key = {};
  std::optional<Protocols> protocols = {};  // in place of the context's
  std::string ciphers = {};                 // the same; empty: the context's
};

/// Never fails because a certificate is not trusted or is for another name: the caller checks the SessionInfo before
/// it sends anything.
[[gnu::noinline]] async::Task<Result<SessionInfo>> connect(async::Stream& stream,
                                                           std::shared_ptr<const Context> context,
                                                           ConnectOptions options, async::Until until);
/// The server's side. A client certificate that is required and missing fails the handshake; an untrusted one does
/// not.
[[gnu::noinline]] async::Task<Result<SessionInfo>> accept(async::Stream& stream, std::shared_ptr<const Context> context,
                                                          async::Until until);

}  // namespace pen::tls
