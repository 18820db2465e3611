#pragma once
/// For libraries that do TLS by OpenSSL themselves: restricts which names of a certificate count.
///
/// Use:     in libcurl's CURLOPT_SSL_CTX_FUNCTION: demand_dns_name(context, "mta-sts.example.org")
#include <string>

namespace pen::tls {

/// Only a DNS name of the peer's certificate counts that equals host, or is a whole-label wildcard for it; the common
/// name never does. ssl_ctx: an SSL_CTX. False: out of memory.
bool demand_dns_name(void* ssl_ctx, const std::string& host);

}  // namespace pen::tls
