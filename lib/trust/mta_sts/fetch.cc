#include "lib/trust/mta_sts/fetch.h"

#include "lib/base/text.h"
#include "lib/net/https/client.h"

namespace pen::mta_sts {
namespace {

Fetched failed(FetchOutcome outcome, std::string why) { return {outcome, {}, std::move(why)}; }

Fetched failed(const https::Answer& answer) {
  switch (answer.outcome) {
    case https::Outcome::body_too_large:
      return failed(FetchOutcome::policy_invalid, "it is larger than 64 kilobytes");
    case https::Outcome::header_too_large:
      return failed(FetchOutcome::fetch_failed, "the header of the answer is too large");
    case https::Outcome::authorities:
      return failed(FetchOutcome::no_authorities, answer.why);
    case https::Outcome::certificate:
      return failed(FetchOutcome::webpki_invalid, answer.why);
    default:
      return failed(FetchOutcome::fetch_failed, answer.why);
  }
}

bool is_text_plain(std::string_view type) { return iequals(trim(type.substr(0, type.find(';'))), "text/plain"); }

class HttpsFetcher final : public Fetcher {
 public:
  explicit HttpsFetcher(FetchOptions options) : options_(std::move(options)) {}

  Fetched fetch(const FetchRequest& request) override {
    if (options_.ca_file.empty()) return failed(FetchOutcome::webpki_invalid, "no authority is trusted");
    https::Answer answer = https::ask(
        {.url = "https://mta-sts." + request.domain + ":" + std::to_string(options_.port) + "/.well-known/mta-sts.txt",
         .ca_file = options_.ca_file,
         .agent = "Penstock",
         .limit = options_.limit,
         .max_body = kMaxPolicy,
         .addresses = request.addresses,
         .by_dns_name = true});  // section 3.3
    // Checked before the body: the content of a redirect or an error page does not matter.
    if (answer.status != 0 && answer.status != 200)
      return failed(FetchOutcome::fetch_failed, "HTTP status " + std::to_string(answer.status));
    if (answer.outcome != https::Outcome::ok) return failed(answer);
    if (!is_text_plain(answer.type))
      return failed(FetchOutcome::fetch_failed,
                    "content type \"" + printable(answer.type, 100) + "\" is not text/plain");
    return {FetchOutcome::ok, std::move(answer.body), {}};
  }

 private:
  FetchOptions options_;
};

}  // namespace

std::shared_ptr<Fetcher> https_fetcher(FetchOptions options) {
  https::start();
  return std::make_shared<HttpsFetcher>(std::move(options));
}

}  // namespace pen::mta_sts
