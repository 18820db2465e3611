#pragma once
/// Fetches a domain's MTA-STS policy from its policy host, by HTTPS.
///
/// Use:     Fetched f = fetcher->fetch({.domain = "example.org", .addresses = {"192.0.2.1"}});   // on a handler pool
/// Asks:    https://mta-sts.<domain>/.well-known/mta-sts.txt, at the given addresses in their order; no other name is
///          looked up.
/// Trusts:  TLS 1.2 or later; a chain to an authority of ca_file; a DNS name of the certificate for mta-sts.<domain>
///          (the common name never counts). Redirects are not followed; any status but 200 and any type but text/plain
///          is a failure. No proxy, cookies, credentials or cache, whatever the environment variables say.
/// Bounds:  `limit` bounds the time of the whole fetch; at most kMaxPolicy received bytes of the body and 32 kilobytes
///          of the header.
/// Thread:  any; it blocks. FetchOptions are read when the fetcher is made, the file of authorities for each fetch.
/// Source:  RFC 8461 section 3.3.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/trust/mta_sts/policy.h"

namespace pen::mta_sts {

struct FetchRequest {
  std::string domain;                  // A-labels, lower case
  std::vector<std::string> addresses;  // numeric, of the policy host; at least one
};

struct Fetched {
  FetchOutcome outcome = FetchOutcome::fetch_failed;
  std::string body;  // when ok
  std::string why;   // when not ok, for people
};

class Fetcher {
 public:
  virtual ~Fetcher() = default;
  virtual Fetched fetch(const FetchRequest& request) = 0;
};

struct FetchOptions {
  std::string ca_file;  // PEM; empty: no authority is trusted
  unsigned short port = 443;
  milliseconds limit{60'000};
};
/// The fetcher over lib/net/https.
std::shared_ptr<Fetcher> https_fetcher(FetchOptions options);

}  // namespace pen::mta_sts
