/// Reads certificates, keys and chains; turns OpenSSL's errors into text.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "lib/base/regular_file.h"
#include "lib/base/text.h"
#include "lib/net/tls/error.h"
#include "lib/net/tls/openssl.h"
#include "lib/net/tls/remote_key.h"

namespace pen::tls {
namespace {

constexpr std::size_t kMaxFile = 4 * 1024 * 1024;  // a larger file is not a PEM file

/// Refuses to ask for a passphrase: the program has no terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

bool is_key(std::string_view name) { return name.ends_with("PRIVATE KEY"); }
bool is_certificate(std::string_view name) {
  return name == PEM_STRING_X509 || name == PEM_STRING_X509_OLD || name == PEM_STRING_X509_TRUSTED;
}

/// The PEM blocks of a text, one after the other.
struct Blocks {
  BioPtr bio;
  std::string name;
  std::string der;

  /// Reads the next block; false: the end.
  Result<bool> next(const std::string& where) {
    char* block_name = nullptr;
    char* header = nullptr;
    unsigned char* data = nullptr;
    long size = 0;
    if (PEM_read_bio(bio.get(), &block_name, &header, &data, &size) != 1) {
      const unsigned long code = ERR_peek_last_error();
      if (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) {
        ERR_clear_error();
        return false;
      }
      return setup_failure(where);
    }
    EVP_CIPHER_INFO cipher{};
    const bool clear = PEM_get_EVP_CIPHER_INFO(header, &cipher) == 1 && cipher.cipher == nullptr;
    name = block_name;
    der.assign(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    OPENSSL_free(block_name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, static_cast<std::size_t>(size));
    if (!clear || name == PEM_STRING_PKCS8)
      return fail(TlsError::setup, where + ": the key has a passphrase; keep it without one");
    return true;
  }
};

}  // namespace

std::string take_openssl_error() {
  std::string out;
  const char* data = nullptr;
  int flags = 0;
  if (const unsigned long code = ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags); code != 0) {
    const char* reason = ERR_reason_error_string(code);
    out = reason ? reason : "error " + std::to_string(code);
    if (data && (flags & ERR_TXT_STRING) != 0 && *data != '\0') out += std::string(": ") + data;
  }
  ERR_clear_error();
  return out;
}

std::unexpected<Error> setup_failure(std::string what) {
  const std::string reason = take_openssl_error();
  if (!reason.empty()) what += ": " + reason;
  return fail(TlsError::setup, std::move(what));
}

Result<std::string> read_file(const std::string& path) {
  // Keys are read by root: a name may lead to what somebody else has put there.
  const auto fd = open_regular_file(path);
  if (!fd) return fail(TlsError::unreadable, path, fd.error().sys_errno());
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd->get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail(TlsError::unreadable, path, errno);
    }
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxFile) return fail(TlsError::unreadable, path, EFBIG);
  }
}

Result<void> ChainReader::feed(std::string_view pem, const std::string& name) {
  ERR_clear_error();
  Blocks blocks{BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))), {}, {}};
  for (;;) {
    PEN_TRY_ASSIGN(const bool more, blocks.next(name));
    if (!more) return {};
    const auto* at = reinterpret_cast<const unsigned char*>(blocks.der.data());
    const auto size = static_cast<long>(blocks.der.size());
    if (is_key(blocks.name)) {
      if (!chains_.empty() && !chains_.back().certificate)
        return fail(TlsError::setup, name + ": a key follows a key; each goes before its certificate");
      chains_.emplace_back();
      chains_.back().key.reset(d2i_AutoPrivateKey(nullptr, &at, size));
      OPENSSL_cleanse(blocks.der.data(), blocks.der.size());
      if (!chains_.back().key) return setup_failure(name);
      key_in_ = name;
    } else if (is_certificate(blocks.name)) {
      if (chains_.empty())
        return fail(TlsError::setup, name + ": a certificate comes first; the key goes before its certificate");
      X509Ptr certificate(d2i_X509(nullptr, &at, size));
      if (!certificate) return setup_failure(name);
      Chain& chain = chains_.back();
      if (!chain.certificate) {
        if (X509_check_private_key(certificate.get(), chain.key.get()) != 1) {
          ERR_clear_error();
          return fail(TlsError::setup, key_in_ == name
                                           ? name + ": the key is not that of the certificate behind it"
                                           : key_in_ + " is not the key of the certificate behind it, in " + name);
        }
        chain.certificate = std::move(certificate);
      } else {
        chain.issuers.push_back(std::move(certificate));
      }
    }
  }
}

Result<std::vector<Chain>> ChainReader::finish(const std::string& name) {
  if (chains_.empty()) return fail(TlsError::setup, name + ": contains no key and certificate");
  if (!chains_.back().certificate) return fail(TlsError::setup, key_in_ + ": no certificate behind the key");
  return std::move(chains_);
}

Result<std::vector<Chain>> parse_chains(std::string_view pem, const std::string& name) {
  ChainReader reader;
  PEN_TRY(reader.feed(pem, name));
  return reader.finish(name);
}

namespace {

Result<void> use(SSL_CTX* ctx, const Chain& chain, const std::string& name) {
  STACK_OF(X509)* issuers = sk_X509_new_null();
  for (const auto& issuer : chain.issuers) sk_X509_push(issuers, issuer.get());
  const int done = SSL_CTX_use_cert_and_key(ctx, chain.certificate.get(), chain.key.get(), issuers, 1);
  sk_X509_free(issuers);  // the context holds references of its own
  if (done != 1) return setup_failure(name);
  return {};
}

Result<KeyPtr> load_key(const std::string& path) {
  PEN_TRY_ASSIGN(std::string pem, read_file(path));
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  ERR_clear_error();
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  OPENSSL_cleanse(pem.data(), pem.size());
  if (!key) return setup_failure(path + ": no usable private key");
  return key;
}

/// The certificates of a text, without a key.
Result<Chain> read_chain(const std::string& pem, const std::string& name) {
  ERR_clear_error();
  Chain chain;
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)) {
    if (!chain.certificate)
      chain.certificate.reset(certificate);
    else
      chain.issuers.emplace_back(certificate);
  }
  if (!chain.certificate) return setup_failure(name + ": no certificate in it");
  ERR_clear_error();  // the end of the file counts as an error there
  return chain;
}

Result<Chain> load_pair(const CertificateFiles& files) {
  PEN_TRY_ASSIGN(const std::string pem, read_file(files.cert_file));
  PEN_TRY_ASSIGN(Chain chain, read_chain(pem, files.cert_file));
  const std::string& key_file = files.key_file.empty() ? files.cert_file : files.key_file;
  PEN_TRY_ASSIGN(chain.key, load_key(key_file));
  if (X509_check_private_key(chain.certificate.get(), chain.key.get()) != 1) {
    ERR_clear_error();
    return fail(TlsError::setup, key_file + " is not the key of the certificate in " + files.cert_file);
  }
  return chain;
}

}  // namespace

Result<Chain> remote_chain(const RemoteCertificate& from, const std::string& name) {
  PEN_TRY_ASSIGN(Chain chain, read_chain(from.certificates, name));
  chain.key = remote_key(X509_get0_pubkey(chain.certificate.get()), from.signer);
  if (!chain.key) return fail(TlsError::setup, name + ": a key of a type that nobody else can hold");
  return chain;
}

Result<void> Context::Impl::load_certificates() {
  std::map<std::string, int> kinds;  // OpenSSL keeps one certificate for each kind of key
  const auto take = [&](const Chain& chain, const std::string& name) -> Result<void> {
    PEN_TRY(use(ctx.get(), chain, name));
    const std::string kind = EVP_PKEY_get0_type_name(X509_get0_pubkey(chain.certificate.get()));
    if (++kinds[kind] == 2)
      warnings.push_back("several certificates have keys of one kind (" + kind + "): of these the last one is used");
    return {};
  };
  for (const auto& one : options.remote) {
    PEN_TRY_ASSIGN(const Chain chain, remote_chain(one, "a certificate of the key process"));
    PEN_TRY(take(chain, "a certificate of the key process"));
  }
  for (const auto& pair : options.pairs) {
    PEN_TRY_ASSIGN(const Chain chain, load_pair(pair));
    PEN_TRY(take(chain, pair.cert_file));
  }
  if (options.chain_files.empty()) return {};
  ChainReader reader;
  for (const auto& file : options.chain_files) {
    PEN_TRY_ASSIGN(std::string pem, read_file(file));
    const auto fed = reader.feed(pem, file);
    OPENSSL_cleanse(pem.data(), pem.size());
    PEN_TRY(fed);
  }
  const std::string names = join(options.chain_files);
  PEN_TRY_ASSIGN(const auto chains, reader.finish(names));
  for (const Chain& chain : chains) PEN_TRY(take(chain, names));
  return {};
}

Result<void> Context::Impl::load_authorities() {
  ERR_clear_error();
  if (options.default_ca && SSL_CTX_set_default_verify_paths(ctx.get()) != 1)
    return setup_failure("the system's certificate authorities");
  if (!options.ca_file.empty()) {
    PEN_TRY(read_file(options.ca_file));  // for an error with an errno
    if (SSL_CTX_load_verify_file(ctx.get(), options.ca_file.c_str()) != 1) return setup_failure(options.ca_file);
    // The server sends its clients this list of acceptable authorities.
    if (options.role == Role::server && options.client_certificate != ContextOptions::ClientCertificate::unasked)
      SSL_CTX_set_client_CA_list(ctx.get(), SSL_load_client_CA_file(options.ca_file.c_str()));
  }
  if (!options.ca_path.empty() && SSL_CTX_load_verify_dir(ctx.get(), options.ca_path.c_str()) != 1)
    return setup_failure(options.ca_path);
  for (const auto& file : options.trust_anchor_files) {
    PEN_TRY(read_file(file));
    if (SSL_CTX_load_verify_file(ctx.get(), file.c_str()) != 1) return setup_failure(file);
  }
  if (!options.trust_anchor_files.empty())
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx.get()), X509_V_FLAG_PARTIAL_CHAIN);
  ERR_clear_error();
  return {};
}

}  // namespace pen::tls
