#include "lib/net/https/client.h"

#include <curl/curl.h>

#include <array>
#include <memory>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/net/tls/dns_name.h"

namespace pen::https {
namespace {

struct Free {
  void operator()(CURL* c) const { ::curl_easy_cleanup(c); }
  void operator()(CURLU* u) const { ::curl_url_cleanup(u); }
  void operator()(curl_slist* l) const { ::curl_slist_free_all(l); }
};
using List = std::unique_ptr<curl_slist, Free>;

List list_of(const std::string& line) {
  List list(::curl_slist_append(nullptr, line.c_str()));
  PEN_CHECK(list != nullptr);  // out of memory
  return list;
}

struct Place {
  std::string host, port;
};
/// Splits a URL; empty: the URL is malformed.
Place place_of(const std::string& url) {
  const std::unique_ptr<CURLU, Free> parsed(::curl_url());
  PEN_CHECK(parsed != nullptr);
  if (::curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (::curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return std::string();
    std::string out(text);
    ::curl_free(text);
    return out;
  };
  return {part(CURLUPART_HOST), part(CURLUPART_PORT)};
}

/// "host:port:address,address": makes libcurl use these addresses for the host.
std::string resolve_entry(const Place& place, const std::vector<std::string>& addresses) {
  std::string entry = place.host + ":" + place.port + ":";
  std::size_t count = 0;
  for (const std::string& address : addresses) {
    if (count == Request::kMaxAddresses) break;
    if (count++ > 0) entry += ',';
    const bool six = address.contains(':');
    entry += six ? "[" + address + "]" : address;
  }
  return entry;
}

class Transfer {
 public:
  explicit Transfer(const Request& request)
      : request_(request), place_(place_of(request.url)), easy_(::curl_easy_init()) {
    PEN_CHECK(easy_ != nullptr);
  }

  Answer run() {
    set_up();
    if (code_ == CURLE_OK) code_ = ::curl_easy_perform(easy_.get());
    ::curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &answer_.status);
    const char* type = nullptr;
    ::curl_easy_getinfo(easy_.get(), CURLINFO_CONTENT_TYPE, &type);
    if (type != nullptr) answer_.type = type;
    answer_.outcome = outcome();
    if (answer_.outcome != Outcome::ok) {
      answer_.body.clear();
      answer_.why = *said_.data() != '\0' ? printable(said_.data(), 300) : ::curl_easy_strerror(code_);
    }
    return std::move(answer_);
  }

 private:
  static std::size_t take_body(char* data, std::size_t, std::size_t size, void* to) {
    auto& t = *static_cast<Transfer*>(to);
    t.body_too_large_ = size > t.request_.max_body - t.answer_.body.size();
    if (t.body_too_large_) return 0;  // ends the transfer
    t.answer_.body.append(data, size);
    return size;
  }
  static std::size_t take_header(char*, std::size_t, std::size_t size, void* to) {
    auto& t = *static_cast<Transfer*>(to);
    t.header_bytes_ += size;
    t.header_too_large_ = t.header_bytes_ > t.request_.max_header;
    return t.header_too_large_ ? 0 : size;
  }
  /// libcurl accepts the common name of a certificate without DNS names, so OpenSSL itself is told not to.
  static CURLcode only_dns_names(CURL*, void* context, void* to) {
    const std::string& host = static_cast<Transfer*>(to)->place_.host;
    return tls::demand_dns_name(context, host) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
  }

  Outcome outcome() const {
    if (code_ == CURLE_OK) return Outcome::ok;
    if (body_too_large_) return Outcome::body_too_large;
    if (header_too_large_) return Outcome::header_too_large;
    if (code_ == CURLE_SSL_CACERT_BADFILE) return Outcome::authorities;
    const bool certificate = code_ == CURLE_PEER_FAILED_VERIFICATION || code_ == CURLE_SSL_ISSUER_ERROR;
    return certificate ? Outcome::certificate : Outcome::failed;
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    if (code_ == CURLE_OK) code_ = ::curl_easy_setopt(easy_.get(), option, value);
  }

  void set_up() {
    set(CURLOPT_URL, request_.url.c_str());  // libcurl copies its texts
    set(CURLOPT_PROTOCOLS_STR, request_.clear_text ? "https,http" : "https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_USERAGENT, request_.agent.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.limit.count()));
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.limit.count()));
    set(CURLOPT_WRITEFUNCTION, &Transfer::take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    set(CURLOPT_HEADERFUNCTION, &Transfer::take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(this));
    set(CURLOPT_ERRORBUFFER, said_.data());
    set_up_trust();
    if (!request_.addresses.empty()) {
      addresses_ = list_of(resolve_entry(place_, request_.addresses));
      set(CURLOPT_RESOLVE, addresses_.get());
    }
    if (!request_.content_type.empty()) {
      fields_ = list_of("Content-Type: " + request_.content_type);
      for (const std::string& field : request_.fields)
        PEN_CHECK(::curl_slist_append(fields_.get(), field.c_str()) != nullptr);  // out of memory
      set(CURLOPT_HTTPHEADER, fields_.get());
      set(CURLOPT_POSTFIELDS, request_.content.data());  // libcurl does not copy it
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.content.size()));
    }
  }
  void set_up_trust() {
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    if (!request_.ca_file.empty()) {
      set(CURLOPT_CAINFO, request_.ca_file.c_str());
      set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    }
    if (request_.by_dns_name) {
      set(CURLOPT_SSL_CTX_FUNCTION, &Transfer::only_dns_names);
      set(CURLOPT_SSL_CTX_DATA, static_cast<void*>(this));
    }
  }

  const Request& request_;
  Place place_;
  std::unique_ptr<CURL, Free> easy_;
  List addresses_, fields_;
  CURLcode code_ = CURLE_OK;
  std::array<char, CURL_ERROR_SIZE> said_{};
  std::size_t header_bytes_ = 0;
  bool body_too_large_ = false, header_too_large_ = false;
  Answer answer_;
};

}  // namespace

void start() {
  static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  PEN_CHECK(ready == CURLE_OK);
}

Answer ask(const Request& request) { return Transfer(request).run(); }

}  // namespace pen::https
