#pragma once
/// Fetches a policy from its policy host, by HTTPS.
///
/// Use:     Fetched f = fetcher->fetch({.domain = "example.org", .addresses = {"192.0.2.1"}});   // on a handler pool
/// Asks:    https://mta-sts.<domain>/.well-known/mta-sts.txt, at the addresses given, in their order; no other name
///          is looked up.
/// Trusts:  TLS 1.2 or later; a chain to an authority of ca_file; a DNS name of the certificate for mta-sts.<domain>
///          (its common name never counts). Redirects are not followed; anything but status 200 and type text/plain
///          is a failure. No proxy, cookies, credentials or cache, whatever the environment says.
/// Bounds:  limit in time for the whole fetch; kMaxPolicy bytes of the body, 32 kilobytes of the header, as they are
///          received.
/// Thread:  any; it blocks. FetchOptions are read when the fetcher is made, the file of authorities at each fetch.
/// Source:  RFC 8461 section 3.3.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/mta_sts/policy.h"

namespace pen::mta_sts {

struct FetchRequest {
  std::string domain;                  // A-labels, lower case
  std::vector<std::string> addresses;  // numeric, of the policy host; at least one
};

struct Fetched {
  FetchOutcome outcome = FetchOutcome::fetch_failed;
  std::string body;  // ok
  std::string why;   // else, for people
};

class Fetcher {
 public:
  virtual ~Fetcher() = default;
  virtual Fetched fetch(const FetchRequest& request) = 0;
};

struct FetchOptions {
  std::string ca_file;  // PEM; empty: none is trusted
  unsigned short port = 443;
  milliseconds limit{60'000};
};
/// Over lib/net/https.
std::shared_ptr<Fetcher> https_fetcher(FetchOptions options);

}  // namespace pen::mta_sts
