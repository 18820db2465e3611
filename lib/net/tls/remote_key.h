#pragma once
/// A key whose private part is elsewhere: OpenSSL signs with it by asking, and the handshake rests until the answer is
/// there.
///
/// Use:     auto key = remote_key(public_key.get(), signer);   SSL_CTX_use_PrivateKey(ctx, key->get()) …
///          SSL_set_mode(ssl, SSL_MODE_ASYNC); SSL_do_handshake() ends with SSL_ERROR_WANT_ASYNC while an answer is not
///          there; call it again when it is. drop_resting(ssl) before such an SSL is freed.
/// Rules:   outside of such a handshake an answer that is not there at once is an error. Nothing but signing: no
///          export of more than the public part, no decryption.
/// Owns:    the signer, as long as the key lives.
/// Types:   RSA (PKCS #1, PSS with a salt of the digest's size), ECDSA, Ed25519.
/// Thread:  one.
/// Source:  docs/keys.md; provider-keymgmt(7), provider-signature(7). Internal to lib/net/tls.
#include <openssl/evp.h>

#include <memory>

#include "lib/net/tls/openssl.h"
#include "lib/net/tls/remote_signer.h"

namespace pen::tls {

/// nullptr: a key of another type.
KeyPtr remote_key(EVP_PKEY* public_key, std::shared_ptr<RemoteSigner> signer);

/// For a callback of OpenSSL's in a handshake: rests until the answer is there. False: there is none to be had.
bool rest_until(PendingAnswer& pending);

/// While it lives, `wake` is what wakes a handshake that comes to rest.
class Rests {
 public:
  explicit Rests(std::weak_ptr<const std::function<void()>> wake);
  ~Rests();
  Rests(const Rests&) = delete;
  Rests& operator=(const Rests&) = delete;
};

/// Lets a handshake that rests fail. SSL_free() alone would leave its stack and what lies on it.
void drop_resting(SSL* ssl);

}  // namespace pen::tls
