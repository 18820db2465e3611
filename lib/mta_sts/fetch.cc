#include "lib/mta_sts/fetch.h"

#include <curl/curl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mta_sts/policy.h"

namespace pen::mta_sts {
namespace {

constexpr std::size_t kMaxHeader = 32 * 1024;
constexpr std::size_t kMaxAddresses = 8;  // that are tried

struct Transfer {
  std::string host;
  std::string body;
  std::size_t header_bytes = 0;
  bool body_too_large = false, header_too_large = false;
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* to) {
  auto& t = *static_cast<Transfer*>(to);
  if (size > kMaxPolicy - t.body.size()) {
    t.body_too_large = true;
    return 0;  // ends the transfer
  }
  t.body.append(data, size);
  return size;
}

std::size_t take_header(char*, std::size_t, std::size_t size, void* to) {
  auto& t = *static_cast<Transfer*>(to);
  t.header_bytes += size;
  t.header_too_large = t.header_bytes > kMaxHeader;
  return t.header_too_large ? 0 : size;
}

/// libcurl takes the common name of a certificate without DNS names; section 3.3 does not. OpenSSL is told so itself.
CURLcode demand_dns_name(CURL*, void* context, void* to) {
  X509_VERIFY_PARAM* param = ::SSL_CTX_get0_param(static_cast<SSL_CTX*>(context));
  ::X509_VERIFY_PARAM_set_hostflags(
      param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const std::string& host = static_cast<Transfer*>(to)->host;
  return ::X509_VERIFY_PARAM_set1_host(param, host.data(), host.size()) == 1 ? CURLE_OK
                                                                             : CURLE_OUT_OF_MEMORY;
}

struct EasyDelete {
  void operator()(CURL* c) const { ::curl_easy_cleanup(c); }
};
struct ListDelete {
  void operator()(curl_slist* l) const { ::curl_slist_free_all(l); }
};

/// "host:port:address,address": what libcurl is to take for the host's addresses.
std::string resolve_entry(const std::string& host, const FetchRequest& request, unsigned port) {
  std::string entry = host + ":" + std::to_string(port) + ":";
  std::size_t count = 0;
  for (const std::string& address : request.addresses) {
    if (count == kMaxAddresses) break;
    if (count++ > 0) entry += ',';
    const bool six = address.find(':') != std::string::npos;
    entry += six ? "[" + address + "]" : address;
  }
  return entry;
}

Fetched failed(FetchOutcome outcome, std::string why) { return {outcome, {}, std::move(why)}; }

Fetched curl_failure(CURLcode code, const Transfer& t, const char* said) {
  if (t.body_too_large)
    return failed(FetchOutcome::policy_invalid, "it is larger than 64 kilobytes");
  if (t.header_too_large)
    return failed(FetchOutcome::fetch_failed, "the header of the answer is too large");
  std::string why = ::curl_easy_strerror(code);
  if (*said != '\0') why = printable(said, 300);
  const bool certificate = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_ISSUER_ERROR;
  return failed(certificate ? FetchOutcome::webpki_invalid : FetchOutcome::fetch_failed,
                std::move(why));
}

bool is_text_plain(const char* type) {
  if (type == nullptr) return false;
  const std::string_view text(type);
  return iequals(trim(text.substr(0, text.find(';'))), "text/plain");
}

class HttpsFetcher final : public Fetcher {
 public:
  explicit HttpsFetcher(FetchOptions options) : options_(std::move(options)) {}

  Fetched fetch(const FetchRequest& request) override {
    Transfer transfer;
    transfer.host = "mta-sts." + request.domain;
    if (options_.ca_file.empty())
      return failed(FetchOutcome::webpki_invalid, "no authority is trusted");
    const std::unique_ptr<CURL, EasyDelete> easy(::curl_easy_init());
    const std::unique_ptr<curl_slist, ListDelete> addresses(
        ::curl_slist_append(nullptr, resolve_entry(transfer.host, request, options_.port).c_str()));
    PEN_CHECK(easy != nullptr && addresses != nullptr);  // out of memory
    std::array<char, CURL_ERROR_SIZE> said{};
    if (const CURLcode code = set_up(easy.get(), transfer, addresses.get(), said.data());
        code != CURLE_OK)
      return failed(FetchOutcome::fetch_failed,
                    std::string("libcurl: ") + ::curl_easy_strerror(code));
    const CURLcode code = ::curl_easy_perform(easy.get());
    // Before the body: what a redirect or an error page holds does not matter.
    long status = 0;
    ::curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status != 0 && status != 200)
      return failed(FetchOutcome::fetch_failed, "HTTP status " + std::to_string(status));
    if (code != CURLE_OK) return curl_failure(code, transfer, said.data());
    const char* type = nullptr;
    ::curl_easy_getinfo(easy.get(), CURLINFO_CONTENT_TYPE, &type);
    if (!is_text_plain(type))
      return failed(
          FetchOutcome::fetch_failed,
          "content type \"" + printable(type == nullptr ? "" : type, 100) + "\" is not text/plain");
    return {FetchOutcome::ok, std::move(transfer.body), {}};
  }

 private:
  CURLcode set_up(CURL* easy, Transfer& transfer, curl_slist* addresses, char* said) const {
    CURLcode all = CURLE_OK;
    const auto set = [&](CURLoption option, auto value) {
      if (all == CURLE_OK) all = ::curl_easy_setopt(easy, option, value);
    };
    const std::string url = "https://" + transfer.host + ":" + std::to_string(options_.port) +
                            "/.well-known/mta-sts.txt";
    set(CURLOPT_URL, url.c_str());  // libcurl copies its texts
    set(CURLOPT_PROTOCOLS_STR, "https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_RESOLVE, addresses);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    set(CURLOPT_CAINFO, options_.ca_file.c_str());
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    set(CURLOPT_SSL_CTX_FUNCTION, &demand_dns_name);
    set(CURLOPT_SSL_CTX_DATA, static_cast<void*>(&transfer));
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_USERAGENT, "Penstock");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.limit.count()));
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.limit.count()));
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_ERRORBUFFER, said);
    return all;
  }

  FetchOptions options_;
};

}  // namespace

std::shared_ptr<Fetcher> https_fetcher(FetchOptions options) {
  static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  PEN_CHECK(ready == CURLE_OK);
  return std::make_shared<HttpsFetcher>(std::move(options));
}

}  // namespace pen::mta_sts
