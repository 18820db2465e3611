#include "lib/net/tls/remote_key.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::tls;

namespace {

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

/// Has the key, and answers when the test says so.
struct Holder final : RemoteSigner {
  explicit Holder(EVP_PKEY* k) : key(k) {}
  std::shared_ptr<PendingSignature> ask(SignatureForm form, std::string data) override {
    last = std::make_shared<PendingSignature>();
    wanted = form;
    said = std::move(data);
    ++asked;
    if (at_once) answer();
    return last;
  }
  void answer() {
    using Kind = SignatureForm::Kind;
    std::string out(static_cast<std::size_t>(EVP_PKEY_get_size(key)), '\0');
    std::size_t size = out.size();
    if (wanted.kind == Kind::text) {
      const std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>> c(EVP_MD_CTX_new());
      BOOST_REQUIRE(EVP_DigestSignInit(c.get(), nullptr, nullptr, nullptr, key) == 1);
      BOOST_REQUIRE(EVP_DigestSign(c.get(), bytes_of(out), &size, bytes_of(said), said.size()) == 1);
    } else {
      const std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>> c(EVP_PKEY_CTX_new(key, nullptr));
      const EVP_MD* md = wanted.digest_bits == 256   ? EVP_sha256()
                         : wanted.digest_bits == 384 ? EVP_sha384()
                                                     : EVP_sha512();
      BOOST_REQUIRE(EVP_PKEY_sign_init(c.get()) == 1 && EVP_PKEY_CTX_set_signature_md(c.get(), md) == 1);
      if (wanted.kind == Kind::pss) {
        BOOST_REQUIRE(EVP_PKEY_CTX_set_rsa_padding(c.get(), RSA_PKCS1_PSS_PADDING) == 1);
        BOOST_REQUIRE(EVP_PKEY_CTX_set_rsa_pss_saltlen(c.get(), RSA_PSS_SALTLEN_DIGEST) == 1);
      }
      BOOST_REQUIRE(EVP_PKEY_sign(c.get(), bytes_of(out), &size, bytes_of(said), said.size()) == 1);
    }
    out.resize(size);
    last->signature = std::move(out);
    last->answered = true;
  }
  void refuse() { last->answered = true; }

  EVP_PKEY* key;
  std::shared_ptr<PendingSignature> last;
  SignatureForm wanted;
  std::string said;
  int asked = 0;
  bool at_once = false;
};

/// A server with its key elsewhere, and a client, over memory.
struct Pair {
  explicit Pair(EVP_PKEY* k, int version) : key(k), holder(std::make_shared<Holder>(k)) {
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), k);
    BOOST_REQUIRE(X509_sign(certificate.get(), k, EVP_PKEY_is_a(k, "ED25519") == 1 ? nullptr : EVP_sha256()) > 0);
    remote = remote_key(X509_get0_pubkey(certificate.get()), holder);
    BOOST_REQUIRE(remote != nullptr);
    BOOST_REQUIRE(SSL_CTX_use_certificate(server_ctx.get(), certificate.get()) == 1);
    BOOST_REQUIRE(SSL_CTX_use_PrivateKey(server_ctx.get(), remote.get()) == 1);
    BOOST_REQUIRE(SSL_CTX_check_private_key(server_ctx.get()) == 1);
    SSL_CTX_set_min_proto_version(client_ctx.get(), version);
    SSL_CTX_set_max_proto_version(client_ctx.get(), version);
    server.reset(SSL_new(server_ctx.get()));
    client.reset(SSL_new(client_ctx.get()));
    SSL_set_mode(server.get(), SSL_MODE_ASYNC);
    BIO *one = nullptr, *other = nullptr;
    BOOST_REQUIRE(BIO_new_bio_pair(&one, 0, &other, 0) == 1);
    SSL_set_bio(server.get(), one, one);
    SSL_set_bio(client.get(), other, other);
    SSL_set_accept_state(server.get());
    SSL_set_connect_state(client.get());
  }
  /// Until nobody gets further; what the server waits for.
  int run() {
    int why = 0;
    for (int i = 0; i < 20; ++i) {
      SSL_do_handshake(client.get());
      ERR_clear_error();
      const int r = SSL_do_handshake(server.get());
      why = r == 1 ? SSL_ERROR_NONE : SSL_get_error(server.get(), r);
      if (why == SSL_ERROR_WANT_ASYNC || why == SSL_ERROR_SSL) break;
    }
    ERR_clear_error();
    return why;
  }
  KeyPtr key;
  std::shared_ptr<Holder> holder;
  X509Ptr certificate{X509_new()};
  KeyPtr remote;
  SslCtxPtr server_ctx{SSL_CTX_new(TLS_server_method())}, client_ctx{SSL_CTX_new(TLS_client_method())};
  SslPtr server, client;
};

EVP_PKEY* make(const std::string& type) {
  if (type == "RSA") return EVP_RSA_gen(2048U);
  return type == "EC" ? EVP_EC_gen("P-256") : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(remote_key)

BOOST_AUTO_TEST_CASE(a_handshake_rests_until_the_signature_is_there) {
  for (const char* type : {"RSA", "EC", "ED25519"}) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      BOOST_TEST_CONTEXT(type << " " << version) {
        Pair pair(make(type), version);
        BOOST_TEST(pair.run() == SSL_ERROR_WANT_ASYNC);
        BOOST_TEST(pair.run() == SSL_ERROR_WANT_ASYNC);  // still
        BOOST_TEST(pair.holder->asked == 1);
        pair.holder->answer();
        BOOST_TEST(pair.run() == SSL_ERROR_NONE);
        BOOST_TEST(SSL_is_init_finished(pair.client.get()) == 1);
        BOOST_TEST(pair.holder->asked == 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_ends_the_handshake) {
  Pair pair(make("EC"), TLS1_3_VERSION);
  BOOST_TEST(pair.run() == SSL_ERROR_WANT_ASYNC);
  pair.holder->refuse();
  BOOST_TEST(pair.run() == SSL_ERROR_SSL);
  BOOST_TEST(SSL_is_init_finished(pair.client.get()) == 0);
}

BOOST_AUTO_TEST_CASE(a_handshake_may_be_dropped_while_it_rests) {
  Pair pair(make("EC"), TLS1_3_VERSION);
  BOOST_TEST(pair.run() == SSL_ERROR_WANT_ASYNC);
  drop_resting(pair.server.get());
  BOOST_TEST(SSL_waiting_for_async(pair.server.get()) == 0);
  BOOST_TEST(pair.holder->last.use_count() == 1);  // nobody waits for it
  pair.server.reset();
  pair.holder->answer();
}

BOOST_AUTO_TEST_CASE(an_answer_at_once_needs_no_rest) {
  Pair pair(make("RSA"), TLS1_3_VERSION);
  pair.holder->at_once = true;
  BOOST_TEST(pair.run() == SSL_ERROR_NONE);
  BOOST_TEST((pair.holder->wanted.kind == SignatureForm::Kind::pss));
}

BOOST_AUTO_TEST_CASE(a_remote_key_is_not_that_of_another_certificate) {
  const Pair pair(make("EC"), TLS1_3_VERSION), other(make("EC"), TLS1_3_VERSION);
  BOOST_TEST(X509_check_private_key(pair.certificate.get(), pair.remote.get()) == 1);
  BOOST_TEST(X509_check_private_key(other.certificate.get(), pair.remote.get()) == 0);
  ERR_clear_error();
}

BOOST_AUTO_TEST_SUITE_END()
