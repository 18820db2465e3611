#pragma once
/// The program that holds the private key of a certificate that is used here: it is asked in a handshake, which rests
/// meanwhile.
///
/// Use:     options.remote = {{.certificates = pem, .signer = signer}};     // in place of pairs and chain_files
///          … ask() sends the request; when the answer comes: pending->signature = …; pending->settle();
/// Rules:   settle() once. A Pending that nobody else holds any more is not waited for: its handshake has ended.
/// Thread:  the loop's.
/// Source:  docs/keys.md.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pen::tls {

/// Which signature.
struct SignatureForm {
  enum class Kind { pkcs1, pss, ecdsa, text } kind = Kind::pkcs1;
  int digest_bits = 0;  // of SHA-2; 0 with text
};

/// Something that was asked for.
struct PendingAnswer {
  bool answered = false;
  std::weak_ptr<const std::function<void()>> wake = {};  // of the handshake that rests
  void settle() {
    answered = true;
    if (const auto waiting = wake.lock()) (*waiting)();
  }
};
struct PendingSignature : PendingAnswer {
  std::optional<std::string> signature;  // nullopt: refused
};

class RemoteSigner {
 public:
  virtual ~RemoteSigner() = default;
  /// data: the digest, or the text itself with Kind::text. Never waits.
  virtual std::shared_ptr<PendingSignature> ask(SignatureForm form, std::string data) = 0;
};

struct RemoteCertificate {
  std::string certificates;  // PEM, its own first
  std::shared_ptr<RemoteSigner> signer;
};
/// What is shown to a client that asked for a name; none: the default certificates.
struct PendingChain : PendingAnswer {
  bool refused = false;  // the handshake ends
  std::vector<RemoteCertificate> certificates;
};

}  // namespace pen::tls
