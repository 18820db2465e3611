/// OpenSSL's callbacks into a server during the handshake: the key of a ticket, the certificate for a name.
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "lib/net/tls/openssl.h"
#include "lib/net/tls/remote_key.h"

namespace pen::tls {
namespace {

Context::Impl& impl_of(SSL* ssl) { return *static_cast<Context::Impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))); }

/// AES-256-CBC and HMAC-SHA256 under one of our keys. Returns 0: unknown key; 1: continue; 2: continue, and give the
/// client a new ticket.
int ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac,
               int encrypt) {
  TicketKeys& keys = *impl_of(ssl).options.tickets;
  const EVP_CIPHER* algorithm = EVP_aes_256_cbc();
  const TicketKeys::Key* key = nullptr;
  if (encrypt != 0) {
    key = &keys.current();
    std::copy(key->name.begin(), key->name.end(), name);
    if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(algorithm)) != 1) return -1;
  } else {
    key = keys.find({reinterpret_cast<const std::byte*>(name), TicketKeys::kName});
    if (!key) return 0;
  }
  char digest[] = "SHA256";
  auto secret = key->mac;
  OSSL_PARAM parameters[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, secret.data(), secret.size()),
                             OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                             OSSL_PARAM_construct_end()};
  const bool ready = EVP_MAC_CTX_set_params(mac, parameters) == 1 &&
                     EVP_CipherInit_ex(cipher, algorithm, nullptr, key->cipher.data(), iv, encrypt) == 1;
  OPENSSL_cleanse(secret.data(), secret.size());
  if (!ready) return -1;
  return encrypt == 0 && keys.ageing(*key) ? 2 : 1;
}

bool use(SSL* ssl, const std::vector<Chain>& chains) {
  SSL_certs_clear(ssl);
  bool used = true;
  for (std::size_t i = 0; used && i < chains.size(); ++i) {
    const Chain& chain = chains[i];
    STACK_OF(X509)* issuers = sk_X509_new_null();
    for (const auto& issuer : chain.issuers) sk_X509_push(issuers, issuer.get());
    used = SSL_use_cert_and_key(ssl, chain.certificate.get(), chain.key.get(), issuers, 1) == 1;
    sk_X509_free(issuers);
  }
  return used;
}

/// The handshake rests until the holder of the keys has said which certificate is shown.
int ask_for_name(SSL* ssl, Context::Impl& impl, const char* name, int* alert) {
  const auto pending = impl.options.ask_chain(name);
  if (!pending) return SSL_TLSEXT_ERR_NOACK;
  *alert = SSL_AD_INTERNAL_ERROR;
  if (!rest_until(*pending) || pending->refused) return SSL_TLSEXT_ERR_ALERT_FATAL;
  if (pending->certificates.empty()) return SSL_TLSEXT_ERR_NOACK;
  std::vector<Chain> chains;
  for (const auto& one : pending->certificates) {
    auto chain = remote_chain(one, name);
    if (!chain) return SSL_TLSEXT_ERR_ALERT_FATAL;
    chains.push_back(*std::move(chain));
  }
  return use(ssl, chains) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int server_name(SSL* ssl, int* alert, void*) {
  Context::Impl& impl = impl_of(ssl);
  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name != nullptr && impl.options.ask_chain) return ask_for_name(ssl, impl, name, alert);
  if (name == nullptr || !impl.options.find_chain) return SSL_TLSEXT_ERR_NOACK;
  auto pem = impl.options.find_chain(name);
  if (!pem) {
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  if (!*pem) return SSL_TLSEXT_ERR_NOACK;  // use the default certificate
  auto chains = parse_chains(**pem, name);
  if (chains && use(ssl, *chains)) return SSL_TLSEXT_ERR_OK;
  *alert = SSL_AD_INTERNAL_ERROR;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// The first of ours that the client offers; without any the handshake ends with the alert no_application_protocol.
int application_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                         unsigned offered_size, void*) {
  for (const std::string& ours : impl_of(ssl).options.application_protocols) {
    for (unsigned at = 0; at < offered_size; at += 1U + offered[at]) {
      const std::string_view one(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
      if (one != ours) continue;
      *chosen = offered + at + 1;
      *size = offered[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

void install_server_callbacks(Context::Impl& impl) {
  SSL_CTX_set_app_data(impl.ctx.get(), &impl);
  if (impl.options.tickets) SSL_CTX_set_tlsext_ticket_key_evp_cb(impl.ctx.get(), ticket_key);
  SSL_CTX_set_tlsext_servername_callback(impl.ctx.get(), server_name);
  if (!impl.options.application_protocols.empty())
    SSL_CTX_set_alpn_select_cb(impl.ctx.get(), application_protocol, nullptr);
}

}  // namespace pen::tls
