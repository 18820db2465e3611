#include "lib/net/tls/known_names.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <memory>

#include "lib/base/text.h"

namespace pen::tls {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

ContextPtr context() { return {SSL_CTX_new(TLS_method()), &SSL_CTX_free}; }

// Words of OpenSSL's lists that select no cipher any more, or that are orders.
constexpr std::string_view kWords =
    "ALL COMPLEMENTOFALL DEFAULT COMPLEMENTOFDEFAULT STRENGTH HIGH MEDIUM LOW EXP EXPORT EXPORT40 EXPORT56 eNULL "
    "NULL aNULL ADH AECDH kRSA aRSA RSA kDHr kDHd kDH kEDH kDHE DH EDH DHE aDH aDSS DSS kECDH kECDHr kECDHe "
    "kECDHE kEECDH ECDH EECDH ECDHE aECDH aECDSA ECDSA kPSK aPSK PSK kRSAPSK kDHEPSK kECDHEPSK kSRP aSRP SRP "
    "kGOST aGOST aGOST01 aGOST94 GOST94 GOST89MAC kKRB5 aKRB5 KRB5 kFZA aFZA eFZA FZA SSLv2 SSLv3 TLSv1 TLSv1.0 "
    "TLSv1.1 TLSv1.2 RC2 RC4 RC5 DES 3DES IDEA SEED AES AES128 AES256 AESGCM AESCCM AESCCM8 ARIA ARIA128 ARIA256 "
    "ARIAGCM CAMELLIA CAMELLIA128 CAMELLIA256 CHACHA20 MD5 SHA SHA1 SHA256 SHA384 SUITEB128 SUITEB128ONLY "
    "SUITEB192 FIPS";
// A suite's name is made of these; one with another part is of no version.
constexpr std::string_view kParts =
    "EXP EXP1024 ADH AECDH EDH DHE DH ECDH ECDHE RSA DSS ECDSA PSK SRP KRB5 AES128 AES256 AES GCM CCM CCM8 CBC "
    "CBC3 DES RC4 RC2 IDEA SEED NULL CAMELLIA128 CAMELLIA256 CHACHA20 POLY1305 ARIA128 ARIA256 SHA SHA256 SHA384 "
    "MD5 64 56 GOST94 GOST89 GOST2001 DHr DHd ANON RSAPSK DHEPSK ECDHEPSK";

bool is_one_of(std::string_view known, std::string_view word) {
  return std::ranges::any_of(split(known), [&](std::string_view one) { return one == word; });
}

/// By the parts of its name, for OpenSSL drops suites from its table.
bool is_suite(std::string_view name) {
  if (is_tls13_suite(name)) return true;
  const auto parts = split(name, "-");
  return parts.size() > 1 && std::ranges::all_of(parts, [](std::string_view p) { return is_one_of(kParts, p); });
}

bool is_known(SSL_CTX* ctx, std::string_view name) {
  if (is_one_of(kWords, name) || is_suite(name)) return true;
  const bool found = SSL_CTX_set_cipher_list(ctx, (std::string(name) + ":@SECLEVEL=0").c_str()) == 1;
  ERR_clear_error();
  return found;
}

}  // namespace

std::vector<std::string> unknown_ciphers(std::string_view list) {
  const ContextPtr ctx = context();
  std::vector<std::string> out;
  if (!ctx) return out;
  for (std::string_view item : split(list, " \t\r\n,:;")) {
    if (item.starts_with('@') || item.starts_with("PROFILE=")) continue;
    if (item.find_first_of("!-+") == 0) item.remove_prefix(1);
    for (const std::string_view name : split(item, "+"))
      if (!is_known(ctx.get(), name)) out.emplace_back(name);
  }
  return out;
}

bool is_tls13_suite(std::string_view name) { return name.starts_with("TLS_"); }

bool is_known_group(const std::string& name) {
  // Of OpenSSL 3.5, and of its forks.
  constexpr std::string_view kNewer[] = {"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X448MLKEM1024",
                                         "MLKEM512",       "MLKEM768",          "MLKEM1024",          "curveSM2"};
  if (std::ranges::any_of(kNewer, [&](std::string_view known) { return iequals(known, name); })) return true;
  const ContextPtr ctx = context();
  if (!ctx) return true;
  const bool found = SSL_CTX_set1_groups_list(ctx.get(), name.c_str()) == 1;
  ERR_clear_error();
  return found;
}

}  // namespace pen::tls
