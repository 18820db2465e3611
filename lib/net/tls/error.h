#pragma once
/// Why setting TLS up or a handshake failed.
#include "lib/base/result.h"

namespace pen::tls {

enum class TlsError {
  setup = 1,     // our certificates, keys, lists or settings: the context names file and reason
  unreadable,    // one of our files cannot be opened; the errno has the reason
  handshake,     // the peer and we cannot agree; the context has the subject
  disconnected,  // the peer closed the connection before the handshake was done
};
inline std::string_view error_module(TlsError) { return "tls"; }
inline std::string_view describe(TlsError e) {
  switch (e) {
    case TlsError::setup:
      return "cannot be used";
    case TlsError::unreadable:
      return "cannot be read";
    case TlsError::handshake:
      return "TLS handshake failed";
    case TlsError::disconnected:
      return "connection lost in the TLS handshake";
  }
  return "unknown";
}

}  // namespace pen::tls
