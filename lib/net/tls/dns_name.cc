#include "lib/net/tls/dns_name.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace pen::tls {

bool demand_dns_name(void* ssl_ctx, const std::string& host) {
  X509_VERIFY_PARAM* param = SSL_CTX_get0_param(static_cast<SSL_CTX*>(ssl_ctx));
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(param, host.data(), host.size()) == 1;
}

}  // namespace pen::tls
