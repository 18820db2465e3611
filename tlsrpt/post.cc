#include "tlsrpt/post.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "lib/base/check.h"

namespace pen::tlsrpt {
namespace {

std::size_t swallow(char* /*data*/, std::size_t size, std::size_t count, void* into) {
  auto& seen = *static_cast<std::size_t*>(into);
  seen += size * count;
  return seen > PostOptions::kMaxAnswer ? 0 : size * count;  // 0 ends the transfer
}

}  // namespace

void post_start() { PEN_CHECK(::curl_global_init(CURL_GLOBAL_DEFAULT) == 0); }

Result<void> post_report(const std::string& url, const std::string& compressed,
                         const PostOptions& options) {
  const std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> easy(::curl_easy_init(),
                                                                   ::curl_easy_cleanup);
  if (!easy) return fail(PostError::failed, "libcurl");
  curl_slist* fields = ::curl_slist_append(nullptr, "Content-Type: application/tlsrpt+gzip");
  const std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)> owned(fields,
                                                                            ::curl_slist_free_all);
  std::size_t answered = 0;
  char words[CURL_ERROR_SIZE] = "";
  CURL* c = easy.get();
  ::curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https");
  ::curl_easy_setopt(c, CURLOPT_PROXY, "");  // no setting of the environment's
  ::curl_easy_setopt(c, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  ::curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
  ::curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
  ::curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options.ca_file.empty()) ::curl_easy_setopt(c, CURLOPT_CAINFO, options.ca_file.c_str());
  ::curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(c, CURLOPT_TIMEOUT, PostOptions::kTime);
  ::curl_easy_setopt(c, CURLOPT_USERAGENT, options.agent.c_str());
  ::curl_easy_setopt(c, CURLOPT_HTTPHEADER, fields);
  ::curl_easy_setopt(c, CURLOPT_POSTFIELDS, compressed.data());
  ::curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(compressed.size()));
  ::curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, swallow);
  ::curl_easy_setopt(c, CURLOPT_WRITEDATA, &answered);
  ::curl_easy_setopt(c, CURLOPT_ERRORBUFFER, words);
  const CURLcode code = ::curl_easy_perform(c);
  long status = 0;
  ::curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  // An answer longer than anybody reads is an answer.
  if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && status != 0))
    return fail(PostError::failed, words[0] != '\0' ? words : ::curl_easy_strerror(code));
  if (status < 200 || status > 299)
    return fail(PostError::refused, fmt::format("status {}", status));
  return {};
}

}  // namespace pen::tlsrpt
